        .input  a, fp16, 700
        .input  b, fp16, 700
        .output y, fp16, 700
_start: csrr    t0, mhartid
        bnez    t0, done
        la      a0, a
        la      a1, b
        la      a2, y
        rdma.fp16      dst=0x10000, src=a0, n=700
        # your part: load b, and add
        wdma.fp16      dst=a2, src=0x30000, n=700
        ncc.wait
done:
        li      a0, 0
        li      a7, 93                  # exit
        ecall
