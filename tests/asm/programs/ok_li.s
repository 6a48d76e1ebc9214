li a0, 0                # = 13050000
li a0, -1               # = 1305f0ff
li a0, 2047             # = 1305f07f
li a0, 2048             # = 371500001b050580
li a0, 0x12345000       # = 37553412
li a0, 0x80000000       # = 1b0510001315f501
li a0, 0xffffffffffffffff # = 1305f0ff
li a0, 'A'              # = 13051004
.equ SIZE, 64
li a0, SIZE * 2         # = 13050008
