# even.s: tiles with an even number say hello (exercise 1 of docs/first_hour.md).

        .equ    SYS_WRITE, 64           # the RISC-V Linux numbers of two system calls
        .equ    SYS_EXIT,  93
        .equ    STDOUT,    1

        .section .rodata
text:   .ascii  "hello from tile "
tens:   .ascii  "0"
units:  .ascii  "0\n"
        .equ    LENGTH, . - text

        .text
        .globl  _start
_start:
        csrr    s0, mhartid             # chip * 16 + tile: 0..15 on one chip
        andi    t0, s0, 1
        bnez    t0, done                # an odd number: nothing to say

        # Each tile makes its text in memory of its own; hello.s explains why.
        addi    sp, sp, -32
        la      t0, text
        mv      t1, sp
        li      t2, LENGTH
copy:   lbu     t3, 0(t0)
        sb      t3, 0(t1)
        addi    t0, t0, 1
        addi    t1, t1, 1
        addi    t2, t2, -1
        bnez    t2, copy

        # Two decimal digits: tile / 10 and tile % 10.
        li      t0, 10
        divu    t1, s0, t0
        remu    t2, s0, t0
        addi    t1, t1, '0'
        addi    t2, t2, '0'
        sb      t1, tens - text(sp)
        sb      t2, units - text(sp)

        # write(STDOUT, sp, length): the number of the call in a7, its arguments in a0, a1, a2.
        li      a0, STDOUT
        mv      a1, sp
        li      a2, LENGTH
        li      a7, SYS_WRITE
        ecall

        # exit(0). The run ends when every tile has exited.
done:   li      a0, 0
        li      a7, SYS_EXIT
        ecall
