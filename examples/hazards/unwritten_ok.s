# Writes what it reads; the padding lanes of an aligned tensor (60 channels of 64) are read by nobody.
        .output y, fp32, 60
_start: csrr    t0, mhartid
        bnez    t0, done
        la      a1, y
        td.memset.fp32 dst=0x10000, value=1.5, n=60
        ct.reduce.sum.fp32 dst=0x11000, src0=0x10000, shape=[1,1,1,60], dims=w
        wdma.fp32 dst=a1, src=0x11000, n=60
        ncc.wait
done:   li      a0, 0
        li      a7, 93
        ecall
