"""Convolution for shapes whose input with its borders does not fit the scratch.

A window spread over thousands of padding rows is legal and nobody's speed matters there: the inputs of a
group of results are collected for one tap at a time. The sums are those of ``conv``, term by term.
"""

from __future__ import annotations

from .arithmetic import Arithmetic, Function
from .elements import panel_width, planes, stored
from .groups import FIXED, GROUP, PLANE, SLACK, SUMS, count_up


def gathered_bytes(words: int) -> int:
    """The inputs of a group for one tap."""
    return 4 * GROUP * words + SLACK


def make_gathered(arithmetic: Arithmetic) -> Function:
    """All images; arguments as for those of ``conv``."""
    group, widen_panel = _make_group(arithmetic), arithmetic.panel

    def gathered(
        x: int,
        w: int,
        out: int,
        psum: int,
        scratch: int,
        batch: int,
        x_bytes: int,
        out_bytes: int,
        psum_bytes: int,
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
    ) -> None:
        for p in range(planes(o)):
            widen_panel(w, scratch + FIXED, scratch + PLANE, ky * kx, o, c, p, options)
            for i in range(batch):
                for at in range(0, oh * ow, GROUP):
                    group(
                        x + i * x_bytes,
                        out + i * out_bytes,
                        psum + i * psum_bytes,
                        scratch,
                        h,
                        width,
                        c,
                        oh,
                        ow,
                        o,
                        p,
                        at,
                        ky,
                        kx,
                        sy,
                        sx,
                        top,
                        left,
                        dy,
                        dx,
                        out_format,
                        psum_format,
                        options,
                    )

    return gathered


def _make_group(arithmetic: Arithmetic) -> Function:
    """The results from number ``at`` on of one image, 64 channels; the panel lies behind what is fixed."""
    start, finish, tap, grain = arithmetic.start, arithmetic.finish, _make_tap(arithmetic), arithmetic.grain

    def group(
        x: int,
        out: int,
        psum: int,
        scratch: int,
        h: int,
        width: int,
        c: int,
        oh: int,
        ow: int,
        o: int,
        p: int,
        at: int,
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
    ) -> None:
        panel, sums, words = scratch + FIXED, scratch + SUMS, (c + grain - 1) // grain
        count, columns = min(GROUP, oh * ow - at), panel_width(o, p)
        begin = panel + 4 * ky * kx * words * columns
        rows = begin + 4 * columns + SLACK
        start(sums, count, columns, psum, psum_format, oh * ow, at, o, p, begin, 0, options)
        for t in range(ky * kx):
            weights = panel + 4 * t * words * columns
            tap(
                x,
                rows,
                scratch,
                count,
                at,
                h,
                width,
                c,
                ow,
                sy,
                sx,
                t // kx * dy - top,
                t % kx * dx - left,
                weights,
                columns,
                options,
            )
        finish(sums, count, columns, out, out_format, oh * ow, at, o, p, options)

    return group


def _make_tap(arithmetic: Arithmetic) -> Function:
    """The products of one tap for ``count`` results from number ``first`` on."""
    multiply, widen, fill = arithmetic.multiply, arithmetic.rows, arithmetic.fill
    grain, block, size = arithmetic.grain, arithmetic.block, arithmetic.bits // 8

    def tap(
        x: int,
        rows: int,
        scratch: int,
        count: int,
        first: int,
        h: int,
        width: int,
        c: int,
        ow: int,
        sy: int,
        sx: int,
        y0: int,
        x0: int,
        weights: int,
        columns: int,
        options: int,
    ) -> None:
        words = (c + grain - 1) // grain
        count_up(scratch, count)
        for q in range((words + block - 1) // block):
            kept, pitch = min(block, words - q * block), stored(c, q, block * grain)
            for r in range(count):
                iy, ix = (first + r) // ow * sy + y0, (first + r) % ow * sx + x0
                to = rows + 4 * r * kept
                if iy >= 0 and iy < h and ix >= 0 and ix < width:
                    of = q * block * grain * h * width + (iy * width + ix) * pitch
                    widen(x + size * of, pitch, to, kept, 1, options)
                else:
                    fill(to, kept, options)
            multiply(
                scratch,
                count,
                kept,
                rows,
                1,
                weights + 4 * q * block * columns,
                columns,
                scratch + SUMS,
                kept,
            )

    return tap
