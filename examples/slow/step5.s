# step5.s: the same as step4.s, with each byte of A and B loaded once and sent to the tiles that need it too.
#
# Four tiles compute with the same rows of A, and four with the same columns of B. Each loads a quarter of what its four
# need, and sends it to the other three: the links between tiles are not the DDR. All of a tile's A and B are 512 KiB
# and fit in the SPM.
#
# A is 256 x 2048, B is 2048 x 256, both fp16; C is 256 x 256. In DDR they are cut into blocks of 64 columns, as NE
# wants them: so every load is of long runs. C is 4 x 4 squares; tile t
# computes square t / 4 from the top, t mod 4 from the left. A quarter is 512 columns of A, or 512 rows of B.

        .equ    M, 256
        .equ    K, 2048
        .equ    N, 256
        .equ    MT, M / 4                               # rows of a tile
        .equ    NT, N / 4                               # and columns
        .equ    KT, K / 4                               # a quarter
        .equ    BLOCK, 64                               # NE wants blocks of 64 columns, one behind the other
        .equ    ELEMENT, 2                              # bytes of an fp16 number
        .equ    QUARTER, KT * MT * ELEMENT              # bytes

        .input  A, fp16, 256x2048, cx
        .input  B, fp16, 2048x256, cx
        .output C, fp16, 256x256, cx

        .equ    ABUF, 0x000000                          # four quarters of 64 x 512 x 2 bytes
        .equ    BBUF, 0x080000                          # four quarters of 512 x 64 x 2 bytes
        .equ    SUMS, 0x100000                          # 64 x 64 x 4 bytes
        .equ    CBUF, 0x110000                          # 64 x 64 x 2 bytes

_start: csrr    s0, mhartid
        srli    s1, s0, 2                               # from the top
        andi    s2, s0, 3                               # from the left
        li      t0, 1
        sll     s6, t0, s0                              # me, as a set of tiles

        # Quarter s2 of my rows of A: from t1 in DDR to s3 in the SPM, and on to the tiles s4.
        la      t1, A
        li      t0, MT * BLOCK * ELEMENT
        mul     t0, t0, s1
        add     t1, t1, t0
        li      t0, KT * M * ELEMENT
        mul     t0, t0, s2
        add     t1, t1, t0
        li      s3, QUARTER
        mul     s3, s3, s2
        li      t0, 0xf
        slli    s4, s1, 2
        sll     s4, t0, s4
        xor     s4, s4, s6                              # the other tiles of my row
        rdma.fp16 dst=s3, src=t1, n=MT * BLOCK, stride0=M * BLOCK, iter0=KT / BLOCK
        td.memset.fp32 dst=SUMS, value=0.0, n=MT * NT
        ncc.wait                                        # the DTE must not read it before it is there
        dte.broadcast dst=s3, src=s3, tiles=s4, n=QUARTER

        # Quarter s1 of my columns of B, while that is under way.
        la      t1, B
        li      t0, KT * BLOCK * ELEMENT
        mul     t0, t0, s1
        add     t1, t1, t0
        li      t0, NT * K * ELEMENT
        mul     t0, t0, s2
        add     t1, t1, t0
        li      s3, QUARTER
        mul     s3, s3, s1
        li      t0, BBUF
        add     s3, s3, t0
        li      t0, 0x1111
        sll     s4, t0, s2
        xor     s4, s4, s6                              # the other tiles of my column
        rdma.fp16 dst=s3, src=t1, n=KT * BLOCK, stride0=K * BLOCK, iter0=NT / BLOCK
        ncc.wait
        dte.broadcast dst=s3, src=s3, tiles=s4, n=QUARTER
        dte.wait                                        # what I sent has arrived
        ncc.barrier                                     # and what the others sent me

        li      s7, ABUF
        li      s8, BBUF
        li      s9, QUARTER
        li      s6, 4
step:   ne.gemm.fp16 a=s7, b=s8, psum=SUMS, out=SUMS, out_format=fp32, m=MT, k=KT, n=NT, rt=1
        add     s7, s7, s9                              # the next quarter
        add     s8, s8, s9
        addi    s6, s6, -1
        bnez    s6, step

        ct.cvt.fp32.fp16 dst=CBUF, src0=SUMS, n=MT * NT
        la      t1, C
        li      t0, MT * BLOCK * ELEMENT
        mul     t0, t0, s1
        add     t1, t1, t0
        li      t0, NT * M * ELEMENT
        mul     t0, t0, s2
        add     t1, t1, t0                              # my square of C
        wdma.fp16 dst=t1, src=CBUF, n=MT * BLOCK, stride0=M * BLOCK, iter0=NT / BLOCK
        ncc.wait
        li      a0, 0
        li      a7, 93                                  # exit
        ecall
