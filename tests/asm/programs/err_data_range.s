.byte 256               # error: 256 does not fit 1 byte # col 7 # help: -128..255
.byte 1, -129           # error: -129 does not fit 1 byte # col 10
.half 0x10000           # error: does not fit 2 bytes
.word 1 << 32           # error: does not fit 4 bytes
.word big               # error: does not fit 4 bytes
.equ big, 1 << 40
.float 1e39             # error: does not fit .float
.byte a, b              # error: undefined symbol a # error: undefined symbol b
