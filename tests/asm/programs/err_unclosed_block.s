nop
.rept 3                 # error: .rept without .endr
nop
.macro open             # error: .macro without .endm
nop
