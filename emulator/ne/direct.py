"""Convolution element by element, for shapes whose widened input does not fit the scratch.

A window spread over thousands of padding rows is legal and nobody's speed matters there; the sums are those
of ``conv``, term by term.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from emulator.native.float32 import single
from emulator.native.memory import view_f32
from tx8isa.formats import Format
from tx8isa.primitives import fma32

from .elements import BLOCK, lanes, make_load, panel_width, planes, stored_lanes
from .product import element_bytes, make_finish, make_start


def make_direct(fmt: Format) -> Callable[..., None]:
    """One image; arguments as in ``conv``."""
    start, finish, position = make_start(), make_finish(fmt), _make_position(fmt)

    def direct(
        x: int, w: int, out: int, psum: int, sums: int,
        h: int, width: int, c: int, oh: int, ow: int, o: int,
        ky: int, kx: int, sy: int, sx: int, top: int, left: int, dy: int, dx: int,
        out_format: int, psum_format: int,
    ) -> None:  # fmt: skip
        out_size, psum_size = element_bytes(out_format), element_bytes(psum_format)
        for p in range(planes(o)):
            columns, stored, valid = panel_width(o, p), stored_lanes(o, p), lanes(o, p)
            for r in range(oh * ow):
                at = p * BLOCK * oh * ow + r * stored
                start(sums, 1, columns, psum + at * psum_size, psum_format, stored, valid)
                position(
                    x, w, sums, h, width, c, o, p, r // ow * sy - top, r % ow * sx - left, ky, kx, dy, dx
                )
                finish(sums, 1, columns, out + at * out_size, out_format, stored, valid)

    return direct


def _make_position(fmt: Format) -> Callable[..., None]:
    """All products of one result position and one panel of output channels."""
    load: Any = make_load(fmt)
    size = fmt.bits // 8

    def position(
        x: int, w: int, sums: int, h: int, width: int, c: int, o: int, plane: int,
        y0: int, x0: int, ky: int, kx: int, dy: int, dx: int,
    ) -> None:  # fmt: skip
        totals = view_f32(sums, BLOCK)
        for tap in range(ky * kx):
            iy, ix = y0 + tap // kx * dy, x0 + tap % kx * dx
            inside = iy >= 0 and iy < h and ix >= 0 and ix < width
            for q in range(planes(c)):
                stored = stored_lanes(c, q)
                of = x + size * (q * BLOCK * h * width + (iy * width + ix) * stored)
                row = q * BLOCK * ky * kx * o + (tap * o + plane * BLOCK) * stored
                for i in range(lanes(c, q)):
                    value: Any = load(of + size * i) if inside else single(0.0)
                    for j in range(lanes(o, plane)):
                        weight = load(w + size * (row + j * stored + i))
                        totals[j] = fma32(value, weight, totals[j])

    return position
