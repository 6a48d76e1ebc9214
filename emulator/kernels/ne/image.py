"""Rectangles of an aligned NHWC image in scratch, with borders that hold the value outside of the image."""

from __future__ import annotations

from collections.abc import Callable

from emulator.native.primitives.memory import get, view_i64

from . import problem as word
from .arithmetic import MatrixArithmetic, steps
from .elements import stored
from .groups import repeat_last

BAND_BYTES = 1 << 20
"""Target size of a band's input in scratch, so that it stays in the second-level cache."""


def extent(results: int, stride: int, taps: int, dilation: int) -> int:
    """Return the extent of the input for ``results`` neighbouring results."""
    return (results - 1) * stride + (taps - 1) * dilation + 1


def step_down(problem: int) -> int:
    """Return the rows of a rectangle from one row of results to the next.

    For a window of one row, or of one column, only the rows or columns at its stride are fetched.
    """
    return get(problem, word.SY) if get(problem, word.KY) > 1 else 1


def step_right(problem: int) -> int:
    """Return the columns of a rectangle from one result to the next, as in ``step_down``."""
    return get(problem, word.SX) if get(problem, word.KX) > 1 else 1


def columns_apart(problem: int) -> int:
    """Return the columns of the image from one column of a rectangle to the next, as in ``step_down``."""
    return get(problem, word.SX) // step_right(problem)


def every_column(problem: int) -> int:
    """Return the columns of the image from one column of a rectangle to the next if all are fetched."""
    return 1


def width_of_rows(problem: int) -> int:
    """Return the columns of a rectangle."""
    return extent(get(problem, word.OW), step_right(problem), get(problem, word.KX), get(problem, word.DX))


def band_rows(oh: int, row_bytes: int, ky: int, sy: int, dy: int) -> int:
    """Return the result rows of a band: as many as have input within ``BAND_BYTES``, at least one."""
    rows = (BAND_BYTES // row_bytes - (ky - 1) * dy - 1) // sy + 1
    return max(1, min(oh, rows))


def positions(index: int, count: int, position: int, ow: int, down: int, right: int) -> None:
    """Fill the index with the places of the results from number ``position`` in the band's rectangle."""
    view = view_i64(index, count)
    row, column = position // ow, position % ow
    for r in range(count):
        view[r] = row * down + column * right
        column += 1
        if column == ow:
            row, column = row + 1, 0
    repeat_last(index, count)


def make_image_row(
    arithmetic: MatrixArithmetic, apart: Callable[[int], int]
) -> Callable[[int, int, int, int, int, int, int, int], None]:
    """Make one row of a rectangle, which may extend beyond the image.

    ``(source, stored lanes of a position, target, words kept of each, y, left, wide, problem)``: row ``y``
    of the image from column ``left``, ``wide`` columns at a distance of ``apart(problem)``; ``source`` is
    the first lane of the plane's first position.
    """
    widen, fill, size = arithmetic.rows, arithmetic.fill, arithmetic.bits // 8

    def image_row(
        source: int, pitch: int, target: int, kept: int, y: int, left: int, wide: int, problem: int
    ) -> None:
        width, step = get(problem, word.W), apart(problem)
        before = min(max(0, step - 1 - left) // step, wide)
        inside = max(0, min(max(0, width + step - 1 - left) // step, wide) - before)
        if y < 0 or y >= get(problem, word.H) or inside == 0:
            fill(target, wide * kept, problem)
        else:
            of, to = (y * width + left + before * step) * pitch, target + 4 * before * kept
            fill(target, before * kept, problem)
            widen(source + size * of, step * pitch, to, kept, inside, problem)
            fill(to + 4 * inside * kept, (wide - before - inside) * kept, problem)

    return image_row


def make_whole_rows(arithmetic: MatrixArithmetic) -> Callable[[int, int, int, int, int, int, int], None]:
    """Make rows of a rectangle as wide as the image in one call, because a call for each short row is slow.

    ``(source, pitch, target, kept, top, high, problem)``: ``high`` rows, from row ``top``; the other
    arguments are those of ``make_image_row``.
    """
    widen, fill, size = arithmetic.rows, arithmetic.fill, arithmetic.bits // 8

    def whole_rows(
        source: int, pitch: int, target: int, kept: int, top: int, high: int, problem: int
    ) -> None:
        h, wide = get(problem, word.H), get(problem, word.W)
        before, line = min(max(0, -top), high), 4 * wide * kept
        inside = max(0, min(h - top, high) - before)
        of, to = source + size * (top + before) * wide * pitch, target + before * line
        fill(target, before * wide * kept, problem)
        widen(of, pitch, to, kept, inside * wide, problem)
        fill(to + inside * line, (high - before - inside) * wide * kept, problem)

    return whole_rows


def make_fetch(arithmetic: MatrixArithmetic) -> Callable[[int, int, int, int, int], None]:
    """Fetch rows of an image with their borders, all channels, plane after plane.

    ``(x, target, top, high, problem)``: ``high`` rows of a rectangle, the first is ``top``, as wide
    as a row of results needs.
    """
    image_row, size = make_image_row(arithmetic, columns_apart), arithmetic.bits // 8
    grain, block = arithmetic.grain, arithmetic.block

    def fetch(x: int, target: int, top: int, high: int, problem: int) -> None:
        c, plane = get(problem, word.C), get(problem, word.H) * get(problem, word.W)
        left, wide, words = -get(problem, word.LEFT), width_of_rows(problem), steps(c, grain)
        down = get(problem, word.SY) // step_down(problem)
        for q in range((words + block - 1) // block):
            of, to = x + size * q * block * grain * plane, target + 4 * q * block * high * wide
            kept, pitch = min(block, words - q * block), stored(c, q, block * grain)
            for row in range(high):
                at, y = to + 4 * row * wide * kept, top + row * down
                image_row(of, pitch, at, kept, y, left, wide, problem)

    return fetch
