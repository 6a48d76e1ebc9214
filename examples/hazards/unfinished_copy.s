# The DTE sends what an engine may still be writing, and the core overwrites what the DTE may still be reading.
_start: csrr    t0, mhartid
        bnez    t0, done
        td.memset.fp32 dst=0x10000, value=1.5, n=64
        dte.unicast dst=0x20000, src=0x10000, tile=1, n=256
        li      t1, 0x30410000
        sw      zero, 0(t1)
        dte.wait
        ncc.wait
done:   li      a0, 0
        li      a7, 93
        ecall
