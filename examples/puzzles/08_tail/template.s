        .input  x, fp32, 1000
        .output y, fp32, 1000
_start: csrr    t0, mhartid
        slli    t1, t0, 6               # my first number
        li      t2, 1000
        sub     t2, t2, t1              # what is left
        li      t3, 64
        # your part: t2 = the smaller of t2 and t3
count:  la      a0, x
        la      a1, y
        slli    t1, t1, 2
        add     a0, a0, t1
        add     a1, a1, t1
        rdma.fp32      dst=0x10000, src=a0, n=t2
        ct.mul.vs.fp32 dst=0x20000, src0=0x10000, src1=2.0, n=t2
        wdma.fp32      dst=a1, src=0x20000, n=t2
        ncc.wait
        li      a0, 0
        li      a7, 93                  # exit
        ecall
