.const w, int8, 4, tensor, "bytes.dat", 2 # = 02030405
nop
