# barrier.s: twelve tiles exchange rows, four have nothing to do. It never ends.
#
# x is 12 x 64, fp32. Tile t writes twice its row to DDR, and then reads what its successor wrote.

        .equ    TILES, 12
        .equ    WIDTH, 64

        .input  x, fp32, 12x64
        .output twice, fp32, 12x64
        .output y, fp32, 12x64

_start: csrr    s0, mhartid
        li      s1, TILES
        bgeu    s0, s1, done                            # no row for me
        li      s2, WIDTH * 4
        mul     s3, s0, s2                              # bytes before my row
        la      t0, x
        add     t0, t0, s3
        rdma.fp32 dst=0x10000, src=t0, n=WIDTH
        ct.add.vv.fp32 dst=0x10000, src0=0x10000, src1=0x10000, n=WIDTH
        la      t0, twice
        add     t0, t0, s3
        wdma.fp32 dst=t0, src=0x10000, n=WIDTH
        ncc.wait
        ncc.barrier                                     # until all have written
        addi    s4, s0, 1
        remu    s4, s4, s1                              # my successor
        mul     s4, s4, s2
        la      t0, twice
        add     t0, t0, s4
        rdma.fp32 dst=0x10000, src=t0, n=WIDTH
        la      t0, y
        add     t0, t0, s3
        wdma.fp32 dst=t0, src=0x10000, n=WIDTH
        ncc.wait
done:   li      a0, 0
        li      a7, 93                                  # exit
        ecall
