.macro inner x
    .byte \x
.endm
.macro outer x, y
    inner \x
    .if \y
    inner \y
    .else
    inner 0xee
    .endif
.endm
.data
outer 1, 2              # = 0102
outer 1, 0              # = 01ee
.text
nop
