.rept 3                 # = 010101
.byte 1
.endr
.irp x, 1, 2, 0x10      # = 010210
.byte \x
.endr
.irpc d, 123            # = 010203
.byte \d
.endr
.rept 2                 # = 050606050606
.byte 5
.rept 2
.byte 6
.endr
.endr
.rept 0                 # =
bogus
.endr
