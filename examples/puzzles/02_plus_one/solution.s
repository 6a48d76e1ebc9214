        .input  x, fp32, 1000
        .output y, fp32, 1000
_start: csrr    t0, mhartid
        bnez    t0, done
        la      a0, x
        la      a1, y
        rdma.fp32      dst=0x10000, src=a0, n=1000
        ct.add.vs.fp32 dst=0x20000, src0=0x10000, src1=1.0, n=1000
        wdma.fp32      dst=a1, src=0x20000, n=1000
        ncc.wait
done:
        li      a0, 0
        li      a7, 93                  # exit
        ecall
