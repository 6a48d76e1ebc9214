rdma.fp16 dst=0, src=0                   # error: operand n missing # col 1 # help: dst, src, n
rdma.fp16                                # error: operands dst, src, n missing
rdma.fp16 dst=0, src=0, n=4, stride=2    # error: rdma has no operand 'stride' # col 30 # help: did you mean 'stride
rdma.fp16 dst=0, src=0, n=4, n=8         # error: operand 'n' is given twice # col 30
rdma.fp16 dst=0, src=0, 4                # error: operands are written name=value # col 25
rdma.fp16 dst=0, src=0, n=4, worker=3    # error: worker 3 is outside 0..2 # col 37
rdma.fp16 dst=0, src=0, n=4, format=2    # error: no operand 'format'
dte.wait worker=1                        # error: no operand 'worker'
add rd=a0                                # error: positional operands, not rd=
ne.gemm.bf16 a=0, b=0, out=0, m=8, k=8, n=8, inpsum_en=1 # error: no operand 'inpsum_en'
