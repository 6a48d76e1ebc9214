"""Convolution of aligned NHWC tensors (docs/isa.md, Convolution), without unfolding the input.

The input rows a band of the result needs are widened into scratch with their borders of zeros; a tap is then
one offset from every result position, and the sums of a position run over ky, kx, i in ascending order.

Inputs outside the image are the number +0 and take part like any other: their products are added, so a weight
that is infinite or NaN makes NaN there, and a start value of -0 becomes +0 (proposed; the literal reading of
"inputs outside the image are 0"). Padding lanes never take part.
"""

from __future__ import annotations

from collections.abc import Callable

from emulator.native.memory import view_i64
from tx8isa.aligned import tensor
from tx8isa.formats import Format
from tx8isa.layouts import batch_bytes

from .direct import make_direct
from .elements import (
    BLOCK,
    clear,
    clobbers,
    copy,
    lanes,
    make_widen_rows,
    overlap,
    panel_width,
    planes,
    stored_lanes,
)
from .panels import TRANSPOSE_BYTES, make_transposed_panel, make_transposed_panels, panel_bytes
from .product import (
    GROUP,
    GROUP_BYTES,
    INDEX_BYTES,
    clear_gap,
    element_bytes,
    make_finish,
    make_start,
    multiply,
    repeat_last,
)

_FIXED = INDEX_BYTES + GROUP_BYTES + TRANSPOSE_BYTES

BAND_BYTES = 1 << 20
"""Widened input a band aims at: it should stay in the second-level cache."""


def extent(results: int, stride: int, taps: int, dilation: int) -> int:
    """Input positions that ``results`` neighbouring results reach over."""
    return (results - 1) * stride + (taps - 1) * dilation + 1


def _pitch(channels: int, plane: int) -> int:
    """Elements from one position to the next in a widened plane.

    A single plane loses its padding lanes, so that the steps of neighbouring taps follow one another.
    """
    return channels if channels <= BLOCK else stored_lanes(channels, plane)


def _lanes_widened(channels: int) -> int:
    """Widened lanes of all planes."""
    last = planes(channels) - 1
    return last * BLOCK + _pitch(channels, last)


