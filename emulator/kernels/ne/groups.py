"""A group of result rows, the products that are added to it, and the places of both in working memory.

A group is at most ``GROUP`` rows of one panel. It has an index of one int64 a row, the position of the row's
numbers of A, and ``SUMS`` bytes after the index the sums as 32-bit words: row ``r`` starts ``r * width``
words after the first. A product has ``ROWS`` rows. The surplus rows of a group's last product repeat its last
position, so index and sums have room for ``GROUP + ROWS`` rows.

Word ``AT`` is the address of the sums: in the group, or in the result if its rows have the same form. In the
result, a product with surplus rows adds to copies in the group.
"""

from __future__ import annotations

from emulator.native.primitives.memory import copy_bytes, get, view_i64
from emulator.native.primitives.products import Product
from emulator.native.target import has_feature

from .arithmetic import Multiply
from .elements import BLOCK, panel_columns

GROUP = 256
"""Rows whose sums stay in the second-level cache while a panel's rows stay in the first."""

WIDE = has_feature("avx512f")
ROWS = 4 if WIDE else 6

AT = GROUP + ROWS
INDEX_BYTES = 8 * (AT + 1) + 63 & -64
GROUP_BYTES = 4 * (GROUP + ROWS) * BLOCK
EDGE_LANES = 16
EDGE_BYTES = 4 * (GROUP + ROWS + 2) * EDGE_LANES
"""One vector for each row's sum, for the zero point of the other operand; two more vectors before."""
PLANE_BYTES = 4 * (BLOCK + 1) * BLOCK
"""Working memory of the transposing conversion: one plane of 64 rows, and bytes that are read past it."""

# Distances in bytes from the index of the group, which is at the beginning of working memory.
SUMS = INDEX_BYTES
EDGE = SUMS + GROUP_BYTES + 8 * EDGE_LANES
PLANE = SUMS + GROUP_BYTES + EDGE_BYTES
FIXED = PLANE + PLANE_BYTES  # from here on, the sizes depend on shapes

SLACK = 4 * 16 * BLOCK
"""Bytes after panels and images: a transposition writes 16 rows and loads read 16 lanes, used or not."""


def panel_bytes(rows: int, channels: int) -> int:
    """Return the bytes of the panels of a matrix of ``rows`` words."""
    return 4 * rows * panel_columns(channels) + SLACK


def make_multiply_wide(products: dict[tuple[int, int], Product]) -> Multiply:
    """Add ``words`` words to a group: products of 4 rows and all columns of the panel (AVX-512).

    A single remaining row has a separate product.
    """
    one, by64, by48, by32, by16 = (
        products[1, 64],
        products[4, 64],
        products[4, 48],
        products[4, 32],
        products[4, 16],
    )

    def multiply(
        group: int, rows: int, lda: int, a: int, ka: int, panel: int, width: int, words: int
    ) -> None:
        for r in range(0, rows, 4):
            at, to = group + 8 * r, sums_of(group, r, rows, 4, width)
            if width == 64 and rows - r == 1:
                one(at, lda, a, ka, panel, width, to, width, words)
            elif width == 64:
                by64(at, lda, a, ka, panel, width, to, width, words)
            elif width == 48:
                by48(at, lda, a, ka, panel, width, to, width, words)
            elif width == 32:
                by32(at, lda, a, ka, panel, width, to, width, words)
            else:
                by16(at, lda, a, ka, panel, width, to, width, words)
            return_sums(group, r, rows, 4, width)

    return multiply


def make_multiply_narrow(products: dict[tuple[int, int], Product]) -> Multiply:
    """Add ``words`` words to a group: products of 6 rows and 16 columns (sixteen 256-bit registers).

    The last rows have products of 4 if that leaves fewer surplus rows: 14 rows are 6 + 4 + 4.
    """
    one, by6, by4 = products[1, 64], products[6, 16], products[4, 16]

    def multiply(
        group: int, rows: int, lda: int, a: int, ka: int, panel: int, width: int, words: int
    ) -> None:
        sums = get(group, AT)
        if width == 64 and rows == 1:
            one(group, lda, a, ka, panel, width, sums, width, words)
            return
        sixes = rows_by_six(rows)
        for j in range(0, width, 16):
            of, to = panel + 4 * j, sums + 4 * j
            for r in range(0, min(sixes, rows - 5), 6):
                by6(group + 8 * r, lda, a, ka, of, width, to + 4 * r * width, width, words)
            for r in range(sixes, rows - 3, 4):
                by4(group + 8 * r, lda, a, ka, of, width, to + 4 * r * width, width, words)
        size = 6 if sixes > rows else 4
        r = sixes - 6 if sixes > rows else rows - (rows - sixes) % 4
        if r < rows:
            at, to = group + 8 * r, sums_of(group, r, rows, size, width)
            for j in range(0, width, 16):
                if size == 6:
                    by6(at, lda, a, ka, panel + 4 * j, width, to + 4 * j, width, words)
                else:
                    by4(at, lda, a, ka, panel + 4 * j, width, to + 4 * j, width, words)
            return_sums(group, r, rows, size, width)

    return multiply


def sums_of(group: int, first: int, rows: int, size: int, width: int) -> int:
    """Return the address of the sums from row ``first`` for a product of ``size`` rows.

    If surplus rows would overwrite results outside of the group, the sums are copied into the group.
    """
    sums = get(group, AT) + 4 * first * width
    if first + size <= rows or get(group, AT) == group + SUMS:
        return sums
    copy_bytes(group + SUMS, sums, 4 * (rows - first) * width)
    return group + SUMS


def return_sums(group: int, first: int, rows: int, size: int, width: int) -> None:
    """Copy sums back if the product added to copies of them."""
    sums = get(group, AT)
    if first + size > rows and sums != group + SUMS:
        copy_bytes(sums + 4 * first * width, group + SUMS, 4 * (rows - first) * width)


def rows_by_six(rows: int) -> int:
    """Return the number of first rows with products of 6 rows; the others have products of 4."""
    last = rows % 6
    if last == 0 or last == 5:
        return rows + (6 - last) % 6
    fours = 1 if last > 2 or rows < 6 else 2
    return max(0, rows - last - 6 * (fours - 1))


def make_multiply(products: dict[tuple[int, int], Product]) -> Multiply:
    """Choose the products that suit the processor."""
    return make_multiply_wide(products) if WIDE else make_multiply_narrow(products)


def repeat_last(index: int, rows: int) -> None:
    """Fill the index after its last row, for the surplus rows of the last product."""
    view = view_i64(index, rows + ROWS)
    for r in range(rows, rows + ROWS):
        view[r] = view[rows - 1]


def count_up(index: int, rows: int) -> None:
    """Fill the index for consecutive rows."""
    view = view_i64(index, rows)
    for r in range(rows):
        view[r] = r
    repeat_last(index, rows)
