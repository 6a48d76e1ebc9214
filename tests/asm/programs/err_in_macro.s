.macro bad x
    addi a0, a0, \x     # error: imm = 5000 is outside # col 18 # note: in the expansion of macro bad at
.endm
bad 5000
nop
