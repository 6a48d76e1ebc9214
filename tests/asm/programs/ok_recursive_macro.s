.macro count n
    .byte \n
    .if \n
    count (\n - 1)
    .endif
.endm
count 3                 # = 03020100
