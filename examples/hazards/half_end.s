# An FP32 result of an FP16 product whose end counts elements of 2 bytes, as an adapter on the card wrote it.
_start: csrr    t0, mhartid
        bnez    t0, done
        td.memset.fp16 dst=0x10000, value=1.0, n=4096
        td.memset.fp32 dst=0x30800, value=0, n=512
        li      t0, 0x01000000          # window of worker 0
        li      t1, 0x10000
        sw      t1, 0x210(t0)           # a: 64 x 16
        li      t1, 0x11000
        sw      t1, 0x220(t0)           # b: 16 x 16
        li      t1, 0x30000
        sw      t1, 0x270(t0)           # out: 64 x 16 in FP32, 4096 bytes
        li      t1, 0x307ff
        sw      t1, 0x3d0(t0)           # out_end of 64 x 16 in FP16
        li      t1, 1
        sd      t1, 0x2e0(t0)           # batches
        sd      t1, 0x2f0(t0)
        li      t1, 16
        sd      t1, 0x300(t0)           # n, k
        sd      t1, 0x320(t0)
        li      t1, 64
        sd      t1, 0x310(t0)           # m
        li      t1, 0x105203            # valid, to FP32, from FP16, a product
        sd      t1, 0x200(t0)
        ncc.wait
done:   li      a0, 0
        li      a7, 93
        ecall
