_start: csrr    t0, mhartid
        bnez    t0, done
        td.memset.fp32 dst=0x10000, value=1.5, n=64
        ct.abs.v.fp32 dst=0x12000, src0=0x10000, n=64           # the same worker: its conflicts are seen
        ncc.wait
        ct.abs.v.fp32 dst=0x11000, src0=0x10000, n=64, worker=1
        ncc.wait worker=1
done:   li      a0, 0
        li      a7, 93
        ecall
