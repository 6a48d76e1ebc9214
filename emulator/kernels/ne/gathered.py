"""Convolution for shapes whose input with its borders does not fit the scratch.

A window spread over thousands of padding rows is legal, but need not be fast. So the inputs of a group of
results are collected for one tap at a time. The sums equal those of ``conv``, term by term.
"""

from __future__ import annotations

from collections.abc import Callable

from emulator.native.primitives.memory import get

from . import problem as word
from .arithmetic import MatrixArithmetic, steps
from .elements import panel_width, planes, stored
from .groups import FIXED, GROUP, SLACK, count_up
from .problem import image_bytes


def gathered_bytes(words: int) -> int:
    """Return the bytes of the inputs of a group for one tap."""
    return 4 * GROUP * words + SLACK


def make_gathered(arithmetic: MatrixArithmetic) -> Callable[[int], None]:
    """Compute all images of a problem, one panel of weights after another."""
    results, widen_panel = _make_results(arithmetic), arithmetic.panel

    def gathered(problem: int) -> None:
        m, panel = get(problem, word.M), get(problem, word.WORK) + FIXED
        for p in range(planes(get(problem, word.N))):
            widen_panel(get(problem, word.B), panel, p, problem)
            for i in range(get(problem, word.BATCH)):
                for first in range(0, m, GROUP):
                    results(i, first, p, problem)

    return gathered


def _make_results(arithmetic: MatrixArithmetic) -> Callable[[int, int, int, int], None]:
    """Compute the results from number ``first`` of image ``i``, plane ``p``; its panel is at ``FIXED``."""
    start, finish, add_tap = arithmetic.start, arithmetic.finish, _make_tap(arithmetic)
    grain, bits = arithmetic.grain, arithmetic.bits

    def results(i: int, first: int, p: int, problem: int) -> None:
        group, taps = get(problem, word.WORK), get(problem, word.TAPS)
        words, x = steps(get(problem, word.K), grain), get(problem, word.A)
        columns = panel_width(get(problem, word.N), p)
        count = min(GROUP, get(problem, word.M) - first)
        panel = group + FIXED
        begin = panel + 4 * taps * words * columns
        rows = begin + 4 * columns + SLACK
        start(group, count, i, first, p, begin, problem)
        x += i * image_bytes(problem, bits)
        for tap in range(taps):
            add_tap(x, rows, count, first, tap, panel + 4 * tap * words * columns, columns, problem)
        finish(group, count, i, first, p, problem)

    return results


def _make_tap(arithmetic: MatrixArithmetic) -> Callable[[int, int, int, int, int, int, int, int], None]:
    """Add the products of one tap for ``count`` results from number ``first``."""
    multiply, collect = arithmetic.multiply, _make_collect(arithmetic)
    grain, block = arithmetic.grain, arithmetic.block

    def add_tap(
        x: int, rows: int, count: int, first: int, tap: int, weights: int, columns: int, problem: int
    ) -> None:
        group, words = get(problem, word.WORK), steps(get(problem, word.K), grain)
        count_up(group, count)
        for q in range((words + block - 1) // block):
            kept = min(block, words - q * block)
            collect(x, rows, count, first, tap, q, problem)
            multiply(group, count, kept, rows, 1, weights + 4 * q * block * columns, columns, kept)

    return add_tap


def _make_collect(arithmetic: MatrixArithmetic) -> Callable[[int, int, int, int, int, int, int], None]:
    """Collect the inputs of one tap, plane ``q`` of the channels: [count, words of the plane]."""
    widen, fill, size = arithmetic.rows, arithmetic.fill, arithmetic.bits // 8
    grain, block = arithmetic.grain, arithmetic.block

    def collect(x: int, rows: int, count: int, first: int, tap: int, q: int, problem: int) -> None:
        c, h, width = get(problem, word.C), get(problem, word.H), get(problem, word.W)
        ow, sy, sx = get(problem, word.OW), get(problem, word.SY), get(problem, word.SX)
        kx = get(problem, word.KX)
        y0 = tap // kx * get(problem, word.DY) - get(problem, word.TOP)
        x0 = tap % kx * get(problem, word.DX) - get(problem, word.LEFT)
        kept, pitch = min(block, steps(c, grain) - q * block), stored(c, q, block * grain)
        for r in range(count):
            iy, ix, to = (first + r) // ow * sy + y0, (first + r) % ow * sx + x0, rows + 4 * r * kept
            if iy >= 0 and iy < h and ix >= 0 and ix < width:
                of = q * block * grain * h * width + (iy * width + ix) * pitch
                widen(x + size * of, pitch, to, kept, 1, problem)
            else:
                fill(to, kept, problem)

    return collect
