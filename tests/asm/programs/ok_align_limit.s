.data
.byte 1
.balign 8, 0, 3         # =
.byte 2                 # = 02
