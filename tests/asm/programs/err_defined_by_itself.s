.equ A, B + 1           # error: symbol A is defined by itself: A -> B -> A # col 6
.equ B, A + 1
.dword A
li a0, A
li a1, B * 2
.equ UNUSED, NOTHING    # error: undefined symbol NOTHING # col 14
.equ SELF, SELF * 2     # error: symbol SELF is defined by itself: SELF -> SELF # col 6
nop
