"""What the shapes of the matrix engine need to know of an input format.

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
"""(source, stored lanes of a row, target, words to keep of each, rows, problem)."""
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
    """Panel ``p`` of weights [TAPS * N, K]."""
    direct_panel: Panel
    """Panel ``p`` of an aligned matrix [K, N]."""
    part: Part | None
    """Some rows of a panel of an aligned matrix [K, N]; None where a panel is made in one piece."""
    transposed_part: Part | None
    """The rows of one plane of K of a panel of an aligned matrix [N, K]; None as for ``part``."""
    row: Row | None
    """The products of a single row and 64 columns that are stored as they are read; None without them."""
    row_part: Part | None
    """A whole plane of K of panel ``p`` of an aligned matrix [N, K], as ``row`` reads it; None as for it."""
    rows: Rows
    """The numbers of A."""
    fill: Fill
    """The number of A outside an image."""
    columns: Panel
    """64 columns of an aligned A [K, M]; ``p`` counts them."""
    column_pitch: Callable[[int, int], int]
    """(m, p): words from one row of these columns to the next."""
    edge: Multiply
    """(group, rows, lda, a, ka, words, first, problem): note what the start values need of A."""
    start: Start
    """Start values of the results from number ``first`` on of matrix or image ``i``, in the group or where
    the results belong; ``begin``: the start values of the columns."""
    finish: Finish
    """Round a group into the results from number ``first`` on."""

    def steps(self, k: int) -> int:
        """Words of one sum's ``k`` steps."""
        return steps(k, self.grain)


def steps(k: int, grain: int) -> int:
    """Words of ``k`` steps."""
    return (k + grain - 1) // grain
