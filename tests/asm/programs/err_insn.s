.insn 1 << 32           # error: does not fit 16 bits
.insn (1 << 32) + 3     # error: does not fit 32 bits
.insn                   # error: takes 1 to 2 arguments, found 0
.insn cs C0, 6, a0, 31(a1)
.insn cs C0, 6, a0, 32(a1) # error: imm = 32 is outside 0..31 # col 21
.insn ci C1, 2, a0, 31
.insn ci C1, 2, a0, 32  # error: imm = 32 is outside -32..31
.insn ci C1, 2, a0, -32
.insn ci C1, 2, a0, -33 # error: imm = -33 is outside -32..31
