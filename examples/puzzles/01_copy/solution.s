        .input  x, fp32, 256
        .output y, fp32, 256
_start: csrr    t0, mhartid             # the number of this tile
        bnez    t0, done                # only tile 0 works
        la      a0, x
        la      a1, y
        rdma.fp32 dst=0x10000, src=a0, n=256
        wdma.fp32 dst=a1, src=0x10000, n=256
        ncc.wait
done:
        li      a0, 0
        li      a7, 93                  # exit
        ecall
