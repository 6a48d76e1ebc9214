"""A group of result rows and the tiles that add to it.

A group is at most ``GROUP`` rows of one panel, held as 32-bit words in scratch: row ``r`` starts
``r * width`` words behind the first. Tiles work on whole steps of ``ROWS`` rows; the surplus rows of a
group's last tile repeat its last position, so the index and the group have room for ``GROUP + ROWS`` rows.
"""

from __future__ import annotations

from collections.abc import Callable

from emulator.native.primitives.memory import view_i64
from emulator.native.primitives.tile import Tile
from emulator.native.target import has_feature

from .elements import BLOCK

GROUP = 256
"""Rows whose sums stay in the second-level cache while a panel's rows stay in the first."""

WIDE = has_feature("avx512f")
ROWS = 4 if WIDE else 6

INDEX_BYTES = 8 * (GROUP + ROWS)
GROUP_BYTES = 4 * (GROUP + ROWS) * BLOCK
EDGE_LANES = 16
EDGE_BYTES = 4 * (GROUP + ROWS + 2) * EDGE_LANES
"""One vector for each row, its sum, for the zero point of the other operand; two more vectors before."""
PLANE_BYTES = 4 * (BLOCK + 1) * BLOCK
"""Working memory of the transposing conversion: one plane of 64 rows, and what the last tile reads beyond."""

SUMS = INDEX_BYTES
EDGE = SUMS + GROUP_BYTES + 8 * EDGE_LANES
PLANE = SUMS + GROUP_BYTES + EDGE_BYTES
FIXED = PLANE + PLANE_BYTES
"""Where these lie in the scratch; what depends on shapes comes behind."""

SLACK = 4 * 16 * BLOCK
"""Behind panels and images: a transposed tile writes 16 rows, and loads take 16 lanes, there or not."""

Multiply = Callable[[int, int, int, int, int, int, int, int, int], None]


def make_multiply_wide(tiles: dict[tuple[int, int], Tile]) -> Multiply:
    """Add ``k`` words to a group: tiles of 4 rows and all columns of the panel (AVX-512).

    A row that is left alone behind the last of them has a tile of its own.
    """
    one, t64, t48, t32, t16 = tiles[1, 64], tiles[4, 64], tiles[4, 48], tiles[4, 32], tiles[4, 16]

    def multiply(
        index: int, rows: int, lda: int, a: int, ka: int, b: int, width: int, c: int, k: int
    ) -> None:
        for r in range(0, rows, 4):
            at, to = index + 8 * r, c + 4 * r * width
            if width == 64 and rows - r == 1:
                one(at, lda, a, ka, b, width, to, width, k)
            elif width == 64:
                t64(at, lda, a, ka, b, width, to, width, k)
            elif width == 48:
                t48(at, lda, a, ka, b, width, to, width, k)
            elif width == 32:
                t32(at, lda, a, ka, b, width, to, width, k)
            else:
                t16(at, lda, a, ka, b, width, to, width, k)

    return multiply


def make_multiply_narrow(tiles: dict[tuple[int, int], Tile]) -> Multiply:
    """Add ``k`` words to a group: tiles of 6 rows and 16 columns (sixteen 256-bit registers)."""
    one, t16 = tiles[1, 64], tiles[6, 16]

    def multiply(
        index: int, rows: int, lda: int, a: int, ka: int, b: int, width: int, c: int, k: int
    ) -> None:
        if width == 64 and rows == 1:
            one(index, lda, a, ka, b, width, c, width, k)
            return
        for j in range(0, width, 16):
            for r in range(0, rows, 6):
                t16(index + 8 * r, lda, a, ka, b + 4 * j, width, c + 4 * (r * width + j), width, k)

    return multiply


def make_multiply(tiles: dict[tuple[int, int], Tile]) -> Multiply:
    """The one that suits the processor."""
    return make_multiply_wide(tiles) if WIDE else make_multiply_narrow(tiles)


def repeat_last(index: int, rows: int) -> None:
    """Fill the index behind its last row, for the surplus rows of the last tile."""
    view = view_i64(index, rows + ROWS)
    for r in range(rows, rows + ROWS):
        view[r] = view[rows - 1]


def count_up(index: int, rows: int) -> None:
    """Rows one after another."""
    view = view_i64(index, rows)
    for r in range(rows):
        view[r] = r
    repeat_last(index, rows)
