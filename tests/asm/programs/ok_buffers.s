.input x, fp16, 4x129x112x2, ntensor, float32
.const w, int8, 8, "bytes.dat"
.output y, bool, scalar
.dword x, w, y          # = 001000800200000000b003800200000000a0038002000000
nop
