# The end register says what the packet reads, and the detection sees that it has to wait.
_start: csrr    t0, mhartid
        bnez    t0, done
        td.memset.fp16 dst=0x10000, value=1.5, n=16
        ncc.wait
        td.memset.fp16 dst=0x10020, value=2.5, n=48
        li      t0, 0x01000000          # window of worker 0
        li      t1, 0x10000
        sw      t1, 0x010(t0)           # src0
        li      t1, 0x1007f
        sw      t1, 0x150(t0)           # src0_end: the last byte
        li      t1, 0x20000
        sw      t1, 0x030(t0)           # dst0
        li      t1, 64
        sd      t1, 0x0b0(t0)           # elem_count
        li      t1, 0x10200             # valid, fp16, opcode 0: abs
        sd      t1, 0x000(t0)
        ncc.wait
done:   li      a0, 0
        li      a7, 93
        ecall
