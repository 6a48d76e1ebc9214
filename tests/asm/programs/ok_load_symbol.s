lw a0, word             # = 1715000003250500
sd a1, word, t0         # = 9712000023bcb2fe
.data
word: .word 1
