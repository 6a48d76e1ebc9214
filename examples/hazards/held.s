# The core stores an element through its cache, and RDMA loads it from DDR: the cache may not have written it yet.
        .bss
        .balign 64
data:   .space  64
        .text
_start: csrr    t0, mhartid
        bnez    t0, done
        la      t1, data
        li      t2, 5
        sw      t2, 0(t1)
        fence
        rdma.fp32 dst=0x10000, src=%ncc(data), n=1
        ncc.wait
done:   li      a0, 0
        li      a7, 93
        ecall
