# A fill of 1 MB takes a fraction of that.
_start: csrr    t0, mhartid
        bnez    t0, done
        td.memset.int8 dst=0x10000, value=0, n=0x100000
        ncc.wait
done:   li      a0, 0
        li      a7, 93
        ecall
