.incbin "bytes.dat"       # = 0001020304050607
.incbin "bytes.dat", 6    # = 0607
.incbin "bytes.dat", 2, 3 # = 020304
