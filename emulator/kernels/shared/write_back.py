"""Results that go to the write-back registers of a worker (docs/isa.md, Returned values)."""

from __future__ import annotations

from emulator.native.primitives.memory import view_i64
from tx8isa.table.packets import VALID_DATA_BIT


def put_result(registers: int, position: int, value: int) -> None:
    """Put a 32-bit value into wb_data0 or wb_data1 and mark it valid; ``registers``: ``state.WRITE_BACK``."""
    words = view_i64(registers, 2)
    words[position] = value | 1 << VALID_DATA_BIT
