.byte 1
.space 3                # = 000000
.skip 2, 0xff           # = ffff
.zero 2                 # = 0000
.fill 2, 2, 0x1234      # = 34123412
.fill 3                 # = 000000
.byte 2                 # = 02
