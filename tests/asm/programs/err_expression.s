.word 1 / 0             # error: division of 1 by zero # col 9
.word 1 << 64           # error: shift by 64 is outside 0..63 # col 9
.word 1 >> -1           # error: shift by -1 is outside
.dword 0xffffffffffffffff + 1 # error: does not fit 64 bits # col 27
.dword 0x10000000000000000    # error: does not fit 64 bits # col 8
.dword -0x8000000000000000 - 1 # error: does not fit 64 bits
.word 08                # error: malformed number 08
.word 0x                # error: malformed number 0x
.word 1.5               # error: 1.5 is a fraction
.word 'ab'              # error: unexpected
.word 5 %hi(here)       # error: unexpected 'hi(' # col 10
.word a0 + 1            # error: register a0 cannot be used in an expression # col 7
.word %up(1)            # error: unknown function %up # help: %hi
