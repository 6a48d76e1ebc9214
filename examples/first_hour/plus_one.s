# plus_one.s: each tile adds 1 to a row of its own (exercise 2 of docs/first_hour.md).

        .input  x, fp32, 16x50000
        .output y, fp32, 16x50000
        .equ    ONE, 0x3f800000                 # the bits of 1.0 in FP32

_start: csrr    t0, mhartid
        li      t1, 50000 * 4                   # bytes of a row
        mul     t0, t0, t1
        la      a0, x
        la      a1, y
        add     a0, a0, t0                      # my row of x and of y
        add     a1, a1, t0
        rdma.fp32      dst=0x10000, src=a0, n=50000
        ct.add.vs.fp32 dst=0x80000, src0=0x10000, src1=ONE, n=50000
        wdma.fp32      dst=a1, src=0x80000, n=50000
        ncc.wait                                # the result is in DDR before the tile exits
        li      a0, 0
        li      a7, 93
        ecall
