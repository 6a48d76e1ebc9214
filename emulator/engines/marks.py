"""Marks of the memory that engines write, and the bytes after a result. Plain functions, compiled."""

from __future__ import annotations

from emulator.memory import state
from emulator.native.primitives.memory import get, view_u8
from tx8isa.numbers.primitives import u64

POISON = 0xFE
"""NaN in FP16, about -1.7e38 in the wider formats."""


def mark(marks: int, first: int, last: int) -> None:
    """Set the marks ``first`` .. ``last`` of the bytes at an address."""
    view = view_u8(marks + first, last - first + 1)
    for i in range(u64(last - first + 1)):
        view[i] = 1


def spoil(s: int, first: int, end: int) -> None:
    """Fill SPM from ``first`` to ``end``, the rest of a result's last line, with ``POISON``."""
    count = min(end, get(s, state.SPM_BYTES)) - first
    if count > 0:
        rest = view_u8(get(s, state.SPM) + first, count)
        for i in range(u64(count)):
            rest[i] = POISON
