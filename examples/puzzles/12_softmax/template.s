        .input  x, fp32, 16x256
        .output y, fp32, 16x256
_start: csrr    t0, mhartid
        slli    t0, t0, 10
        la      a0, x
        la      a1, y
        add     a0, a0, t0
        add     a1, a1, t0
        li      s0, 0x30430000          # SPM byte 0x30000
        rdma.fp32          dst=0x10000, src=a0, n=256
        ct.reduce.max.fp32 dst=0x30000, src0=0x10000, shape=[1,1,1,256], dims=c
        ncc.wait
        lw      t1, 0(s0)
        ct.sub.vs.fp32     dst=0x10000, src0=0x10000, src1=t1, n=256
        ct.exp.v.fp32      dst=0x20000, src0=0x10000, n=256
        # your part: divide by the sum of the powers
        ncc.wait
        wdma.fp32          dst=a1, src=0x20000, n=256
        ncc.wait
        li      a0, 0
        li      a7, 93                  # exit
        ecall
