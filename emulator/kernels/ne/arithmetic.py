"""What the shapes of the matrix engine need to know of an input format.

Sums are made of 32-bit *words* of scratch: a binary32 number, or ``grain`` INT8 numbers of neighbouring
steps. All functions are plain ones that kernels compile; addresses are bytes, ``options`` is explained in
``options.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Function = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """Products and sums of one input format."""

    bits: int
    """Stored bits of an input element."""
    grain: int
    """Steps of a sum in one word."""
    block: int
    """Words of a whole plane of the summed dimension."""
    extra: int
    """Rows behind the last of a panel: start values of its columns, or none."""
    multiply: Callable[[int, int, int, int, int, int, int, int, int], None]
    """(index, rows, lda, a, ka, panel, width, sums, words): add products to a group."""
    panel: Function
    """(source, target, working plane, taps, n, k, p, options): panel p of weights [taps * n, k]."""
    direct_panel: Function
    """(source, target, working plane, k, n, p, options): panel p of an aligned [k, n] matrix."""
    rows: Callable[[int, int, int, int, int, int], None]
    """(source, stored lanes of a row, target, words to keep of each, rows, options): A's numbers."""
    fill: Callable[[int, int, int], None]
    """(target, words, options): A's number outside an image."""
    columns: Function
    """(source, target, working plane, k, m, chunk, options): 64 columns of aligned A [k, m]."""
    column_pitch: Callable[[int, int], int]
    """(m, chunk): words from one row of these columns to the next."""
    edge: Function
    """(target, index, rows, lda, a, ka, words, steps, first, options): what the corrections need of A."""
    start: Function
    """(sums, rows, width, psum, psum_format, positions, first, n, p, start row, edge, options)."""
    finish: Function
    """(sums, rows, width, out, out_format, positions, first, n, p, options): round into the result."""

    def steps(self, k: int) -> int:
        """Words of one sum's ``k`` steps."""
        return (k + self.grain - 1) // self.grain
