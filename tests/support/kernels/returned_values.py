"""Numbers put into a tile's memory, and the values that an instruction returns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kernel_bench import Tile
from tx8isa.numbers.formats import Format

COMPILED = pytest.mark.parametrize("compiled", [False, True], ids=["interpreted", "compiled"])
LENGTHS = (1, 63, 64, 65, 1000)

VALID = 1 << 32
INFINITY = {Format.FP16: 0x7C00, Format.BF16: 0x7F80, Format.FP32: 0x7F800000, Format.TF32: 0x7F800000}
SPECIAL_NAN = {Format.FP16: 0xFD55, Format.BF16: 0x7F81, Format.FP32: 0xFFC12345, Format.TF32: 0x7F802000}
Array = np.ndarray[Any, Any]


def unsigned(fmt: Format) -> np.dtype[Any]:
    return np.dtype(f"u{fmt.bits // 8}")


def put(tile: Tile, at: int, data: Array) -> None:
    tile.spm[at : at + data.nbytes] = data.view(np.uint8)


def words(tile: Tile, at: int, n: int, fmt: Format) -> Array:
    return tile.spm[at : at + n * fmt.bits // 8].view(unsigned(fmt)).copy()


def returned(tile: Tile) -> list[int]:
    """wb_data0 and wb_data1, which must be marked valid."""
    found: list[int] = tile.write_back.tolist()
    assert all(word >> 32 == 1 for word in found)
    return [word & VALID - 1 for word in found]
