"""The random numbers of stochastic rounding (proposed; the chip has no seed operand, docs/isa.md, Converts).

Each tile has one 32-bit Galois LFSR, polynomial x^32 + x^22 + x^2 + x + 1 (maximal, period 2**32 - 1). An
instruction in mode 4 takes one step per element, in element order, and no other instruction takes any.
Neighbouring states are shifts of each other, so the 52 bits that are compared with the dropped part are the
upper ones of a multiplicative hash of the state. A state of 0, which would never change, counts as 1.
"""

from __future__ import annotations

from tx8isa.primitives import s64, u64

TAPS = 0x80200003
_GOLDEN = 0x9E3779B97F4A7C15


def step(state: int) -> int:
    """The next state."""
    if state == 0:
        state = 1
    return (state >> 1) ^ (TAPS if state & 1 == 1 else 0)


def random_bits(state: int) -> int:
    """52 random bits of a state."""
    mixed = u64(u64(state) * u64(_GOLDEN))
    mixed = u64((mixed ^ (mixed >> 32)) * u64(_GOLDEN))
    return s64(mixed >> 12)
