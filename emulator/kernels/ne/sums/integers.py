"""INT8: exact 32-bit sums modulo 2**32, then the chain to INT8 (docs/isa.md, INT8).

A sum is made of (a - zero_a) * (b - zero_b). Two ways give the same integers:

* bytes, where the processor has AVX-512 VNNI: it multiplies unsigned by signed bytes, so A is stored as
  a' = a + 128, and with z = zero_a + 128 the sum is
  ``sum(a'b) - z sum(b) - zero_b sum(a') + K z zero_b``: the second term and the last are start values of a
  column, the third of a row.
* halves, everywhere: both numbers less their zero points as 16-bit integers.
"""

from __future__ import annotations

from emulator.kernels.ne import options as o
from emulator.kernels.ne.arithmetic import Arithmetic, Function
from emulator.kernels.ne.elements import BLOCK, INT8_BLOCK, clear, lanes, panel_width, stored, stored_lanes
from emulator.kernels.ne.groups import EDGE_LANES, make_multiply
from emulator.memory.rows import copy_rows
from emulator.native.primitives.int8 import BYTES, HALVES, requantize
from emulator.native.primitives.memory import view_i64, view_u8, view_u16, view_u32
from emulator.native.primitives.tile import Tile
from emulator.native.target import has_feature
from tx8isa.numbers.formats import Format
from tx8isa.numbers.primitives import s32, s64, u64

from .integer_panels import make_columns, make_direct_panel, make_transposed_panel

VNNI = has_feature("avx512vnni")


def make_integer(vnni: bool = VNNI) -> Arithmetic:
    """The arithmetic of INT8 by one of its two ways."""
    grain = 4 if vnni else 2
    return Arithmetic(
        bits=8,
        grain=grain,
        block=INT8_BLOCK // grain,
        extra=1,
        multiply=make_multiply(BYTES if vnni else HALVES),
        panel=make_transposed_panel(vnni),
        direct_panel=make_direct_panel(vnni),
        rows=flipped_rows if vnni else half_rows,
        fill=fill_bytes if vnni else fill_zeros,
        columns=make_columns(vnni),
        column_pitch=panel_width,
        edge=_make_row_sums(BYTES[4, EDGE_LANES]) if vnni else _no_row_sums,
        start=_make_start(vnni),
        finish=finish,
    )


# --- A ------------------------------------------------------------------------------------------------------


def flipped_rows(source: int, pitch: int, target: int, kept: int, count: int, options: int) -> None:
    """a + 128 as unsigned bytes."""
    size = 4 * kept
    if size == pitch:
        size, count = size * count, 1
    for r in range(count):
        row, bytes_ = view_u8(source + r * pitch, size), view_u8(target + r * size, size)
        for i in range(u64(size)):
            bytes_[i] = s64(row[i]) ^ 128


def half_rows(source: int, pitch: int, target: int, kept: int, count: int, options: int) -> None:
    """a - zero_a as 16-bit halves."""
    zero, size = s64(view_i64(options, o.WORDS)[o.ZERO_A]), 2 * kept
    if size == pitch:
        size, count = size * count, 1
    for r in range(count):
        row, halves = view_u8(source + r * pitch, size), view_u16(target + 2 * r * size, size)
        for i in range(u64(size)):
            halves[i] = (s64(row[i]) ^ 128) - 128 - zero


def fill_bytes(target: int, words: int, options: int) -> None:
    """Outside the image A is its zero point (proposed)."""
    zero, bytes_ = s64(view_i64(options, o.WORDS)[o.ZERO_A]), view_u8(target, 4 * words)
    for i in range(u64(4 * words)):
        bytes_[i] = zero + 128


def fill_zeros(target: int, words: int, options: int) -> None:
    """Outside the image A is its zero point (proposed)."""
    clear(target, 4 * words)


def _make_row_sums(tile: Tile) -> Function:
    """Sums of a', one vector of equal numbers for each row: products with bytes of ones.

    The words start at step ``first`` of ``steps``; behind the last step there are lanes that do not count.
    """

    def row_sums(
        target: int,
        index: int,
        rows: int,
        lda: int,
        a: int,
        ka: int,
        words: int,
        steps: int,
        first: int,
        options: int,
    ) -> None:
        if view_i64(options, o.WORDS)[o.ZERO_B] == 0:
            return
        clear(target, 4 * EDGE_LANES * (0 if first else rows + 4))
        ones = target - 8 * EDGE_LANES
        whole, tail = view_u32(ones, EDGE_LANES), view_u32(ones + 4 * EDGE_LANES, EDGE_LANES)
        last = steps - 4 * (first + words - 1)
        for j in range(EDGE_LANES):
            whole[j] = 0x01010101
            tail[j] = 0x01010101 >> (8 * max(4 - last, 0))
        for r in range(0, rows, 4):
            at, to = index + 8 * r, target + 4 * EDGE_LANES * r
            if words > 1:
                tile(at, lda, a, ka, ones, 0, to, EDGE_LANES, words - 1)
            tile(at, lda, a + 4 * (words - 1) * ka, ka, ones + 4 * EDGE_LANES, 0, to, EDGE_LANES, 1)

    return row_sums


