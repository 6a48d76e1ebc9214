"""Transposition of square blocks: of rows of 16 bytes, the step of every transposing move, and of stored FP16
and BF16 to binary32.

Plain meaning here, machine version (vector registers) in ``machine/blocks.py``. Addresses are in bytes.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .float32 import bf16_to_f32, fp16_to_f32
from .memory import view_f32, view_u8, view_u16, view_u32

Block = Callable[[int, int, int, int], int]

ROW_BYTES = 16
_VIEWS = {1: view_u8, 2: view_u16, 4: view_u32}


def _block(size: int) -> Block:
    lanes, view = ROW_BYTES // size, _VIEWS[size]

    def transpose_block(target: int, target_pitch: int, source: int, source_pitch: int) -> int:
        """``T[j, i] = S[i, j]`` for 16 / size rows and columns; all is read before anything is written.

        Pitches are in bytes, and may be negative.
        """
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


WIDE_ROWS = 16
WideBlock = Callable[[int, int, int, int], int]


def _wide_block(convert: Callable[[int], np.float32]) -> WideBlock:
    def transpose_wide(source: int, source_pitch: int, target: int, target_pitch: int) -> int:
        """``T[j, i] = S[i, j]`` for 16 rows and columns: S of 16 bits, T binary32, which do not overlap.

        Pitches are in elements.
        """
        for i in range(WIDE_ROWS):
            row = view_u16(source + 2 * i * source_pitch, WIDE_ROWS)
            for j in range(WIDE_ROWS):
                view_f32(target + 4 * (j * target_pitch + i), 1)[0] = convert(int(row[j]))
        return 0

    return transpose_wide


transpose_fp16 = _wide_block(fp16_to_f32)
transpose_bf16 = _wide_block(bf16_to_f32)
