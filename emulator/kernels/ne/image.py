"""Rectangles of an aligned NHWC image in scratch, their borders filled with what is outside."""

from __future__ import annotations

from emulator.native.primitives.memory import view_i64

from .arithmetic import Arithmetic, Function
from .elements import stored
from .groups import repeat_last

BAND_BYTES = 1 << 20
"""Input in scratch that a band of result rows aims at: it should stay in the second-level cache."""


def extent(results: int, stride: int, taps: int, dilation: int) -> int:
    """Input positions that ``results`` neighbouring results reach over."""
    return (results - 1) * stride + (taps - 1) * dilation + 1


def band_rows(oh: int, row_bytes: int, ky: int, sy: int, dy: int) -> int:
    """Result rows of a band: as many as the input of fits ``BAND_BYTES``, at least one."""
    rows = (BAND_BYTES // row_bytes - (ky - 1) * dy - 1) // sy + 1
    return max(1, min(oh, rows))


def positions(index: int, group: int, position: int, ow: int, down: int, right: int) -> None:
    """Where the results from number ``position`` of a band on start in its rectangle."""
    view = view_i64(index, group)
    row, column = position // ow, position % ow
    for r in range(group):
        view[r] = row * down + column * right
        column += 1
        if column == ow:
            row, column = row + 1, 0
    repeat_last(index, group)


def make_rectangle(arithmetic: Arithmetic) -> Function:
    """Numbers of a rectangle that may reach beyond the image, ``kept`` words a position.

    ``(source, stored lanes of a position, target, kept, h, width, top, high, left, wide, options)``:
    ``source`` is the first lane of the plane's first position.
    """
    widen, fill, size = arithmetic.rows, arithmetic.fill, arithmetic.bits // 8

    def rectangle(
        source: int,
        pitch: int,
        target: int,
        kept: int,
        h: int,
        width: int,
        top: int,
        high: int,
        left: int,
        wide: int,
        options: int,
    ) -> None:
        before = min(max(0, -left), wide)
        inside = max(0, min(left + wide, width) - max(left, 0))
        for row in range(high):
            to = target + 4 * row * wide * kept
            if top + row < 0 or top + row >= h or inside == 0:
                fill(to, wide * kept, options)
            else:
                of = ((top + row) * width + max(left, 0)) * pitch
                fill(to, before * kept, options)
                widen(source + size * of, pitch, to + 4 * before * kept, kept, inside, options)
                fill(to + 4 * (before + inside) * kept, (wide - before - inside) * kept, options)

    return rectangle


def make_fetch(arithmetic: Arithmetic) -> Function:
    """The rectangle of all channels, plane after plane."""
    rectangle = make_rectangle(arithmetic)
    grain, block, size = arithmetic.grain, arithmetic.block, arithmetic.bits // 8

    def fetch(
        x: int,
        target: int,
        h: int,
        width: int,
        c: int,
        top: int,
        high: int,
        left: int,
        wide: int,
        options: int,
    ) -> None:
        words = (c + grain - 1) // grain
        for q in range((words + block - 1) // block):
            of, to = x + size * q * block * grain * h * width, target + 4 * q * block * high * wide
            kept = min(block, words - q * block)
            rectangle(of, stored(c, q, block * grain), to, kept, h, width, top, high, left, wide, options)

    return fetch
