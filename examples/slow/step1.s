# step1.s: C = A x B on sixteen tiles, as one writes it first: do one thing, wait, do the next.
#
# A is 256 x 2048, B is 2048 x 256, both fp16; C is 256 x 256. In DDR they are cut into blocks of 64 columns, as NE
# wants them: so every load is of long runs. Tile t computes the rows 16 * t to
# 16 * t + 15 of C. A step takes 64 columns of A and 64 rows of B, and adds their product to the sums in the SPM.

        .equ    M, 256
        .equ    K, 2048
        .equ    N, 256
        .equ    MT, M / 16                              # rows of a tile
        .equ    KT, 64                                  # columns of A in one step
        .equ    BLOCK, 64                               # NE wants blocks of 64 columns, one behind the other
        .equ    ELEMENT, 2                              # bytes of an fp16 number

        .input  A, fp16, 256x2048, cx
        .input  B, fp16, 2048x256, cx
        .output C, fp16, 256x256, cx

        .equ    ABUF, 0x20000                           # 16 x 64 x 2 bytes
        .equ    BBUF, 0x40000                           # 64 x 256 x 2 bytes
        .equ    SUMS, 0x60000                           # 16 x 256 x 4 bytes
        .equ    CBUF, 0x70000                           # 16 x 256 x 2 bytes

_start: csrr    s0, mhartid
        la      s2, A
        li      t0, MT * BLOCK * ELEMENT
        mul     t0, t0, s0
        add     s2, s2, t0                              # my rows of A
        la      s3, B
        la      s4, C
        li      t0, MT * BLOCK * ELEMENT
        mul     t0, t0, s0
        add     s4, s4, t0                              # my rows of C
        li      s5, KT * BLOCK * ELEMENT
        li      s10, KT * M * ELEMENT

        td.memset.fp32 dst=SUMS, value=0.0, n=MT * N
        ncc.wait
        li      s6, K / KT
step:
        rdma.fp16 dst=ABUF, src=s2, n=MT * BLOCK
        ncc.wait
        rdma.fp16 dst=BBUF, src=s3, n=KT * BLOCK, stride0=K * BLOCK, iter0=N / BLOCK
        ncc.wait
        ne.gemm.fp16 a=ABUF, b=BBUF, psum=SUMS, out=SUMS, out_format=fp32, m=MT, k=KT, n=N, rt=1
        ncc.wait
        add     s2, s2, s10                             # the next columns of A
        add     s3, s3, s5                              # the next rows of B
        addi    s6, s6, -1
        bnez    s6, step

        ct.cvt.fp32.fp16 dst=CBUF, src0=SUMS, n=MT * N
        ncc.wait
        wdma.fp16 dst=s4, src=CBUF, n=MT * BLOCK, stride0=M * BLOCK, iter0=N / BLOCK
        ncc.wait
        li      a0, 0
        li      a7, 93                                  # exit
        ecall
