# Reads 8 elements of which only 4 were written. Mended: n=4 in line 6.
        .output y, fp32, 8
_start: csrr    t0, mhartid
        bnez    t0, done
        la      a1, y
        td.memset.fp32 dst=0x10000, value=1.5, n=4
        wdma.fp32 dst=a1, src=0x10000, n=8
        ncc.wait
done:   li      a0, 0
        li      a7, 93
        ecall
