"""Scalars from registers: the plain bits, or sign-extended as by ``lw``."""

from __future__ import annotations

import numpy as np
import pytest

import asm
from emulator.program import Program
from emulator.tile.fault import Fault
from tx8isa.machine.description import load_machine

PROGRAM = """
.input x, fp32, 4
.output y, fp32, 4
_start: csrr t0, mhartid
    bnez t0, 9f
    rdma.fp32 dst=0x100, src=x, n=4
    ncc.wait
    {load}
    ct.mul.vs.{format} dst=0x200, src0=0x100, src1=t2, n=4
    wdma.fp32 dst=y, src=0x200, n=4
9:  ncc.wait
    li a0, 0
    li a7, 93
    ecall
    .data
factor: .word {bits}
"""
X = np.float32([1, -2, 0.5, 3])
MINUS_TWO = 0xC0000000


def product(load: str, bits: int = MINUS_TWO, fmt: str = "fp32") -> list[float]:
    program = Program(asm.assemble(PROGRAM.format(load=load, bits=bits, format=fmt)), load_machine(None))
    return program.run({"x": X})["y"].tolist()  # type: ignore[no-any-return]


@pytest.mark.parametrize("load", ["lw", "lwu"])
@pytest.mark.parametrize("bits", [MINUS_TWO, 0x40000000])
def test_a_word_that_was_loaded(load: str, bits: int) -> None:
    factor = float(np.uint32(bits).view(np.float32))
    assert product(f"la t1, factor\n {load} t2, 0(t1)", bits) == (X * np.float32(factor)).tolist()


def test_a_word_that_was_moved_from_a_float_register() -> None:
    assert product("la t1, factor\n flw f1, 0(t1)\n fmv.x.w t2, f1") == (X * -2).tolist()


@pytest.mark.parametrize("value", [-(1 << 31) - 1, 1 << 32, -(1 << 63)])
def test_what_is_no_word_of_32_bits(value: int) -> None:
    with pytest.raises(Fault, match=rf"operand 'src1' from a register: {value} is outside 0\.\.4294967295"):
        product(f"li t2, {value}")


def test_addresses_and_counts_are_no_scalars() -> None:
    text = PROGRAM.replace("src1=t2, n=4", "src1=1.0, n=t2")
    program = Program(asm.assemble(text.format(load="li t2, -1", bits=0, format="fp32")), load_machine(None))
    with pytest.raises(Fault, match="operand 'n' from a register: -1"):
        program.run({"x": X})
