# halves.s: as plus_one.s, in two halves: the second is loaded while the first is computed and stored
# (exercise 3 of docs/first_hour.md). No wait is needed in between: the queues keep the order of instructions that
# touch the same bytes, and the halves touch different ones.

        .input  x, fp32, 16x50000
        .output y, fp32, 16x50000
        .equ    ONE, 0x3f800000                 # the bits of 1.0 in FP32
        .equ    HALF, 25000

_start: csrr    t0, mhartid
        li      t1, 50000 * 4                   # bytes of a row
        mul     t0, t0, t1
        la      a0, x
        la      a1, y
        add     a0, a0, t0                      # my row of x and of y
        add     a1, a1, t0
        li      t1, HALF * 4
        add     a2, a0, t1                      # their second halves
        add     a3, a1, t1
        rdma.fp32      dst=0x10000, src=a0, n=HALF
        rdma.fp32      dst=0x40000, src=a2, n=HALF
        ct.add.vs.fp32 dst=0x80000, src0=0x10000, src1=ONE, n=HALF
        wdma.fp32      dst=a1, src=0x80000, n=HALF
        ct.add.vs.fp32 dst=0xc0000, src0=0x40000, src1=ONE, n=HALF
        wdma.fp32      dst=a3, src=0xc0000, n=HALF
        ncc.wait
        li      a0, 0
        li      a7, 93
        ecall
