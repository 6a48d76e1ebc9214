ct.add.vuv_loop.fp16 dst=0, src0=0, src1=0, n=128, unit=32, full=384, full_unit=192 # error: unit must be 64 in the loop form; found unit = 32 # col 1
ne.gemm.bf16 a=0, b=0, out=0, m=8, k=8, n=8, out_format=tf32 # error: out_format must be the input format or fp32
nop; td.transpose.fp16 dst=0, src0=0, shape=[1,4,8,1], dst_shape=[1,4,8,1] # error: exchanged # col 6
ne.gemm.fp16 a=0x1000, b=0x2000, out=0x3000, m=1, k=4, n=4, lb=2, rb=2
ne.gemm.fp16 a=0x1000, b=0x2000, out=0x3000, m=1, k=4, n=4, lb=2, rb=3 # error: lb and rb must be equal, or one of them 1
