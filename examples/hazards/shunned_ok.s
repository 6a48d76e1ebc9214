# The same by transfers of single elements.
_start: csrr    t0, mhartid
        bnez    t0, done
        td.memset.fp16 dst=0x10000, value=0, n=32
        td.gatherscatter dst=0x20000, src0=0x10000, n=2, src_stride0=8, src_iter0=8, src_stride1=2, src_iter1=4, dst_stride0=2, dst_iter0=8, dst_stride1=16, dst_iter1=4
        ncc.wait
done:   li      a0, 0
        li      a7, 93
        ecall
