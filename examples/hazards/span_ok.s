# The numbers that are read afterwards lie in another line, or are written after the result.
        .output y, fp32, 4
_start: csrr    t0, mhartid
        bnez    t0, done
        la      a1, y
        td.memset.fp32 dst=0x10000, value=1.5, n=128
        ct.add.vv.fp32 dst=0x10000, src0=0x10000, src1=0x10000, n=2
        td.memset.fp32 dst=0x10008, value=2.5, n=2
        wdma.fp32 dst=a1, src=0x10000, n=4
        ct.abs.v.fp32 dst=0x10200, src0=0x10100, n=64
        ncc.wait
done:   li      a0, 0
        li      a7, 93
        ecall
