"""The right-hand operand in scratch: panels of at most 64 columns, rows in the order of the sums.

Panel ``p`` starts ``p * 64 * rows`` elements behind the first; its rows are ``panel_width`` columns long.
"""

from __future__ import annotations

from collections.abc import Callable

from emulator.native.tile import transpose_16x16
from tx8isa.formats import Format

from .elements import BLOCK, lanes, make_widen, panel_columns, panel_width, planes, stored_lanes

TRANSPOSE_BYTES = 4 * (BLOCK + 1) * BLOCK
"""Working memory of the transposing conversion: one plane of 64 rows, and what the last tile reads beyond."""

_SLACK = 4 * 16 * BLOCK  # a transposed tile writes 16 rows, whether they exist or not


def panel_bytes(rows: int, columns: int) -> int:
    """Scratch that the panels of a [rows, columns] matrix take."""
    return 4 * rows * panel_columns(columns) + _SLACK


def make_direct_panels(fmt: Format) -> Callable[[int, int, int, int], None]:
    """Panels of an aligned [k, n] matrix: the order is right already, narrow rows are padded."""
    widen, size = make_widen(fmt), fmt.bits // 8

    def panels(source: int, target: int, k: int, n: int) -> None:
        for p in range(planes(n)):
            width, stored, valid = panel_width(n, p), stored_lanes(n, p), lanes(n, p)
            of, to = source + size * p * BLOCK * k, target + 4 * p * BLOCK * k
            if stored == width:
                widen(of, to, k * width)
            else:
                for row in range(k):
                    widen(of + size * row * stored, to + 4 * row * width, valid)

    return panels


def make_transposed_panel(fmt: Format) -> Callable[[int, int, int, int, int, int, int], None]:
    """Panel ``p`` of aligned weights [taps * n, k]: rows tap, then k; columns n. One tap is a matrix [n, k].

    A transposed tile may write up to 15 rows too many: they belong to what is written after it, or to the
    slack at the end.
    """
    widen, size = make_widen(fmt), fmt.bits // 8

    def panel(source: int, target: int, plane: int, taps: int, n: int, k: int, p: int) -> None:
        width, rows = panel_width(n, p), lanes(n, p)
        for tap in range(taps):
            for q in range(planes(k)):
                stored, valid = stored_lanes(k, q), lanes(k, q)
                of = q * BLOCK * taps * n + (tap * n + p * BLOCK) * stored
                to = target + 4 * (tap * k + q * BLOCK) * width
                widen(source + size * of, plane, rows * stored)
                for i in range(0, valid, 16):
                    for j in range(0, rows, 16):
                        transpose_16x16(plane + 4 * (j * stored + i), stored, to + 4 * (i * width + j), width)

    return panel


def make_transposed_panels(fmt: Format) -> Callable[[int, int, int, int, int, int], None]:
    """All panels of the same weights."""
    panel = make_transposed_panel(fmt)

    def panels(source: int, target: int, plane: int, taps: int, n: int, k: int) -> None:
        for p in range(planes(n)):
            panel(source, target + 4 * p * BLOCK * taps * k, plane, taps, n, k, p)

    return panels
