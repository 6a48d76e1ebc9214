"""Instruction sequences that make a constant, as GNU as chooses them."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from asm.syntax.expressions import signed64
from tx8isa.table.scalar import scalar_by_mnemonic

RD, RS1 = 1 << 7, 1 << 15
"""One in the rd and rs1 fields of a word."""


class Sequence(NamedTuple):
    """Words that leave a constant in a register: the statement is ``base + register * number``."""

    size: int
    base: int
    register: int


def low12(value: int) -> int:
    """The low 12 bits as a signed number."""
    return ((value & 0xFFF) ^ 0x800) - 0x800


@lru_cache(maxsize=65536)
def load_constant(value: int) -> Sequence:
    """The shortest sequence that GNU as makes for ``li``: lui, addi, addiw, and pairs of slli and addi."""
    size = base = register = 0
    for mnemonic, immediate in _steps(signed64(value)):
        record = scalar_by_mnemonic()[mnemonic]
        name = "shamt" if mnemonic == "slli" else "imm"
        word = record.match | record.field(name).insert(immediate)
        uses = RD if mnemonic == "lui" or not size else RD | RS1
        base |= word << 8 * size
        register |= uses << 8 * size
        size += 4
    return Sequence(size, base, register)


def _steps(value: int, short: str = "addi") -> list[tuple[str, int]]:
    """Mnemonics and immediates; ``short`` is enough for a constant of 12 bits."""
    low = low12(value)
    upper = value - low
    if not -(1 << 31) <= value < 1 << 31:
        shift = 12
        while not upper >> shift & 1:
            shift += 1
        upper = signed64(upper & (1 << 64) - 1) >> shift
        steps = [*_steps(upper, "addiw"), ("slli", shift)]
        return [*steps, ("addi", low)] if low else steps
    if not upper:
        return [(short, low)]
    steps = [("lui", upper >> 12 & 0xFFFFF)]
    return [*steps, ("addiw", low)] if low else steps
