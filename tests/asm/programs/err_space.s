nop
.space -1               # error: size -1 is outside
.space later            # error: the value must be known here, found later # col 8
.fill 1, 9              # error: size 9 is outside 0..8
.align 13               # error: outside 0..12
.balign 3               # error: expected a power of two
.align                  # error: takes 1 to 3 arguments, found 0
.org 0                  # error: goes back
.equ later, 4
.skip 1, 300            # error: fill 300 is outside 0..255
