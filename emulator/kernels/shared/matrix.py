"""Moves matrices of elements with their axes exchanged or reversed, the steps of compact moves.

A unit is 1, 2 or 4 bytes. Target and source must not overlap.
"""

from __future__ import annotations

from collections.abc import Callable

from emulator.memory.rows import copy_rows
from emulator.native.primitives.blocks import BLOCKS, ROW_BYTES
from tx8isa.numbers.primitives import u64

from .access import VIEWS

Matrix = Callable[[int, int, int, int, int, int], None]
"""(target, rows, columns, source of the first unit, source units to the next row, and to the next column)."""

_PATCH_BYTES = 64
"""Bytes along the sides of a patch, whose lines stay in the first-level cache."""


def make_matrix(unit: int) -> Matrix:
    """``target[r, c] = source[r * row_step + c * column_step]``: a compact target, steps of any sign."""
    transpose, reverse, one_by_one = _transpose(unit), _reverse(unit), _one_by_one(unit)
    lanes = ROW_BYTES // unit

    def move(target: int, rows: int, columns: int, source: int, row_step: int, column_step: int) -> None:
        if columns == 1:
            rows, columns, column_step = columns, rows, row_step
        pitch = columns * unit
        if column_step == 1:
            copy_rows(target, pitch, source, row_step * unit, pitch, rows)
        elif column_step == -1:
            reverse(target, rows, columns, source, row_step)
        elif rows < lanes or columns < lanes or row_step * row_step != 1:
            one_by_one(target, rows, columns, source, row_step, column_step)
        elif row_step == 1:
            transpose(target, pitch, source, column_step * unit, rows, columns)
        else:  # the last row of the target is the first column of the source
            last, first = target + (rows - 1) * pitch, source - (rows - 1) * unit
            transpose(last, -pitch, first, column_step * unit, rows, columns)

    return move


def _transpose(unit: int) -> Callable[[int, int, int, int, int, int], None]:
    lanes, patch, block = ROW_BYTES // unit, _PATCH_BYTES // unit, BLOCKS[unit]

    def transpose(target: int, pitch: int, source: int, step: int, rows: int, columns: int) -> None:
        """Transpose; rows of the target are ``pitch`` bytes apart, rows of the source ``step``.

        Both sides have at least one block; the last block of a side overlaps its neighbour.
        """
        for patch_r in range(0, rows, patch):
            for patch_c in range(0, columns, patch):
                for r in range(patch_r, min(patch_r + patch, rows), lanes):
                    for c in range(patch_c, min(patch_c + patch, columns), lanes):
                        row, column = min(r, rows - lanes), min(c, columns - lanes)
                        to, of = target + row * pitch + column * unit, source + column * step + row * unit
                        block(to, pitch, of, step)

    return transpose


def _reverse(unit: int) -> Callable[[int, int, int, int, int], None]:
    view = VIEWS[unit]

    def reverse(target: int, rows: int, columns: int, source: int, row_step: int) -> None:
        """Reverse rows; ``source`` is the last unit of the first row."""
        for r in range(rows):
            to = view(target + r * columns * unit, columns)
            of = view(source + (r * row_step - columns + 1) * unit, columns)
            for c in range(u64(columns)):
                to[c] = of[u64(columns - 1) - c]

    return reverse


def _one_by_one(unit: int) -> Matrix:
    view = VIEWS[unit]

    def move(target: int, rows: int, columns: int, source: int, row_step: int, column_step: int) -> None:
        """Move unit by unit, with the longer axis in the inner loop."""
        outer, outer_from, outer_to = rows, row_step, columns
        inner, inner_from, inner_to = columns, column_step, 1
        if rows > columns:
            outer, outer_from, outer_to, inner, inner_from, inner_to = (
                inner,
                inner_from,
                inner_to,
                outer,
                outer_from,
                outer_to,
            )
        for a in range(outer):
            to, of = target + a * outer_to * unit, source + a * outer_from * unit
            for _ in range(inner):
                view(to, 1)[u64(0)] = view(of, 1)[u64(0)]
                to, of = to + inner_to * unit, of + inner_from * unit

    return move
