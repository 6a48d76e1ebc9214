# Where every tile starts: stack, thread-local data, global pointer; then tx8_start of runtime.c.

        .equ    STACK_TOP, 0x30700000           # the end of SPM, as loads and stores see it
        .equ    FS_INITIAL, 1 << 13             # mstatus: floating-point instructions are allowed

        .section .text.start, "ax"
        .globl  _start
_start:
        slti    zero, zero, 1                   # a hint: until main this is the library (hints.h)
        .option push
        .option norelax
        la      gp, __global_pointer$
        .option pop
        li      t0, FS_INITIAL
        csrs    mstatus, t0

        lui     t0, %hi(__tls_size)             # a size, which is not an address near the code
        addi    t0, t0, %lo(__tls_size)
        li      sp, STACK_TOP
        sub     sp, sp, t0
        andi    sp, sp, -16
        mv      tp, sp                          # the thread-local data lie above the stack

        la      t1, __tls_start
        lui     t2, %hi(__tls_data_size)
        addi    t2, t2, %lo(__tls_data_size)
        add     t2, t1, t2                      # end of the bytes to copy; the rest is zero
        mv      t3, tp
        add     t0, tp, t0
1:      bgeu    t3, t0, 3f
        li      t4, 0
        bgeu    t1, t2, 2f
        lbu     t4, 0(t1)
2:      sb      t4, 0(t3)
        addi    t1, t1, 1
        addi    t3, t3, 1
        j       1b
3:      tail    tx8_start
