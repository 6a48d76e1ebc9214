.equ far, 0x12345ffc
lui a0, %hi(far)        # = 37653412
addi a0, a0, %lo(far)   # = 1305c5ff
lw a0, %lo(far+8)(a0)   # = 03254500
1: auipc a1, %pcrel_hi(word) # = 97150000
addi a1, a1, %pcrel_lo(1b)   # = 938545ff
.dword %ncc(word)       # = 0010008002000000
.dword %core(%ncc(word)) # = 0010008000000000
.equ lowest, -0x80000800
lui a0, %hi(lowest)     # = 37050080
.equ highest, 0x7ffff7ff
lui a0, %hi(highest)    # = 37f5ff7f
.data
word: .word 1
