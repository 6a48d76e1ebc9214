"""Runs one instruction on arrays of any length, and the operands that the test_exact files run it on."""

from __future__ import annotations

from typing import Any

import numpy as np

from emulator.memory import state
from exact_fractions import LAYOUT
from kernel_bench import RECORDS, SPECIAL, Tile
from tx8isa.numbers.formats import Format

Array = np.ndarray[Any, Any]
SRC0, SRC1, DST = 0, 1 << 19, 1 << 20
PIECE = 1 << 17
"""Elements of a run, of four bytes at most."""


class Wide(Tile):
    """A tile with room for long vectors."""

    def __init__(self) -> None:
        super().__init__()
        self.spm = np.zeros(3 << 19, np.uint8)
        self.state[state.SPM] = self.spm.ctypes.data
        self.state[state.SPM_BYTES] = self.spm.size


def run(
    mnemonic: str, fmt: Format | None, sources: tuple[Array, ...], result: Format, compiled: bool, **more: int
) -> Array:
    """The results of one instruction for vectors of stored elements, a piece at a time."""
    tile, found = Wide(), []
    names = {operand.name for operand in RECORDS[mnemonic].operands}
    for at in range(0, len(sources[0]), PIECE):
        pieces = [source[at : at + PIECE] for source in sources]
        for base, piece in zip((SRC0, SRC1), pieces, strict=False):
            tile.spm[base : base + piece.nbytes] = piece.view(np.uint8)
        operands = {"dst": DST, "src0": SRC0, "src1": SRC1, "n": len(pieces[0]), **more}
        tile.run(mnemonic, fmt, compiled, {k: v for k, v in operands.items() if k in names})
        size = len(pieces[0]) * result.bits // 8
        found.append(tile.spm[DST : DST + size].view(f"u{result.bits // 8}").copy())
    return np.concatenate(found)


def has_modes(mnemonic: str) -> bool:
    return any(operand.name == "rnd" for operand in RECORDS[mnemonic].operands)


def all_16_bits() -> Array:
    return np.arange(65536, dtype=np.uint16)


def special(fmt: Format) -> Array:
    """Some fifty patterns: both signs of zeros, the ends of every range and their neighbours, ties, NaN."""
    exponent_bits, mantissa_bits, unused = LAYOUT[fmt]
    bias, one = (1 << (exponent_bits - 1)) - 1, 1 << mantissa_bits
    infinity = ((1 << exponent_bits) - 1) << mantissa_bits
    half = bias << mantissa_bits
    magnitudes = [
        0,
        1,
        2,
        3,
        one // 2,
        one - 1,
        one,
        one + 1,
        one * 2,
        half - one,
        half - 1,
        half,
        half + 1,
        half + one // 2,
        half + one,
        half + mantissa_bits * one,
        half + mantissa_bits * one + 1,
        half + (mantissa_bits + 1) * one,
        infinity - one,
        infinity - 1,
        infinity,
        infinity + 1,
        infinity + one // 2,
        infinity + one - 1,
    ]
    signs = (0, 1 << (exponent_bits + mantissa_bits))
    found = {(sign | m) << unused for m in magnitudes for sign in signs} | set(SPECIAL[fmt])
    return np.array(sorted(found), f"u{fmt.bits // 8}")


def random_patterns(fmt: Format, n: int, rng: np.random.Generator) -> Array:
    """A third of any bits, a third of ordinary size, a third with few significant bits (ties)."""
    exponent_bits, mantissa_bits, unused = LAYOUT[fmt]
    width = 1 + exponent_bits + mantissa_bits
    bits = rng.integers(0, 1 << width, n)
    bias = (1 << (exponent_bits - 1)) - 1
    field = rng.integers(bias - 8, bias + 9, n) << mantissa_bits
    low = bits & ((1 << mantissa_bits) - 1)
    sign = bits & 1 << (width - 1)
    few = low >> rng.integers(0, mantissa_bits, n) << (mantissa_bits // 2) & ((1 << mantissa_bits) - 1)
    turn = rng.integers(0, 3, n)
    chosen = np.choose(turn, [bits, sign | field | low, bits & ~((1 << mantissa_bits) - 1) | few])
    noise = rng.integers(0, 1 << unused, n)
    return (chosen << unused | noise).astype(f"u{fmt.bits // 8}")
