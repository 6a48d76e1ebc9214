.macro load reg, value=7
    li \reg, \value
.endm
load a0                 # = 13057000
load a0, 8              # = 13058000
load value=9, reg=a1    # = 93059000
.macro twice text:vararg
    \text
    \text
.endm
twice addi a0, a0, 1    # = 1305150013051500
.macro unique
label\@: j label\@
.endm
unique                  # = 6f000000
unique                  # = 6f000000
.macro joined name
\name\()_x: nop
.endm
joined foo              # = 13000000
j foo_x                 # = 6ff0dfff
