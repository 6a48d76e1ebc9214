"""The gradient of convolution weights, a product for each tap (docs/isa.md, Backward convolution).

``dW[ky, kx, o, i] = sum over n, oh, ow of dY[n, oh, ow, o] * X[n, y, x, i]`` with y = oh * sy + ky * dy - top
and x = ow * sx + kx * dx - left, FP32 fused multiply-add in that order.
"""

from __future__ import annotations

from collections.abc import Callable

from emulator.native.primitives.memory import get
from tx8isa.numbers.layouts import batch_bytes
from tx8isa.numbers.limits import LARGEST_EXTENT

from . import problem as word
from .arithmetic import MatrixArithmetic
from .elements import BLOCK, element_bytes, lanes, panel_width, planes, stored_lanes
from .groups import FIXED as GROUPS
from .groups import ROWS, SLACK, SUMS, count_up
from .problem import choose_result, clear_gap, deliver, image_bytes, result_bytes, set_product

CHUNK = 256
"""Result positions whose numbers are collected at a time."""
ROOM = SUMS + 4 * (BLOCK + ROWS) * BLOCK
"""A group with the sums of 64 result channels and 64 input channels."""
GRADIENT = GROUPS
INPUT = GRADIENT + 4 * CHUNK * BLOCK + SLACK
TOTALS = INPUT + 4 * CHUNK * BLOCK + SLACK
FIXED = TOTALS + LARGEST_EXTENT // BLOCK * ROOM  # dst_shape holds the maps in the place of an extent


def backward_scratch_bytes(taps: int, o: int, c: int, out_format: int) -> int:
    """Return the bytes of working memory that a weight gradient needs."""
    return FIXED + batch_bytes(taps * o, c, 8 * element_bytes(out_format))


def make_backward(arithmetic: MatrixArithmetic) -> Callable[[int], int]:
    """Make the weight gradient of one input format: ``backward(problem) -> 0``.

    A [BATCH, H, W, C] and the gradient B [BATCH, OH, OW, MAPS] are NCx, result and partial sums
    [KY, KX, MAPS, C] one Cx volume.
    """
    tap_of_plane, bits = _make_tap(arithmetic), arithmetic.bits

    def backward(problem: int) -> int:
        batch, taps = (get(problem, word.BATCH), get(problem, word.KY) * get(problem, word.KX))
        c, size = get(problem, word.C), batch * image_bytes(problem, bits)
        set_product(problem, taps * get(problem, word.MAPS), 1, c, taps)
        result, spare = result_bytes(problem, word.OUT_FORMAT), get(problem, word.WORK) + FIXED
        choose_result(problem, result, size, batch * _gradient_bytes(problem, bits), spare)
        clear_gap(problem, 0)
        for p in range(planes(c)):
            for tap in range(taps):
                tap_of_plane(p, tap, problem)
        deliver(problem, result)
        return 0

    return backward


def _gradient_bytes(problem: int, bits: int) -> int:
    """Return the bytes of the gradient of one image's results."""
    positions = get(problem, word.OH) * get(problem, word.OW)
    return batch_bytes(positions, get(problem, word.MAPS), bits)


def _make_tap(arithmetic: MatrixArithmetic) -> Callable[[int, int, int], None]:
    """Compute one tap of plane ``p`` of the input channels: the sums of all maps, over all images."""
    start, finish, add = arithmetic.start, arithmetic.finish, _make_add(arithmetic)

    def tap_of_plane(p: int, tap: int, problem: int) -> None:
        maps, totals = get(problem, word.MAPS), get(problem, word.WORK) + TOTALS
        for q in range(planes(maps)):
            first = tap * maps + q * BLOCK
            start(totals + q * ROOM, lanes(maps, q), 0, first, p, 0, problem)
        for i in range(get(problem, word.BATCH)):
            add(i, p, tap, problem)
        for q in range(planes(maps)):
            first = tap * maps + q * BLOCK
            finish(totals + q * ROOM, lanes(maps, q), 0, first, p, problem)

    return tap_of_plane


def _make_add(arithmetic: MatrixArithmetic) -> Callable[[int, int, int, int], None]:
    """Add the products of image ``i`` to the sums of a tap and plane ``p`` of the input channels."""
    widen, multiply, bits = arithmetic.rows, arithmetic.multiply, arithmetic.bits
    collect = _make_collect(arithmetic)

    def add(i: int, p: int, tap: int, problem: int) -> None:
        work, columns = get(problem, word.WORK), panel_width(get(problem, word.C), p)
        maps, positions = (get(problem, word.MAPS), get(problem, word.OH) * get(problem, word.OW))
        x = get(problem, word.A) + i * image_bytes(problem, bits)
        gradient = get(problem, word.B) + i * _gradient_bytes(problem, bits)
        for first in range(0, positions, CHUNK):
            count = min(CHUNK, positions - first)
            collect(x, p, tap, first, count, problem)
            for q in range(planes(maps)):
                pitch, group = stored_lanes(maps, q), work + TOTALS + q * ROOM
                of = gradient + bits // 8 * (q * BLOCK * positions + first * pitch)
                widen(of, pitch, work + GRADIENT, pitch, count, problem)
                count_up(group, lanes(maps, q))
                a, panel = work + GRADIENT, work + INPUT
                multiply(group, lanes(maps, q), 1, a, pitch, panel, columns, count)

    return add


def _make_collect(arithmetic: MatrixArithmetic) -> Callable[[int, int, int, int, int, int], None]:
    """Collect the inputs of one tap for ``count`` results from number ``first``: [count, panel width]."""
    widen, fill, size = arithmetic.rows, arithmetic.fill, arithmetic.bits // 8

    def collect(x: int, p: int, tap: int, first: int, count: int, problem: int) -> None:
        c, h, width = get(problem, word.C), get(problem, word.H), get(problem, word.W)
        ow, sy, sx = get(problem, word.OW), get(problem, word.SY), get(problem, word.SX)
        kx, target = get(problem, word.KX), get(problem, word.WORK) + INPUT
        y0 = tap // kx * get(problem, word.DY) - get(problem, word.TOP)
        x0 = tap % kx * get(problem, word.DX) - get(problem, word.LEFT)
        columns, pitch, kept = panel_width(c, p), stored_lanes(c, p), lanes(c, p)
        row, column = first // ow, first % ow
        for r in range(count):
            iy, ix, to = row * sy + y0, column * sx + x0, target + 4 * r * columns
            if iy >= 0 and iy < h and ix >= 0 and ix < width:
                of = p * BLOCK * h * width + (iy * width + ix) * pitch
                widen(x + size * of, pitch, to, kept, 1, problem)
            else:
                fill(to, kept, problem)
            column += 1
            if column == ow:
                row, column = row + 1, 0

    return collect
