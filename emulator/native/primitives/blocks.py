"""Transposition of square blocks whose rows are 16 bytes, the step of every transposing move.

This is the definition; the machine version (vector registers) is in ``machine/blocks.py``. Addresses and
pitches are in bytes; a pitch may be negative.
"""

from __future__ import annotations

from collections.abc import Callable

from .memory import view_u8, view_u16, view_u32

Block = Callable[[int, int, int, int], int]

ROW_BYTES = 16
_VIEWS = {1: view_u8, 2: view_u16, 4: view_u32}


def _block(size: int) -> Block:
    lanes, view = ROW_BYTES // size, _VIEWS[size]

    def transpose_block(target: int, target_pitch: int, source: int, source_pitch: int) -> int:
        """``T[j, i] = S[i, j]`` for 16 / size rows and columns; all is read before anything is written."""
        rows = [[int(x) for x in view(source + i * source_pitch, lanes)] for i in range(lanes)]
        for j in range(lanes):
            row = view(target + j * target_pitch, lanes)
            for i in range(lanes):
                row[i] = rows[i][j]
        return 0

    return transpose_block


BLOCKS: dict[int, Block] = {size: _block(size) for size in _VIEWS}
"""Block transposes, keyed by the bytes of an element."""


def block_name(size: int) -> str:
    return f"transpose_{8 * size}bit"
