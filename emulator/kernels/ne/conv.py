"""Convolution of aligned NHWC tensors (docs/isa.md, Convolution), without unfolding the input.

The input rows a band of the result needs go into scratch with their borders; a tap is then one offset from
every result position, and the sums of a position run over ky, kx, i in ascending order.

Inputs outside the image are the number +0 and take part like any other: their products are added, so a weight
that is infinite or NaN makes NaN there, and a start value of -0 becomes +0 (proposed; the literal reading of
"inputs outside the image are 0"). In INT8 they are the zero point. Padding lanes never take part.
"""

from __future__ import annotations

from tx8isa.families.aligned import tensor
from tx8isa.numbers.layouts import batch_bytes

from .arithmetic import Arithmetic, Function
from .elements import BLOCK, clear_gap, copy, element_bytes, overlap, panel_columns, panel_width, planes
from .gathered import gathered_bytes, make_gathered
from .groups import FIXED, GROUP, PLANE, SLACK, SUMS
from .image import band_rows, extent, make_fetch, positions


def panel_bytes(taps: int, words: int, extra: int, o: int) -> int:
    """Scratch of all panels of the weights."""
    return 4 * (taps * words + extra) * panel_columns(o) + SLACK


def _input_bytes(words: int, oh: int, ow: int, ky: int, kx: int, sy: int, sx: int, dy: int, dx: int) -> int:
    """The input of one band."""
    row = 4 * extent(ow, sx, kx, dx) * words
    return row * extent(band_rows(oh, row, ky, sy, dy), sy, ky, dy) + SLACK


def _conv_bytes(
    words: int, extra: int, oh: int, ow: int, o: int, ky: int, kx: int, sy: int, sx: int, dy: int, dx: int
) -> int:
    """Scratch without staged results: panels of the weights, a band of input."""
    band = _input_bytes(words, oh, ow, ky, kx, sy, sx, dy, dx)
    return FIXED + panel_bytes(ky * kx, words, extra, o) + band


def conv_scratch_bytes(
    arithmetic: Arithmetic,
    batch: int,
    c: int,
    oh: int,
    ow: int,
    o: int,
    ky: int,
    kx: int,
    sy: int,
    sx: int,
    dy: int,
    dx: int,
    out_format: int,
) -> int:
    """Bytes of scratch with which bands of input are kept."""
    needed = _conv_bytes(arithmetic.steps(c), arithmetic.extra, oh, ow, o, ky, kx, sy, sx, dy, dx)
    return needed + tensor(8 * element_bytes(out_format), batch, oh, ow, o)


def small_scratch_bytes(
    arithmetic: Arithmetic, batch: int, c: int, oh: int, ow: int, o: int, ky: int, kx: int, out_format: int
) -> int:
    """Bytes of scratch without which a convolution cannot run: panels, a group of inputs, the result."""
    steps = arithmetic.steps(c)
    needed = FIXED + panel_bytes(ky * kx, steps, arithmetic.extra, o) + gathered_bytes(steps)
    return needed + tensor(8 * element_bytes(out_format), batch, oh, ow, o)


