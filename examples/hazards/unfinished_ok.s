# The same with the wait in its place.
_start: csrr    t0, mhartid
        bnez    t0, done
        td.memset.fp32 dst=0x10000, value=1.5, n=4
        ncc.wait
        li      t1, 0x30410000
        lw      t2, 0(t1)
        sw      t2, 4(t1)
        ct.abs.v.fp32 dst=0x10100, src0=0x10000, n=4
        ncc.wait
done:   li      a0, 0
        li      a7, 93
        ecall
