"""Depthwise convolution (docs/isa.md, Depthwise convolution): 64 channels at a time, vectors over channels.

The input that a block of results needs goes into scratch with its borders, as in ``conv``; every result
channel has sums over ky, kx in ascending order. INT8 numbers become 32-bit integers less the zero point.
"""

from __future__ import annotations

from emulator.native.primitives.memory import view_i64
from emulator.native.primitives.tile import TAP_LANES, TAP_ROWS
from tx8isa.families.aligned import tensor
from tx8isa.numbers.layouts import batch_bytes

from .arithmetic import Function
from .channels import Channels
from .elements import BLOCK, clear_gap, copy, element_bytes, lanes, overlap, panel_width, planes, stored
from .groups import FIXED as GROUPS
from .groups import GROUP, SLACK, SUMS
from .image import band_rows, extent, make_rectangle, positions

RECTANGLE_BYTES = 32 << 20
"""Input of one block; a single result of the largest window takes half of it."""
MAX_TAPS = 255 * 255
OFFSETS = GROUPS
WEIGHTS = OFFSETS + 8 * MAX_TAPS
INPUT = WEIGHTS + 4 * MAX_TAPS * BLOCK + SLACK
FIXED = INPUT + RECTANGLE_BYTES + SLACK


def depthwise_scratch_bytes(batch: int, oh: int, ow: int, c: int, out_format: int) -> int:
    """Bytes of scratch a depthwise convolution needs."""
    return FIXED + tensor(8 * element_bytes(out_format), batch, oh, ow, c)


def block_columns(ow: int, ky: int, kx: int, sx: int) -> int:
    """Result columns of a block: all, unless the input of one row of results does not fit."""
    columns = ow
    while columns > 1 and 4 * BLOCK * ky * extent(columns, sx, kx, 1) > RECTANGLE_BYTES:
        columns = (columns + 1) // 2
    return columns


def make_depthwise(channels: Channels) -> Function:
    """Depthwise convolution of one input format, on addresses and integers.

    ``depthwise(x, w, out, psum, scratch, batch, h, width, c, oh, ow, ky, kx, sy, sx, top, left, out_format,
    psum_format, options)``: as in ``conv``; w is [ky, kx, c] as one Cx volume.
    """
    plane, bits = _make_plane(channels), channels.arithmetic.bits

    def depthwise(
        x: int,
        w: int,
        out: int,
        psum: int,
        scratch: int,
        batch: int,
        h: int,
        width: int,
        c: int,
        oh: int,
        ow: int,
        ky: int,
        kx: int,
        sy: int,
        sx: int,
        top: int,
        left: int,
        out_format: int,
        psum_format: int,
        options: int,
    ) -> int:
        x_bytes = batch_bytes(h * width, c, bits)
        out_bytes = batch_bytes(oh * ow, c, 8 * element_bytes(out_format))
        psum_bytes = batch_bytes(oh * ow, c, 8 * element_bytes(psum_format))
        size = batch * out_bytes
        clash = overlap(out, size, x, batch * x_bytes) or overlap(out, size, w, batch_bytes(ky * kx, c, bits))
        target = scratch + FIXED if clash else out
        for i in range(batch):
            clear_gap(target + i * out_bytes, oh * ow, c, element_bytes(out_format))
            for p in range(planes(c)):
                plane(
                    x + i * x_bytes,
                    w,
                    target + i * out_bytes,
                    psum + i * psum_bytes,
                    scratch,
                    h,
                    width,
                    c,
                    p,
                    oh,
                    ow,
                    ky,
                    kx,
                    sy,
                    sx,
                    top,
                    left,
                    out_format,
                    psum_format,
                    options,
                )
        if clash:
            copy(out, target, size)
        return 0

    return depthwise


def _make_plane(channels: Channels) -> Function:
    """64 channels of one image, block after block of the result."""
    rectangle, block = make_rectangle(channels.arithmetic), _make_block(channels)
    weights, begin = channels.weights, channels.begin
    lanes_of_plane, size = channels.block, channels.arithmetic.bits // 8

    def plane(
        x: int,
        w: int,
        out: int,
        psum: int,
        scratch: int,
        h: int,
        width: int,
        c: int,
        p: int,
        oh: int,
        ow: int,
        ky: int,
        kx: int,
        sy: int,
        sx: int,
        top: int,
        left: int,
        out_format: int,
        psum_format: int,
        options: int,
    ) -> None:
        whole, lane, kept = p * BLOCK // lanes_of_plane, p * BLOCK % lanes_of_plane, lanes(c, p)
        pitch, columns = stored(c, whole, lanes_of_plane), panel_width(c, p)
        of = size * (whole * lanes_of_plane * ky * kx + lane)
        for t in range(ky * kx):
            weights(w + of + size * t * pitch, pitch, scratch + WEIGHTS + 4 * t * columns, kept, 1, options)
        begin(scratch + WEIGHTS + 4 * ky * kx * columns, columns, kept, p * BLOCK, options)
        x += size * (whole * lanes_of_plane * h * width + lane)
        right = block_columns(ow, ky, kx, sx)
        for column in range(0, ow, right):
            across = min(right, ow - column)
            wide = extent(across, sx, kx, 1)
            down = band_rows(oh, 4 * kept * wide, ky, sy, 1)
            for row in range(0, oh, down):
                count = min(down, oh - row)
                high = extent(count, sy, ky, 1)
                rectangle(
                    x,
                    pitch,
                    scratch + INPUT,
                    kept,
                    h,
                    width,
                    row * sy - top,
                    high,
                    column * sx - left,
                    wide,
                    options,
                )
                block(
                    scratch,
                    out,
                    psum,
                    count,
                    across,
                    row,
                    column,
                    wide,
                    kept,
                    columns,
                    c,
                    p,
                    oh,
                    ow,
                    ky,
                    kx,
                    sy,
                    sx,
                    out_format,
                    psum_format,
                    options,
                )

    return plane


def _make_block(channels: Channels) -> Function:
    """A block of results, row after row when it is not as wide as the result."""
    start, finish, taps = channels.arithmetic.start, channels.arithmetic.finish, channels.taps

    def block(
        scratch: int,
        out: int,
        psum: int,
        count: int,
        across: int,
        row: int,
        column: int,
        wide: int,
        kept: int,
        columns: int,
        c: int,
        p: int,
        oh: int,
        ow: int,
        ky: int,
        kx: int,
        sy: int,
        sx: int,
        out_format: int,
        psum_format: int,
        options: int,
    ) -> None:
        offsets, sums, begin = view_i64(scratch + OFFSETS, ky * kx), scratch + SUMS, scratch + WEIGHTS
        for t in range(ky * kx):
            offsets[t] = (t // kx * wide + t % kx) * kept
        begin += 4 * ky * kx * columns
        run = count * across if across == ow else across
        for first in range(0, count * across, run):
            for position in range(first, first + run, GROUP):
                group = min(GROUP, first + run - position)
                at = (row + position // across) * ow + column + position % across
                positions(scratch, group, position, across, sy * wide * kept, sx * kept)
                start(sums, group, columns, psum, psum_format, oh * ow, at, c, p, begin, 0, options)
                for j in range(0, columns, TAP_LANES):
                    for r in range(0, group, TAP_ROWS):
                        taps(
                            scratch + 8 * r,
                            scratch + INPUT + 4 * j,
                            scratch + OFFSETS,
                            scratch + WEIGHTS + 4 * j,
                            columns,
                            sums + 4 * (r * columns + j),
                            columns,
                            ky * kx,
                        )
                finish(sums, group, columns, out, out_format, oh * ow, at, c, p, options)

    return block
