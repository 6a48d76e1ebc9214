rdma.fp16 dst=0x400000, src=0, n=4       # error: operand 'dst': 4194304 is outside 0..4194303 # col 15
rdma.fp16 dst=0, src=0, n=4, iter0=0     # error: operand 'iter0': 0 is outside 1..16777215
ct.add.vv.fp16 dst=0, src0=0, src1=0, n=8, rnd=up  # error: undefined symbol up # col 48
ct.add.vv.fp16 dst=0, src0=0, src1=0, n=8, rnd=9   # error: is not one of rne
ct.add.vv.fp16 dst=0, src0=0, src1=0, n=8, rnd=a0  # error: operand 'rnd' takes no register
ct.reduce.sum.fp16 dst=0, src0=0, shape=[1,2,3], dims=c     # error: operand 'shape' takes [n, h, w, c], found 3 # col 41
ct.reduce.sum.fp16 dst=0, src0=0, shape=[0,2,3,4], dims=c   # error: n = 0 is outside 1..4096 # col 42
ct.reduce.sum.fp16 dst=0, src0=0, shape=[1,a0,3,4], dims=c  # error: register a0 cannot be used
rdma.fp16 dst=[1], src=0, n=4            # error: operand 'dst' takes one value