def _band_rows(oh: int, row_bytes: int, ky: int, sy: int, dy: int) -> int:
    """Result rows of a band: as many as the input of fits ``BAND_BYTES``, at least one."""
    rows = (BAND_BYTES // row_bytes - (ky - 1) * dy - 1) // sy + 1
    return max(1, min(oh, rows))


def _input_bytes(c: int, oh: int, ow: int, ky: int, kx: int, sy: int, sx: int, dy: int, dx: int) -> int:
    """Widened input of one band."""
    row = 4 * extent(ow, sx, kx, dx) * _lanes_widened(c)
    return row * extent(_band_rows(oh, row, ky, sy, dy), sy, ky, dy)


def conv_scratch_bytes(
    batch: int, c: int, oh: int, ow: int, o: int,
    ky: int, kx: int, sy: int, sx: int, dy: int, dx: int, out_format: int,
) -> int:  # fmt: skip
    """Bytes of scratch: panels of the weights, a band of input, the result when it overlaps an input."""
    band = _input_bytes(c, oh, ow, ky, kx, sy, sx, dy, dx)
    return small_scratch_bytes(batch, oh, ow, o, out_format) + panel_bytes(ky * kx * c, o) + band


def small_scratch_bytes(batch: int, oh: int, ow: int, o: int, out_format: int) -> int:
    """Bytes of scratch without which a convolution cannot run: a group, and the result."""
    return _FIXED + tensor(8 * element_bytes(out_format), batch, oh, ow, o)


def make_conv(fmt: Format) -> Callable[..., int]:
    """Convolution of one input format, on addresses and integers.

    ``conv(x, w, out, psum, scratch, available, batch, h, width, c, oh, ow, o, ky, kx, sy, sx, top, left, dy,
    dx, out_format, psum_format)``: x [batch, h, width, c] and out [batch, oh, ow, o] are NCx, w
    [ky, kx, o, c] one Cx volume, psum like out. ``top`` and ``left`` are the pads less what the unpads skip:
    result (0, 0) reads input rows from ``-top`` on and columns from ``-left`` on; they may be negative. All
    of the result is written, zeros in padding lanes and up to the next 256-byte line. With fewer bytes of
    scratch ``available`` than ``conv_scratch_bytes`` it works element by element, in ``small_scratch_bytes``.
    """
    images, small, bits = _make_images(fmt), make_direct(fmt), fmt.bits

    def conv(
        x: int, w: int, out: int, psum: int, scratch: int, available: int,
        batch: int, h: int, width: int, c: int, oh: int, ow: int, o: int,
        ky: int, kx: int, sy: int, sx: int, top: int, left: int, dy: int, dx: int,
        out_format: int, psum_format: int,
    ) -> int:  # fmt: skip
        x_bytes = batch_bytes(h * width, c, bits)
        out_bytes = batch_bytes(oh * ow, o, 8 * element_bytes(out_format))
        psum_bytes = batch_bytes(oh * ow, o, 8 * element_bytes(psum_format)) if psum_format >= 0 else 0
        size = batch * out_bytes
        clash = overlap(out, size, x, batch * x_bytes) or clobbers(out, size, psum, batch * psum_bytes)
        clash = clash or overlap(out, size, w, batch_bytes(ky * kx * o, c, bits))
        # Staged results lie at the end of what is needed, so that both ways of working can use the rest.
        fits = conv_scratch_bytes(batch, c, oh, ow, o, ky, kx, sy, sx, dy, dx, out_format) <= available
        end = scratch + _FIXED
        if fits:
            end += panel_bytes(ky * kx * c, o) + _input_bytes(c, oh, ow, ky, kx, sy, sx, dy, dx)
        target = end if clash else out
        for i in range(batch):
            clear_gap(target + i * out_bytes, oh * ow, o, element_bytes(out_format))
        if fits:
            images(
                x, w, target, psum, scratch, batch, x_bytes, out_bytes, psum_bytes, h, width, c, oh, ow, o,
                ky, kx, sy, sx, top, left, dy, dx, out_format, psum_format,
            )  # fmt: skip
        else:
            for i in range(batch):
                small(
                    x + i * x_bytes, w, target + i * out_bytes, psum + i * psum_bytes, scratch + INDEX_BYTES,
                    h, width, c, oh, ow, o, ky, kx, sy, sx, top, left, dy, dx, out_format, psum_format,
                )  # fmt: skip
        if clash:
            copy(out, target, size)
        return 0

    return conv


def _make_images(fmt: Format) -> Callable[..., None]:
    """All images, band after band; the weights are widened once.

    With a single band each panel is widened when it is needed: it is still in the cache then.
    """
    band, panels = _make_band(fmt), make_transposed_panels(fmt)

    def images(
        x: int, w: int, out: int, psum: int, scratch: int,
        batch: int, x_bytes: int, out_bytes: int, psum_bytes: int,
        h: int, width: int, c: int, oh: int, ow: int, o: int,
        ky: int, kx: int, sy: int, sx: int, top: int, left: int, dy: int, dx: int,
        out_format: int, psum_format: int,
    ) -> None:  # fmt: skip
        weights = scratch + _FIXED
        rows = weights + panel_bytes(ky * kx * c, o)
        step = _band_rows(oh, 4 * extent(ow, sx, kx, dx) * _lanes_widened(c), ky, sy, dy)
        if batch > 1 or step < oh:
            panels(w, weights, scratch + INDEX_BYTES + GROUP_BYTES, ky * kx, o, c)
            w = 0
        for i in range(batch):
            for first in range(0, oh, step):
                band(
                    x + i * x_bytes, w, weights, rows, out + i * out_bytes, psum + i * psum_bytes, scratch,
                    h, width, c, first, min(step, oh - first), oh, ow, o,
                    ky, kx, sy, sx, top, left, dy, dx, out_format, psum_format,
                )  # fmt: skip

    return images


def _make_band(fmt: Format) -> Callable[..., None]:
    """Result rows ``first`` .. ``first + count - 1`` of one image; w is 0 when all panels are widened."""
    start, finish, fetch, widen_panel = (
        make_start(),
        make_finish(fmt),
        _make_fetch(fmt),
        make_transposed_panel(fmt),
    )

    def band(
        x: int, w: int, weights: int, rows: int, out: int, psum: int, scratch: int,
        h: int, width: int, c: int, first: int, count: int, oh: int, ow: int, o: int,
        ky: int, kx: int, sy: int, sx: int, top: int, left: int, dy: int, dx: int,
        out_format: int, psum_format: int,
    ) -> None:  # fmt: skip
        high, wide = extent(count, sy, ky, dy), extent(ow, sx, kx, dx)
        out_size, psum_size = element_bytes(out_format), element_bytes(psum_format)
        fetch(x, rows, h, width, c, first * sy - top, high, -left, wide)
        sums = scratch + INDEX_BYTES
        for p in range(planes(o)):
            columns, stored, valid = panel_width(o, p), stored_lanes(o, p), lanes(o, p)
            panel = weights
            if w != 0:
                widen_panel(w, panel, scratch + INDEX_BYTES + GROUP_BYTES, ky * kx, o, c, p)
            else:
                panel += 4 * p * BLOCK * ky * kx * c
            for position in range(0, count * ow, GROUP):
                group = min(GROUP, count * ow - position)
                _positions(scratch, group, position, ow, sy * wide, sx)
                at = p * BLOCK * oh * ow + (first * ow + position) * stored
                start(sums, group, columns, psum + at * psum_size, psum_format, stored, valid)
                _taps(scratch, group, rows, high, wide, c, panel, columns, sums, ky, kx, dy, dx)
                finish(sums, group, columns, out + at * out_size, out_format, stored, valid)

    return band


def _positions(index: int, group: int, position: int, ow: int, down: int, right: int) -> None:
    """Where the results from number ``position`` of a band on start in the widened input."""
    view = view_i64(index, group)
    row, column = position // ow, position % ow
    for r in range(group):
        view[r] = row * down + column * right
        column += 1
        if column == ow:
            row, column = row + 1, 0
    repeat_last(index, group)


def _taps(
    index: int, group: int, rows: int, high: int, wide: int, c: int,
    panel: int, columns: int, sums: int, ky: int, kx: int, dy: int, dx: int,
) -> None:  # fmt: skip
    """All products of a group: ky outer, then kx, then input channels; one call per kernel row if it can."""
    merged = kx if c <= BLOCK and dx == 1 else 1
    for y in range(ky):
        for x in range(0, kx, merged):
            for q in range(planes(c)):
                pitch = _pitch(c, q)
                of = rows + 4 * (q * BLOCK * high * wide + (y * dy * wide + x * dx) * pitch)
                weights = panel + 4 * ((y * kx + x) * c + q * BLOCK) * columns
                multiply(index, group, pitch, of, 1, weights, columns, sums, merged * lanes(c, q))


def _make_fetch(fmt: Format) -> Callable[..., None]:
    """Widen an input rectangle that may reach beyond the image: zeros there."""
    widen, size = make_widen_rows(fmt), fmt.bits // 8

    def fetch(
        x: int, target: int, h: int, width: int, c: int, top: int, high: int, left: int, wide: int
    ) -> None:
        before = min(max(0, -left), wide)
        inside = max(0, min(left + wide, width) - max(left, 0))
        for q in range(planes(c)):
            stored, pitch = stored_lanes(c, q), _pitch(c, q)
            for row in range(high):
                to = target + 4 * (q * BLOCK * high * wide + row * wide * pitch)
                if top + row < 0 or top + row >= h or inside == 0:
                    clear(to, 4 * wide * pitch)
                else:
                    of = q * BLOCK * h * width + ((top + row) * width + max(left, 0)) * stored
                    clear(to, 4 * before * pitch)
                    widen(x + size * of, stored, to + 4 * before * pitch, pitch, inside)
                    clear(to + 4 * (before + inside) * pitch, 4 * (wide - before - inside) * pitch)

    return fetch
