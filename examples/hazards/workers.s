# Worker 1 reads what worker 0 writes: nothing looks for conflicts between workers.
_start: csrr    t0, mhartid
        bnez    t0, done
        td.memset.fp32 dst=0x10000, value=1.5, n=64
        ct.abs.v.fp32 dst=0x11000, src0=0x10000, n=64, worker=1
        ncc.wait
        ncc.wait worker=1
done:   li      a0, 0
        li      a7, 93
        ecall
