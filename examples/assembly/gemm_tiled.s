# gemm_tiled.s: C = A x B on sixteen tiles, with double buffering.
#
#     tx8as gemm_tiled.s && tx8emu gemm_tiled.bin --input A=a.npy --input B=b.npy --output-dir .
#
# A is 256 x 512, B is 512 x 256, both fp16 and row-major in DDR. C is 256 x 256, fp16. Sums are kept in fp32 and
# rounded once, at the end.
#
# In space: C is cut into 4 x 4 squares of 64 x 64, one for each tile. Tile t computes the rows from 64 * (t / 4) and
#           the columns from 64 * (t mod 4). It needs 64 rows of A and 64 columns of B.
# In time:  k is cut into four steps of 128. A step multiplies 64 x 128 by 128 x 64 and adds to the sums.
#
# Double buffering: there are two buffers for each operand. While the matrix engine (NE) works on the ones, the
# load engine (RDMA) fills the others for the next step. Nobody says "wait" in between: every instruction names
# the addresses it reads and writes, and the controller lets it begin when no older instruction conflicts. The
# load of step i + 2 goes to the buffers of step i, so it waits by itself until that multiplication is done.
#
#     RDMA   load 0 | load 1        | load 2        | load 3        |
#     NE              gemm 0        | gemm 1        | gemm 2        | gemm 3
#     WDMA                                                                    | store

        .equ    M, 256                                  # the whole problem
        .equ    K, 512
        .equ    N, 256
        .equ    MT, 64                                  # one tile's square of C
        .equ    NT, 64
        .equ    KT, 128                                 # one step
        .equ    STEPS, K / KT
        .equ    BLOCK, 64                               # lanes of a full channel block
        .equ    ELEMENT, 2                              # bytes of an fp16 number

        .input  A, fp16, 256x512
        .input  B, fp16, 512x256
        .output C, fp16, 256x256

        # SPM. SWAP is the distance of the two buffers of an operand: a power of two, so that an exclusive or
        # goes from either to the other.
        .equ    SWAP,  0x10000
        .equ    ABUF,  0x20000                          # and 0x30000: 64 x 128 x 2 bytes
        .equ    BBUF,  0x40000                          # and 0x50000: 128 x 64 x 2 bytes
        .equ    SUMS,  0x60000                          # 64 x 64 x 4 bytes
        .equ    CBUF,  0x70000                          # 64 x 64 x 2 bytes

        # One step's operands from DDR.
        #
        # NE wants aligned matrices: blocks of 64 columns, one block of all rows after another. DDR has plain rows.
        # RDMA reads its source through three nested loops and writes one piece after another, and that makes the
        # layout on the way: pieces of 64 elements (a row of a block), then the next row (level 0), then the next
        # block of 64 columns (level 1). Counts and strides are in elements.
        .macro  load_step
        rdma.fp16 dst=s4, src=s2, n=BLOCK, stride0=K, iter0=MT, stride1=BLOCK, iter1=KT / BLOCK
        rdma.fp16 dst=s5, src=s3, n=BLOCK, stride0=N, iter0=KT, stride1=BLOCK, iter1=NT / BLOCK
        addi    s2, s2, KT * ELEMENT                    # A: 128 columns to the right
        add     s3, s3, s8                              # B: 128 rows down
        xor     s4, s4, s7                              # the other buffers next time
        xor     s5, s5, s7
        .endm

        .text
        .globl  _start
_start:
        csrr    s0, mhartid
        li      t0, (M / MT) * (N / NT)
        bgeu    s0, t0, done
        srli    s1, s0, 2                               # t / 4: which rows of C
        andi    s0, s0, 3                               # t mod 4: which columns

        # s2: A + (t / 4) * 64 rows; s3: B + (t mod 4) * 64 columns.
        la      s2, A
        li      t0, MT * K * ELEMENT
        mul     t0, t0, s1
        add     s2, s2, t0
        la      s3, B
        li      t0, NT * ELEMENT
        mul     t0, t0, s0
        add     s3, s3, t0

        # s4, s5: the buffers the next load fills. a4, a5: the buffers the next multiplication reads.
        li      s4, ABUF
        li      s5, BBUF
        li      a4, ABUF
        li      a5, BBUF
        li      s7, SWAP
        li      s8, KT * N * ELEMENT

        # The sums start at zero. (An engine of its own, TDMA, does this beside the first loads.)
        td.memset.fp32 dst=SUMS, value=0.0, n=MT * NT

        load_step                                       # step 0
        li      s6, STEPS - 1
step:
        load_step                                       # step i + 1, into the other buffers
        # SUMS += A x B. The result replaces the sums it started from. rt=1 says that B is stored [K, N].
        ne.gemm.fp16 a=a4, b=a5, psum=SUMS, out=SUMS, out_format=fp32, m=MT, k=KT, n=NT, rt=1
        xor     a4, a4, s7
        xor     a5, a5, s7
        addi    s6, s6, -1
        bnez    s6, step

        # The last step needs no load, and its result is rounded to fp16.
        ne.gemm.fp16 a=a4, b=a5, psum=SUMS, out=CBUF, m=MT, k=KT, n=NT, rt=1

        # Back to plain rows: WDMA reads pieces one after another and writes them through three loops.
        la      t1, C
        li      t0, MT * N * ELEMENT
        mul     t0, t0, s1
        add     t1, t1, t0
        li      t0, NT * ELEMENT
        mul     t0, t0, s0
        add     t1, t1, t0
        wdma.fp16 dst=t1, src=CBUF, n=BLOCK, stride0=N, iter0=MT, stride1=BLOCK, iter1=NT / BLOCK
        ncc.wait

done:   li      a0, 0
        li      a7, 93                                  # exit
        ecall
