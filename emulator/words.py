"""Single words of the emulator's tables and queues, by host address: plain functions that are compiled.

Addresses are passed around instead of arrays: an array is seven arguments in machine code.
"""

from __future__ import annotations

from tx8isa.primitives import s64, u64

from .native.memory import view_i64


def get(table: int, at: int) -> int:
    """Word ``at`` of the table at host address ``table``."""
    return s64(view_i64(table + 8 * at, 1)[u64(0)])


def put(table: int, at: int, value: int) -> None:
    """Set word ``at`` of the table at host address ``table``."""
    view_i64(table + 8 * at, 1)[u64(0)] = value
