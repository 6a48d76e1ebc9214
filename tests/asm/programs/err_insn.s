.insn 1 << 32           # error: does not fit 16 bits
.insn (1 << 32) + 3     # error: does not fit 32 bits
.insn                   # error: takes 1 to 2 arguments, found 0
