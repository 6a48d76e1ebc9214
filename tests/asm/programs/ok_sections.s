nop
.data
a: .word b              # = 00200080
.section .rodata.x
b: .word c              # = 00300080
.bss
c: .space 16
.text
.word a                 # = 00100080
.section .custom, "aw", @progbits
.byte 7                 # = 07
