.data
.byte 1
.org 4                  # = 000000
.byte 2                 # = 02
here: .org here + 4, 0xee # = eeeeeeee
