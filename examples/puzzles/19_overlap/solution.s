        .input  x, fp32, 100000
        .output y, fp32, 100000
        .equ    PIECE, 25000
_start: csrr    t0, mhartid
        bnez    t0, done
        la      a0, x
        la      a1, y
        li      a2, 0x10000             # a piece of x
        li      a3, 0x110000            # a piece of y
        li      t1, PIECE * 4
        li      t2, 0x20000
        li      t3, 4
next:   rdma.fp32      dst=a2, src=a0, n=PIECE
        ct.add.vs.fp32 dst=a3, src0=a2, src1=1.0, n=PIECE
        wdma.fp32      dst=a1, src=a3, n=PIECE
        add     a0, a0, t1
        add     a1, a1, t1
        add     a2, a2, t2              # the next piece has its own buffers
        add     a3, a3, t2
        addi    t3, t3, -1
        bnez    t3, next
        ncc.wait
done:
        li      a0, 0
        li      a7, 93                  # exit
        ecall
