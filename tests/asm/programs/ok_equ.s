.equ A, 5
.set B, A + 1
C = B * 2
.equiv D, C
.set B, 100
.byte A, B, C, D        # = 05640c0c
.byte LATER - 1         # = 06
.equ LATER, 7
