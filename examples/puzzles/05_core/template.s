        .input  x, int32, 64
        .output y, int32, 1
_start: csrr    t0, mhartid
        bnez    t0, done
        la      a0, x
        la      a1, y
        li      s0, 0x30410000          # SPM byte 0x10000, as the core sees it
        li      s1, 0x30420000          # SPM byte 0x20000
        rdma.int32 dst=0x10000, src=a0, n=64
        ncc.wait
        # your part: t1 = first + last; store it at 0(s1)
        wdma.int32 dst=a1, src=0x20000, n=1
        ncc.wait
done:
        li      a0, 0
        li      a7, 93                  # exit
        ecall
