# WDMA stores an element that the core loads through its cache, which may have it as it was before.
        .bss
        .balign 64
data:   .space  64
        .text
_start: csrr    t0, mhartid
        bnez    t0, done
        td.memset.fp32 dst=0x10000, value=1.5, n=1
        wdma.fp32 dst=%ncc(data), src=0x10000, n=1
        ncc.wait
        la      t1, data
        lw      t2, 0(t1)
done:   li      a0, 0
        li      a7, 93
        ecall
