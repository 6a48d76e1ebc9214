# normalise_ok.s: normalise.s with the wait that it lacks.
#
# x is 128 x 256, fp32; tile t has the rows 8 * t to 8 * t + 7. The engines add the numbers of a row up, the kernel
# core divides 1 by the sum, the engines multiply. The sums are an output too.

        .equ    ROWS, 8                                 # of a tile
        .equ    WIDTH, 256
        .equ    BYTES, WIDTH * 4                        # of a row
        .equ    APART, 256                              # bytes from a sum to the next

        .input  x, fp32, 128x256
        .output sums, fp32, 128
        .output y, fp32, 128x256

        .equ    XBUF, 0x10000                           # 8 rows
        .equ    SUMS, 0x20000                           # 8 sums

_start: csrr    s0, mhartid
        li      s4, BYTES
        li      t0, ROWS * BYTES
        mul     t0, t0, s0
        la      s1, x
        add     s1, s1, t0                              # my rows of x
        la      s6, y
        add     s6, s6, t0                              # and of y
        la      s7, sums
        slli    t0, s0, 5
        add     s7, s7, t0                              # my eight sums

        li      s2, XBUF
        li      s3, SUMS
        li      s5, ROWS
sum:    rdma.fp32 dst=s2, src=s1, n=WIDTH
        ct.reduce.sum.fp32 dst=s3, src0=s2, shape=[1, 1, 1, WIDTH], dims=c
        add     s1, s1, s4
        add     s2, s2, s4
        addi    s3, s3, APART
        addi    s5, s5, -1
        bnez    s5, sum

        li      s3, SUMS
        li      s5, ROWS
store:  wdma.fp32 dst=s7, src=s3, n=1
        addi    s3, s3, APART
        addi    s7, s7, 4
        addi    s5, s5, -1
        bnez    s5, store

        ncc.wait                                        # the core must not read sums before they are there

        # From the last row to the first: the registers stand there already.
        li      t0, 0x30400000
        add     s3, s3, t0                              # the SPM as the core sees it
        li      t0, ROWS * BYTES
        add     s6, s6, t0
        li      t0, 1
        fcvt.s.w fs0, t0
        li      s5, ROWS
scale:  addi    s3, s3, -APART
        sub     s2, s2, s4
        sub     s6, s6, s4
        flw     fa0, 0(s3)
        fdiv.s  fa0, fs0, fa0
        fmv.x.w t1, fa0
        ct.mul.vs.fp32 dst=s2, src0=s2, src1=t1, n=WIDTH
        wdma.fp32 dst=s6, src=s2, n=WIDTH
        addi    s5, s5, -1
        bnez    s5, scale
        ncc.wait
        li      a0, 0
        li      a7, 93                                  # exit
        ecall
