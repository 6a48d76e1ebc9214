        .input  x, fp32, 16x256
        .output y, fp32, 256
_start: csrr    t0, mhartid
        la      a0, x
        slli    t1, t0, 10
        add     a0, a0, t1
        li      t2, 0x20000
        add     t2, t2, t1              # my slot
        rdma.fp32      dst=0x10000, src=a0, n=256
        ncc.wait
        dte.unicast    dst=t2, src=0x10000, tile=0, n=1024
        dte.wait
        ncc.barrier
        bnez    t0, done
        li      t2, 0x20000
        li      t3, 15
next:   addi    t2, t2, 1024
        ct.add.vv.fp32 dst=0x20000, src0=0x20000, src1=t2, n=256
        addi    t3, t3, -1
        bnez    t3, next
        la      a1, y
        wdma.fp32      dst=a1, src=0x20000, n=256
        ncc.wait
done:
        li      a0, 0
        li      a7, 93                  # exit
        ecall
