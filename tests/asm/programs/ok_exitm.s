.macro until n
    .byte 1
    .if \n == 0
    .exitm
    .endif
    .byte 2
.endm
until 0                 # = 01
until 1                 # = 0102
