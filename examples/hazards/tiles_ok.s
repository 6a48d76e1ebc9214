# Every tile writes its own element; after a barrier tile 0 reads all of them.
        .output y, fp32, 16
_start: csrr    t0, mhartid
        la      a1, y
        slli    t1, t0, 2
        add     t1, a1, t1
        td.memset.fp32 dst=0x10000, value=1.5, n=1
        wdma.fp32 dst=t1, src=0x10000, n=1
        ncc.wait
        ncc.barrier
        bnez    t0, done
        rdma.fp32 dst=0x20000, src=a1, n=16
        ncc.wait
done:   li      a0, 0
        li      a7, 93
        ecall
