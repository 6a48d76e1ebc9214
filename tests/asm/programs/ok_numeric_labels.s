1:  nop
    j 1b                # = 6ff0dfff
    j 1f                # = 6f008000
    nop
1:  j 1b                # = 6f000000
2:  j 2f                # = 6f004000
2:  j 2b                # = 6f000000
0:  bnez a0, 0b         # = 63100500
