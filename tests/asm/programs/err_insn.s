.insn 1 << 32           # error: does not fit 32 bits
.insn                   # error: takes 1 arguments, found 0
