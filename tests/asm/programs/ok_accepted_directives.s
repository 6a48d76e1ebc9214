.option norvc
.file "prog.c"
.globl f
.type f, @function
f: nop                  # = 13000000
.size f, . - f
.local g
g: nop                  # = 13000000
.machine "tx81"
