"""A group of result rows, the products that are added to it, and where both are in working memory.

A group is at most ``GROUP`` rows of one panel: an index with one int64 for each row, where the row's numbers
of A are, and ``SUMS`` bytes after it the sums as 32-bit words: row ``r`` starts ``r * width`` words after the
first. A product has ``ROWS`` rows; the surplus rows of a group's last product repeat its last position, so
the index and the sums have room for ``GROUP + ROWS`` rows.
"""

from __future__ import annotations

from emulator.native.primitives.memory import view_i64
from emulator.native.primitives.products import Product
from emulator.native.target import has_feature

from .arithmetic import Left, Multiply, Right, Steps
from .elements import BLOCK, panel_columns

GROUP = 256
"""Rows of the largest group."""
STEP = 48
"""Rows of a group where panels are ready: its sums stay in the first-level cache until they are stored."""

WIDE = has_feature("avx512f")
ROWS = 4 if WIDE else 6
STRIP = BLOCK if WIDE else 16
"""Columns of a strip of binary32 numbers: what a product takes, so that it reads one stretch of memory."""
NEAR = 1 << 14 if WIDE else 1 << 13
"""Bytes of a strip that stay in the first-level cache while the rows of a group pass."""

INDEX_BYTES = 8 * (GROUP + ROWS)
GROUP_BYTES = 4 * (GROUP + ROWS) * BLOCK
EDGE_LANES = 16
EDGE_BYTES = 4 * (GROUP + ROWS + 2) * EDGE_LANES
"""One vector for each row, its sum, for the zero point of the other operand; two more vectors before."""
PLANE_BYTES = 4 * (BLOCK + 1) * BLOCK
"""Working memory of the transposing conversion: one plane of 64 rows, and what is read after it."""

# Distances in bytes from the index of the group, which is at the beginning of working memory.
SUMS = INDEX_BYTES
EDGE = SUMS + GROUP_BYTES + 8 * EDGE_LANES
PLANE = SUMS + GROUP_BYTES + EDGE_BYTES
FIXED = PLANE + PLANE_BYTES  # from here on, the sizes depend on shapes

SLACK = 4 * 16 * BLOCK
"""Bytes after panels and images: a transposition writes 16 rows and loads read 16 lanes, used or not."""


def panel_bytes(rows: int, channels: int) -> int:
    """Scratch that the panels of a matrix of ``rows`` words take."""
    return 4 * rows * panel_columns(channels) + SLACK


def make_multiply_wide(products: dict[tuple[int, int], Product], strip: int) -> Multiply:
    """Products of 4 rows and all columns of a panel, which is a single strip (AVX-512).

    A single row after the last of them has a product of its own.
    """
    one, by64, by48, by32, by16 = (
        products[1, 64],
        products[4, 64],
        products[4, 48],
        products[4, 32],
        products[4, 16],
    )
    assert strip == BLOCK

    def add(group: int, rows: int, left: Left, right: Right, steps: Steps) -> None:
        a, lda, ka = left
        panel, width, _ = right
        words, jump, turns = steps
        for r in range(0, rows, 4):
            at, to = group + 8 * r, group + SUMS + 4 * r * width
            if width == 64 and rows - r == 1:
                one(at, lda, a, ka, panel, width, 16, to, width, words, jump, turns)
            elif width == 64:
                by64(at, lda, a, ka, panel, width, 16, to, width, words, jump, turns)
            elif width == 48:
                by48(at, lda, a, ka, panel, width, 16, to, width, words, jump, turns)
            elif width == 32:
                by32(at, lda, a, ka, panel, width, 16, to, width, words, jump, turns)
            else:
                by16(at, lda, a, ka, panel, width, 16, to, width, words, jump, turns)

    return _make_near(add, strip)


def make_multiply_narrow(products: dict[tuple[int, int], Product], strip: int) -> Multiply:
    """Products of 6 rows and 16 columns (sixteen 256-bit registers), fewer rows at the end of a group.

    With strips of 16 columns a product reads a strip from end to end.
    """
    one, by2, by4, by6 = products[1, 64], products[2, 16], products[4, 16], products[6, 16]

    def add(group: int, rows: int, left: Left, right: Right, steps: Steps) -> None:
        a, lda, ka = left
        panel, width, height = right
        words, jump, turns = steps
        sums, row = group + SUMS, min(width, strip)
        across = 16 * height if strip == 16 else 16
        if width == 64 and rows == 1:
            one(group, lda, a, ka, panel, row, across, sums, width, words, jump, turns)
            return
        for j in range(0, width, 16):
            of = panel + 4 * (j // 16) * across
            for r in range(0, rows, 6):
                at, to = group + 8 * r, sums + 4 * (r * width + j)
                if rows - r > 4:
                    by6(at, lda, a, ka, of, row, across, to, width, words, jump, turns)
                elif rows - r > 2:
                    by4(at, lda, a, ka, of, row, across, to, width, words, jump, turns)
                else:
                    by2(at, lda, a, ka, of, row, across, to, width, words, jump, turns)

    return _make_near(add, strip)


def _make_near(add: Multiply, strip: int) -> Multiply:
    """Take as many turns at a time as rows of a strip stay in the first-level cache."""
    near = NEAR // (4 * strip)

    def multiply(group: int, rows: int, left: Left, right: Right, steps: Steps) -> None:
        a, lda, ka = left
        panel, width, height = right
        words, jump, turns = steps
        most, row = max(near // words, 1), min(width, strip)
        for first in range(0, turns, most):
            of, at = a + 4 * first * jump, panel + 4 * first * words * row
            some = (words, jump, min(most, turns - first))
            add(group, rows, (of, lda, ka), (at, width, height), some)

    return multiply


def make_multiply(products: dict[tuple[int, int], Product], strip: int) -> Multiply:
    """The one that suits the processor; ``strip`` as in ``MatrixArithmetic``."""
    return make_multiply_wide(products, strip) if WIDE else make_multiply_narrow(products, strip)


def repeat_last(index: int, rows: int) -> None:
    """Fill the index after its last row, for the surplus rows of the last product."""
    view = view_i64(index, rows + ROWS)
    for r in range(rows, rows + ROWS):
        view[r] = view[rows - 1]


def count_up(index: int, rows: int) -> None:
    """Rows one after another."""
    view = view_i64(index, rows)
    for r in range(rows):
        view[r] = r
    repeat_last(index, rows)
