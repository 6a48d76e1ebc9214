addi a0, a0, 2048       # error: imm = 2048 is outside -2048..2047 # col 14 # help: li puts a larger number into a register
slli a0, a0, 64         # error: shamt = 64 is outside 0..63 # col 14
slliw a0, a0, 32        # error: shamt = 32 is outside 0..31
lui a0, 0x100000        # error: outside 0..1048575 # col 9
csrwi mscratch, 32      # error: zimm = 32 is outside 0..31
lw a0, -2049(sp)        # error: outside -2048..2047 # col 8 # help: which add, and, or, xor and slt take
