# step4.s: the same as step3.s, with C cut into squares instead of rows.
#
# A tile that computes 64 x 64 numbers of C needs 64 rows of A and 64 columns of B: half the bytes of 16 rows of A
# and all columns of B.
#
# A is 256 x 2048, B is 2048 x 256, both fp16; C is 256 x 256. In DDR they are cut into blocks of 64 columns, as NE
# wants them: so every load is of long runs. C is 4 x 4 squares; tile t
# computes square t / 4 from the top, t mod 4 from the left. A step takes 256 columns of A and 256 rows of B.

        .equ    M, 256
        .equ    K, 2048
        .equ    N, 256
        .equ    MT, M / 4                               # rows of a tile
        .equ    NT, N / 4                               # and columns
        .equ    KT, 256                                 # columns of A in one step
        .equ    BLOCK, 64                               # NE wants blocks of 64 columns, one behind the other
        .equ    ELEMENT, 2                              # bytes of an fp16 number

        .input  A, fp16, 256x2048, cx
        .input  B, fp16, 2048x256, cx
        .output C, fp16, 256x256, cx

        .equ    SWAP, 0x40000
        .equ    ABUF, 0x000000                          # and 0x040000: 64 x 256 x 2 bytes
        .equ    BBUF, 0x080000                          # and 0x0c0000: 256 x 64 x 2 bytes
        .equ    SUMS, 0x100000                          # 64 x 64 x 4 bytes
        .equ    CBUF, 0x110000                          # 64 x 64 x 2 bytes

_start: csrr    s0, mhartid
        srli    s1, s0, 2                               # from the top
        andi    s0, s0, 3                               # from the left
        la      s2, A
        li      t0, MT * BLOCK * ELEMENT
        mul     t0, t0, s1
        add     s2, s2, t0                              # my rows of A
        la      s3, B
        li      t0, NT * K * ELEMENT
        mul     t0, t0, s0
        add     s3, s3, t0                              # my columns of B
        la      s4, C
        li      t0, NT * M * ELEMENT
        mul     t0, t0, s0
        add     s4, s4, t0
        li      t0, MT * BLOCK * ELEMENT
        mul     t0, t0, s1
        add     s4, s4, t0                              # my square of C
        li      s5, KT * BLOCK * ELEMENT
        li      s10, KT * M * ELEMENT

        li      s7, ABUF                                # the buffers of this step
        li      s8, BBUF
        li      s9, SWAP
        td.memset.fp32 dst=SUMS, value=0.0, n=MT * NT
        li      s6, K / KT
step:
        rdma.fp16 dst=s7, src=s2, n=MT * BLOCK, stride0=M * BLOCK, iter0=KT / BLOCK
        rdma.fp16 dst=s8, src=s3, n=KT * BLOCK, stride0=K * BLOCK, iter0=NT / BLOCK
        ne.gemm.fp16 a=s7, b=s8, psum=SUMS, out=SUMS, out_format=fp32, m=MT, k=KT, n=NT, rt=1
        xor     s7, s7, s9                              # the other ones next time
        xor     s8, s8, s9
        add     s2, s2, s10                             # the next columns of A
        add     s3, s3, s5                              # the next rows of B
        addi    s6, s6, -1
        bnez    s6, step

        ct.cvt.fp32.fp16 dst=CBUF, src0=SUMS, n=MT * NT
        wdma.fp16 dst=s4, src=CBUF, n=MT * BLOCK, stride0=M * BLOCK, iter0=NT / BLOCK
        ncc.wait
        li      a0, 0
        li      a7, 93                                  # exit
        ecall
