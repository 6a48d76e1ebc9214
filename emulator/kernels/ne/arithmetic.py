"""The interface between the matrix engine's shapes and the arithmetic of an input format.

Sums are made of 32-bit *words* of scratch: a binary32 number, or ``grain`` INT8 numbers of neighbouring
steps. All functions are plain ones that kernels compile; addresses are bytes, ``problem`` is explained in
``problem.py``, a *group* in ``groups.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

Panel = Callable[[int, int, int, int], None]
"""(source, target, p, problem)."""
Part = Callable[[int, int, int, int, int, int], None]
"""(source, target, p, first row, rows, problem)."""
Row = Callable[[int, int, int, int], int]
"""(a, stored columns, sums, k)."""
Rows = Callable[[int, int, int, int, int, int], None]
"""(source, stored lanes of a row, target, kept words of each row, rows, problem)."""
Fill = Callable[[int, int, int], None]
"""(target, words, problem)."""
Multiply = Callable[[int, int, int, int, int, int, int, int], None]
"""(group, rows, lda, a, ka, panel, width, words)."""
Start = Callable[[int, int, int, int, int, int, int], None]
"""(group, rows, i, first, p, begin, problem)."""
Finish = Callable[[int, int, int, int, int, int], None]
"""(group, rows, i, first, p, problem)."""


@dataclass(frozen=True, slots=True)
class MatrixArithmetic:
    """Products and sums of one input format."""

    bits: int
    """Stored bits of an input element."""
    grain: int
    """Steps of a sum in one word."""
    block: int
    """Words of a whole plane of the summed dimension."""
    extra: int
    """Rows after the last of a panel: start values of its columns, or none."""
    multiply: Multiply
    """Add the products of rows of A and a panel to a group; A's words are ``lda`` and ``ka`` apart."""
    panel: Panel
    """Make panel ``p`` of weights [TAPS * N, K]."""
    direct_panel: Panel
    """Make panel ``p`` of an aligned matrix [K, N]."""
    part: Part | None
    """Make some rows of a panel of an aligned matrix [K, N]; None if panels are made in one piece."""
    transposed_part: Part | None
    """Make the rows of one plane of K of a panel of an aligned matrix [N, K]; None as for ``part``."""
    row: Row | None
    """Multiply a single row by 64 columns in their stored form; None if the format has no such product."""
    row_part: Part | None
    """Make a whole plane of K of panel ``p`` of an aligned matrix [N, K] for ``row``; None as for ``row``."""
    rows: Rows
    """Make words of rows of A."""
    fill: Fill
    """Fill words with A's value outside an image."""
    columns: Panel
    """Make words of 64 columns of an aligned A [K, M]; ``p`` numbers the groups of 64."""
    column_pitch: Callable[[int, int], int]
    """(m, p): words from one row of these columns to the next."""
    edge: Multiply
    """(group, rows, lda, a, ka, words, first, problem): record the sums of A that start values need."""
    start: Start
    """Put start values of the results from number ``first`` of matrix or image ``i`` into the group or the
    result; ``begin``: the start values of the columns."""
    finish: Finish
    """Round a group into the results from number ``first``."""

    def steps(self, k: int) -> int:
        """Words of one sum's ``k`` steps."""
        return steps(k, self.grain)


def steps(k: int, grain: int) -> int:
    """Words of ``k`` steps."""
    return (k + grain - 1) // grain
