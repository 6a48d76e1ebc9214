add a0, a1, [1]         # error: rs2: an expression is expected # col 13
rdma.fp16 dst="x", src=0, n=4 # error: operand 'dst': an expression is expected # col 15
li (a0), 5              # error: an x register is expected # col 4
lw a0, 4(sp), 5         # error: 3 operands found
sw a0, 5                # error: imm(rs1) is expected here # col 8
addi a0, a0, 4(sp)      # error: imm: an expression is expected # col 14
.word "x"               # error: .word: an expression is expected # col 7
