"""The gradient of convolution weights (docs/isa.md, Backward convolution): for each tap a product over all
result positions.

``dW[ky, kx, o, i] = sum over n, oh, ow of dY[n, oh, ow, o] * X[n, y, x, i]`` with y = oh * sy + ky * dy - top
and x = ow * sx + kx * dx - left, FP32 fused multiply-add in that order.
"""

from __future__ import annotations

from tx8isa.numbers.layouts import batch_bytes

from .arithmetic import Arithmetic, Function
from .elements import BLOCK, clear_gap, copy, element_bytes, lanes, overlap, panel_width, planes, stored_lanes
from .groups import FIXED as GROUPS
from .groups import ROWS, SLACK, count_up

CHUNK = 256
"""Result positions whose numbers are collected at a time."""
MAX_MAPS = 4096
ROOM = 4 * (BLOCK + ROWS) * BLOCK
"""Sums of 64 result channels and 64 input channels."""
GRADIENT = GROUPS
INPUT = GRADIENT + 4 * CHUNK * BLOCK + SLACK
TOTALS = INPUT + 4 * CHUNK * BLOCK + SLACK
FIXED = TOTALS + MAX_MAPS // BLOCK * ROOM


def backward_scratch_bytes(taps: int, o: int, c: int, out_format: int) -> int:
    """Bytes of scratch a weight gradient needs."""
    return FIXED + batch_bytes(taps * o, c, 8 * element_bytes(out_format))


def make_backward(arithmetic: Arithmetic) -> Function:
    """The weight gradient of one input format, on addresses and integers.

    ``backward(x, g, out, psum, scratch, batch, h, width, c, oh, ow, o, ky, kx, sy, sx, top, left, dy, dx,
    out_format, psum_format, options)``: x [batch, h, width, c] and the gradient g [batch, oh, ow, o] are
    NCx, out and psum [ky, kx, o, c] one Cx volume; the rest as in ``conv``.
    """
    start, finish, add = arithmetic.start, arithmetic.finish, _make_add(arithmetic)
    bits = arithmetic.bits

    def backward(
        x: int,
        g: int,
        out: int,
        psum: int,
        scratch: int,
        batch: int,
        h: int,
        width: int,
        c: int,
        oh: int,
        ow: int,
        o: int,
        ky: int,
        kx: int,
        sy: int,
        sx: int,
        top: int,
        left: int,
        dy: int,
        dx: int,
        out_format: int,
        psum_format: int,
        options: int,
    ) -> int:
        rows, size = ky * kx * o, batch_bytes(ky * kx * o, c, 8 * element_bytes(out_format))
        clash = overlap(out, size, x, batch * batch_bytes(h * width, c, bits))
        clash = clash or overlap(out, size, g, batch * batch_bytes(oh * ow, o, bits))
        target = scratch + FIXED if clash else out
        clear_gap(target, rows, c, element_bytes(out_format))
        for number in range(planes(c) * ky * kx):
            p, tap = number // (ky * kx), number % (ky * kx)
            columns, y0, x0 = panel_width(c, p), tap // kx * dy - top, tap % kx * dx - left
            for q in range(planes(o)):
                sums, first, maps = scratch + TOTALS + q * ROOM, tap * o + q * BLOCK, lanes(o, q)
                start(sums, maps, columns, psum, psum_format, rows, first, c, p, 0, 0, options)
            for i in range(batch):
                add(
                    x + i * batch_bytes(h * width, c, bits),
                    g + i * batch_bytes(oh * ow, o, bits),
                    scratch,
                    h,
                    width,
                    c,
                    p,
                    oh,
                    ow,
                    o,
                    sy,
                    sx,
                    y0,
                    x0,
                    options,
                )
            for q in range(planes(o)):
                sums, first, maps = scratch + TOTALS + q * ROOM, tap * o + q * BLOCK, lanes(o, q)
                finish(sums, maps, columns, target, out_format, rows, first, c, p, options)
        if clash:
            copy(out, target, size)
        return 0

    return backward


def _make_add(arithmetic: Arithmetic) -> Function:
    """Add what one image gives to the sums of a tap and 64 input channels."""
    widen, multiply, size = arithmetic.rows, arithmetic.multiply, arithmetic.bits // 8
    collect = _make_collect(arithmetic)

    def add(
        x: int,
        g: int,
        scratch: int,
        h: int,
        width: int,
        c: int,
        p: int,
        oh: int,
        ow: int,
        o: int,
        sy: int,
        sx: int,
        y0: int,
        x0: int,
        options: int,
    ) -> None:
        columns = panel_width(c, p)
        for first in range(0, oh * ow, CHUNK):
            count = min(CHUNK, oh * ow - first)
            collect(x, scratch + INPUT, h, width, c, p, ow, first, count, sy, sx, y0, x0, options)
            for q in range(planes(o)):
                pitch = stored_lanes(o, q)
                of = g + size * (q * BLOCK * oh * ow + first * pitch)
                widen(of, pitch, scratch + GRADIENT, pitch, count, options)
                count_up(scratch, lanes(o, q))
                sums = scratch + TOTALS + q * ROOM
                multiply(
                    scratch, lanes(o, q), 1, scratch + GRADIENT, pitch, scratch + INPUT, columns, sums, count
                )

    return add


def _make_collect(arithmetic: Arithmetic) -> Function:
    """The inputs of one tap for ``count`` results from number ``first`` on: [count, panel width]."""
    widen, fill, size = arithmetic.rows, arithmetic.fill, arithmetic.bits // 8

    def collect(
        x: int,
        target: int,
        h: int,
        width: int,
        c: int,
        p: int,
        ow: int,
        first: int,
        count: int,
        sy: int,
        sx: int,
        y0: int,
        x0: int,
        options: int,
    ) -> None:
        columns, pitch, kept = panel_width(c, p), stored_lanes(c, p), lanes(c, p)
        row, column = first // ow, first % ow
        for r in range(count):
            iy, ix, to = row * sy + y0, column * sx + x0, target + 4 * r * columns
            if iy >= 0 and iy < h and ix >= 0 and ix < width:
                of = p * BLOCK * h * width + (iy * width + ix) * pitch
                widen(x + size * of, pitch, to, kept, 1, options)
            else:
                fill(to, kept, options)
            column += 1
            if column == ow:
                row, column = row + 1, 0

    return collect