def _no_row_sums(
    target: int,
    index: int,
    rows: int,
    lda: int,
    a: int,
    ka: int,
    words: int,
    steps: int,
    first: int,
    options: int,
) -> None:
    """The zero points are in the numbers."""


# --- sums ---------------------------------------------------------------------------------------------------


def _make_start(vnni: bool) -> Function:
    """Start values: the column's, less zero_b times the row's, and partial sums (INT32)."""

    def start(
        c: int,
        rows: int,
        width: int,
        psum: int,
        psum_format: int,
        positions: int,
        first: int,
        n: int,
        p: int,
        row: int,
        edge: int,
        options: int,
    ) -> None:
        zero = view_i64(options, o.WORDS)[o.ZERO_B] if vnni else 0
        columns, pitch, valid = view_u32(row, width), stored_lanes(n, p), lanes(n, p)
        at = psum + 4 * (p * BLOCK * positions + first * pitch)
        for r in range(rows):
            sums, less = view_u32(c + 4 * r * width, width), 0
            if zero != 0:
                less = zero * s64(view_u32(edge + 4 * EDGE_LANES * r, 1)[0])
            for j in range(u64(width)):
                sums[j] = s64(columns[j]) - less
            if psum_format >= 0:
                partial = view_u32(at + 4 * r * pitch, valid)
                for j in range(u64(valid)):
                    sums[j] = s64(sums[j]) + s64(partial[j])

    return start


def finish(
    c: int,
    rows: int,
    width: int,
    out: int,
    out_format: int,
    positions: int,
    first: int,
    n: int,
    p: int,
    options: int,
) -> None:
    """A group of sums into the result: as they are (INT32) or through the chain (INT8)."""
    valid = lanes(n, p)
    if out_format == Format.INT32:
        pitch = stored_lanes(n, p)
        at = out + 4 * (p * BLOCK * positions + first * pitch)
        for r in range(rows):
            sums, words = view_u32(c + 4 * r * width, valid), view_u32(at + 4 * r * pitch, pitch)
            for j in range(u64(valid)):
                words[j] = sums[j]
            clear(at + 4 * (r * pitch + valid), 4 * (pitch - valid))
    else:
        plane, lane = p * BLOCK // INT8_BLOCK, p * BLOCK % INT8_BLOCK
        pitch = stored(n, plane, INT8_BLOCK)
        room = min(BLOCK, pitch - lane)
        at = out + plane * INT8_BLOCK * positions + first * pitch + lane
        if valid == pitch and 2 * width <= BLOCK and view_i64(options, o.WORDS)[o.SCALE_P] == 0:
            _narrow_rows(c, at, rows, width, valid, options)
            return
        for r in range(rows):
            _chain(c + 4 * r * width, at + r * pitch, valid, p * BLOCK, options)
            clear(at + r * pitch + valid, room - valid)


def _narrow_rows(c: int, at: int, rows: int, width: int, valid: int, options: int) -> None:
    """Rows that are stored without gaps, all at once: a row of few would be slow by itself.

    They are half as wide as a group's at most, so that behind their sums there is room for their results."""
    if width == valid:
        _chain(c, at, rows * valid, 0, options)
    else:
        spare = c + 4 * rows * width
        _chain(c, spare, rows * width, 0, options)
        copy_rows(at, valid, spare, width, valid, rows)


def _chain(c: int, target: int, n: int, channel: int, options: int) -> None:
    """O32 to O8 for one row."""
    words = view_i64(options, o.WORDS)
    q1, q0, relu, zero = s64(words[o.Q1]), s64(words[o.Q0]), s64(words[o.RELU]), s64(words[o.ZERO_OUT])
    sums, result = view_u32(c, n), view_u8(target, n)
    if words[o.SCALE_P] == 0:
        for j in range(u64(n)):
            result[j] = requantize(s64(sums[j]), q1, 1, q0, relu, zero)
    else:
        above = view_u16(words[o.SCALE_P] + 2 * channel, n)
        below = view_u16(words[o.SCALE_N] + 2 * channel, n)
        for j in range(u64(n)):
            scale = s64(above[j]) if s32(s64(sums[j])) >= 0 else s64(below[j])
            result[j] = requantize(s64(sums[j]), q1, scale, q0, relu, zero)
