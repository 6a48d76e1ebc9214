.data
.byte 1
.align 2                # = 000000
.byte 1
.balign 4, 0xff         # = ffffff
.byte 1
.p2align 1              # = 00
.byte 9                 # = 09
.text
.byte 1
.align 3                # = 00010013000000
nop                     # = 13000000
