"""Chips run the same program with separate DDR, also where frequent parts are translated."""

from __future__ import annotations

import numpy as np

import asm
from emulator.program import Program
from tx8isa.machine.description import load_machine

SOURCE = """
        .output y, int32, 32
        .text
        .globl  _start
_start:
        csrr    t0, mhartid
        andi    t1, t0, 15
        bnez    t1, done
        srli    t0, t0, 4
        addi    t0, t0, 7
        la      t1, %core(y)
        li      t2, 600000
again:
        lw      t3, 0(t1)
        add     t3, t3, t0
        sw      t3, 0(t1)
        addi    t2, t2, -1
        bnez    t2, again
done:
        li      a0, 0
        li      a7, 93
        ecall
"""


def test_a_frequent_loop_adds_in_the_ddr_of_its_chip() -> None:
    program = Program(asm.assemble(SOURCE), load_machine("tx81").of_chips(2, 2))
    outputs = program.run({})
    sums = [int(outputs[f"chip{chip}.y"][0]) for chip in range(4)]
    assert sums == [600000 * (chip + 7) for chip in range(4)]
    assert all(not np.any(outputs[f"chip{chip}.y"][1:]) for chip in range(4))
