here: nop
here: nop               # error: symbol here is defined twice # col 1 # help: err_defined_twice.s:1
.equiv K, 1
.equiv K, 2             # error: symbol K is defined twice # col 8
K = 3                   # error: symbol K is defined twice
a0: nop                 # error: a0 is a register
.equ sp, 5              # error: sp is a register
