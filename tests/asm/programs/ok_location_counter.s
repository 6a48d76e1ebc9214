.word . - base          # = fcffffff
base:
.word . - base          # = 00000000
.word . - base, 0       # = 0400000000000000
j .                     # = 6f000000
j . + 8                 # = 6f008000
nop
