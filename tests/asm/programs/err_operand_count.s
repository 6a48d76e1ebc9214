add a0, a1              # error: 2 operands found # help: rd, rs1, rs2
ecall 1                 # error: 1 operand found # help: no operand
mv a0                   # error: mv takes 2 operands, found 1
ret a0                  # error: ret takes no operand
li a0                   # error: li takes a register and a value
call                    # error: call takes a label
jr a0, a1               # error: jr: 2 operands found
