# hello.s: sixteen tiles say hello.
#
#     tx8as hello.s && tx8emu hello.bin
#
# A chip has 4 x 4 tiles. Each has a kernel core: a 64-bit RISC-V core (RV64IM, no interrupts here). All of
# them start this one program at _start, at the same time, and find out who they are by reading mhartid. This
# style, one program and many cores that branch on their own number, is called SPMD.
#
# The scalar language is that of any RISC-V program. No engine instruction stands in this file; the next
# example (vuv_loop.s) brings the engines.

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

        # The text lies in DDR, which all tiles of a chip share: if every tile wrote its digits there, they would
        # overwrite each other's. So each tile copies it to memory of its own. The stack is such memory: sp points
        # into the tile's scratchpad (SPM).
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
        li      a0, 0
        li      a7, SYS_EXIT
        ecall