def make_conv(arithmetic: Arithmetic) -> Function:
    """Convolution of one input format, on addresses and integers.

    ``conv(x, w, out, psum, scratch, available, batch, h, width, c, oh, ow, o, ky, kx, sy, sx, top, left, dy,
    dx, out_format, psum_format, options)``: x [batch, h, width, c] and out [batch, oh, ow, o] are NCx, w
    [ky, kx, o, c] one Cx volume, psum like out. ``top`` and ``left`` are the pads less what the unpads skip:
    result (0, 0) reads input rows from ``-top`` on and columns from ``-left`` on; they may be negative. All
    of the result is written, zeros in padding lanes and up to the next 256-byte line. With fewer bytes of
    scratch ``available`` than ``conv_scratch_bytes`` it collects the input of one tap at a time, in
    ``small_scratch_bytes``.
    """
    images, small, bits = _make_images(arithmetic), make_gathered(arithmetic), arithmetic.bits
    grain, extra = arithmetic.grain, arithmetic.extra

    def conv(
        x: int,
        w: int,
        out: int,
        psum: int,
        scratch: int,
        available: int,
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
        words = (c + grain - 1) // grain
        x_bytes = batch_bytes(h * width, c, bits)
        out_bytes = batch_bytes(oh * ow, o, 8 * element_bytes(out_format))
        psum_bytes = batch_bytes(oh * ow, o, 8 * element_bytes(psum_format))
        size = batch * out_bytes
        clash = overlap(out, size, x, batch * x_bytes)
        clash = clash or overlap(out, size, w, batch_bytes(ky * kx * o, c, bits))
        needed = _conv_bytes(words, extra, oh, ow, o, ky, kx, sy, sx, dy, dx)
        fits = needed + size <= available
        if not fits:
            needed = FIXED + panel_bytes(ky * kx, words, extra, o) + gathered_bytes(words)
        target = scratch + needed if clash else out
        for i in range(batch):
            clear_gap(target + i * out_bytes, oh * ow, o, element_bytes(out_format))
        if fits:
            images(
                x,
                w,
                target,
                psum,
                scratch,
                batch,
                x_bytes,
                out_bytes,
                psum_bytes,
                h,
                width,
                c,
                oh,
                ow,
                o,
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
        else:
            small(
                x,
                w,
                target,
                psum,
                scratch,
                batch,
                x_bytes,
                out_bytes,
                psum_bytes,
                h,
                width,
                c,
                oh,
                ow,
                o,
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
        if clash:
            copy(out, target, size)
        return 0

    return conv


def _make_images(arithmetic: Arithmetic) -> Function:
    """All images, band after band; the weights are widened once.

    With a single band each panel is widened when it is needed: it is still in the cache then.
    """
    band, widen_panel = _make_band(arithmetic), arithmetic.panel
    grain, extra = arithmetic.grain, arithmetic.extra

    def images(
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
        weights, words = scratch + FIXED, (c + grain - 1) // grain
        rows = weights + panel_bytes(ky * kx, words, extra, o)
        step = band_rows(oh, 4 * extent(ow, sx, kx, dx) * words, ky, sy, dy)
        if batch > 1 or step < oh:
            for p in range(planes(o)):
                to = weights + 4 * p * BLOCK * (ky * kx * words + extra)
                widen_panel(w, to, scratch + PLANE, ky * kx, o, c, p, options)
            w = 0
        for i in range(batch):
            for first in range(0, oh, step):
                band(
                    x + i * x_bytes,
                    w,
                    weights,
                    rows,
                    out + i * out_bytes,
                    psum + i * psum_bytes,
                    scratch,
                    h,
                    width,
                    c,
                    first,
                    min(step, oh - first),
                    oh,
                    ow,
                    o,
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

    return images


def _make_band(arithmetic: Arithmetic) -> Function:
    """Result rows ``first`` .. ``first + count - 1`` of one image; w is 0 when all panels are widened."""
    start, finish, fetch, taps = (
        arithmetic.start,
        arithmetic.finish,
        make_fetch(arithmetic),
        _make_taps(arithmetic),
    )
    widen_panel, grain, extra = arithmetic.panel, arithmetic.grain, arithmetic.extra

    def band(
        x: int,
        w: int,
        weights: int,
        rows: int,
        out: int,
        psum: int,
        scratch: int,
        h: int,
        width: int,
        c: int,
        first: int,
        count: int,
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
        high, wide = extent(count, sy, ky, dy), extent(ow, sx, kx, dx)
        fetch(x, rows, h, width, c, first * sy - top, high, -left, wide, options)
        sums, steps = scratch + SUMS, ky * kx * ((c + grain - 1) // grain)
        for p in range(planes(o)):
            columns, panel = panel_width(o, p), weights
            if w != 0:
                widen_panel(w, panel, scratch + PLANE, ky * kx, o, c, p, options)
            else:
                panel += 4 * p * BLOCK * (steps + extra)
            begin = panel + 4 * steps * columns
            for position in range(0, count * ow, GROUP):
                group, at = min(GROUP, count * ow - position), first * ow + position
                positions(scratch, group, position, ow, sy * wide, sx)
                start(sums, group, columns, psum, psum_format, oh * ow, at, o, p, begin, 0, options)
                taps(scratch, group, rows, high, wide, c, panel, columns, sums, ky, kx, dy, dx)
                finish(sums, group, columns, out, out_format, oh * ow, at, o, p, options)

    return band


def _make_taps(arithmetic: Arithmetic) -> Function:
    """All products of a group; ky outer, then kx, then input channels; one call per kernel row if it can."""
    multiply, grain, block = arithmetic.multiply, arithmetic.grain, arithmetic.block

    def taps(
        index: int,
        group: int,
        rows: int,
        high: int,
        wide: int,
        c: int,
        panel: int,
        columns: int,
        sums: int,
        ky: int,
        kx: int,
        dy: int,
        dx: int,
    ) -> None:
        words = (c + grain - 1) // grain
        merged = kx if words <= block and dx == 1 else 1
        for y in range(ky):
            for x in range(0, kx, merged):
                for q in range((words + block - 1) // block):
                    pitch = min(block, words - q * block)
                    of = rows + 4 * (q * block * high * wide + (y * dy * wide + x * dx) * pitch)
                    weights = panel + 4 * ((y * kx + x) * words + q * block) * columns
                    multiply(index, group, pitch, of, 1, weights, columns, sums, merged * pitch)

    return taps
