.globl 5                # error: '5' is not a name
  .globl ghost          # error: symbol ghost is declared and never defined # col 3
f: nop
.type f, @wat           # error: @wat # help: @function
.size f                 # error: takes a name and an expression
.size f, 0 - 1          # error: -1 is negative
.option relaxed           # error: .option relax # help: norvc
.equ x                  # error: .equ takes NAME, expression
.equ y, 1, 2            # error: one expression is expected, found 2
.loc 5                  # error: .loc takes "file" line
.node conv              # error: .node takes one string
.machine "tx99"         # error: the program is for machine tx99, this is tx81 # help: --machine
.base 0x80000000
.base 0x80001000        # error: already has the base 0x80000000
nop
