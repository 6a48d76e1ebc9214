# Keeps numbers in the 256-byte line in which a result ends: CT may write to the end of that line.
        .output y, fp32, 4
_start: csrr    t0, mhartid
        bnez    t0, done
        la      a1, y
        td.memset.fp32 dst=0x10000, value=1.5, n=64
        ct.add.vv.fp32 dst=0x10000, src0=0x10000, src1=0x10000, n=2
        wdma.fp32 dst=a1, src=0x10000, n=4
        ncc.wait
done:   li      a0, 0
        li      a7, 93
        ecall
