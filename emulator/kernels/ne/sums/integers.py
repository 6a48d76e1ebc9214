"""INT8: exact 32-bit sums modulo 2**32, then the chain to INT8 (docs/isa.md, INT8).

A sum has the terms (a - zero_a) * (b - zero_b). Two implementations give the same integers:

* bytes, if the processor has AVX-512 VNNI, which multiplies unsigned by signed bytes. So A is stored as a' =
  a + 128. With z = zero_a + 128 the sum is ``sum(a'b) - z sum(b) - zero_b sum(a') + K z zero_b``. The second
  term and the last are start values of a column, the third of a row.
* halves, on every processor: both numbers less their zero points as 16-bit integers.
"""

from __future__ import annotations

from emulator.kernels.ne import problem as word
from emulator.kernels.ne.arithmetic import MatrixArithmetic, Multiply, Start
from emulator.kernels.ne.elements import BLOCK, INT8_BLOCK, lanes, panel_width, stored, stored_lanes
from emulator.kernels.ne.groups import AT, EDGE, EDGE_LANES, SUMS, make_multiply
from emulator.kernels.ne.problem import psum_at, result_at
from emulator.memory.rows import clear, copy_rows
from emulator.native.primitives.int8 import BYTES, CHAIN_LANES, HALVES, requantise, requantise_row
from emulator.native.primitives.memory import get, put, view_u8, view_u16, view_u32
from emulator.native.primitives.products import Product
from emulator.native.target import has_feature
from tx8isa.numbers.formats import Format
from tx8isa.numbers.primitives import s32, s64, u64

from .integer_panels import make_columns, make_direct_panel, make_transposed_panel

VNNI = has_feature("avx512vnni")


def make_integer(vnni: bool = VNNI) -> MatrixArithmetic:
    """Make the arithmetic of INT8 by one of its two implementations."""
    grain = 4 if vnni else 2
    return MatrixArithmetic(
        bits=8,
        grain=grain,
        block=INT8_BLOCK // grain,
        extra=1,
        multiply=make_multiply(BYTES if vnni else HALVES),
        panel=make_transposed_panel(vnni),
        direct_panel=make_direct_panel(vnni),
        part=None,
        transposed_part=None,
        row=None,
        row_part=None,
        rows=flipped_rows if vnni else half_rows,
        fill=fill_bytes if vnni else fill_zeros,
        columns=make_columns(vnni),
        column_pitch=panel_width,
        edge=_make_row_sums(BYTES[4, EDGE_LANES]) if vnni else _no_row_sums,
        start=_make_start(vnni),
        finish=finish,
    )


# --- A ------------------------------------------------------------------------------------------------------


def flipped_rows(source: int, pitch: int, target: int, kept: int, count: int, problem: int) -> None:
    """Convert rows to a + 128 as unsigned bytes."""
    size = 4 * kept
    if size == pitch:
        size, count = size * count, 1
    for r in range(count):
        row, bytes_ = view_u8(source + r * pitch, size), view_u8(target + r * size, size)
        for i in range(u64(size)):
            bytes_[i] = s64(row[i]) ^ 128


def half_rows(source: int, pitch: int, target: int, kept: int, count: int, problem: int) -> None:
    """Convert rows to a - zero_a as 16-bit halves."""
    zero, size = get(problem, word.ZERO_A), 2 * kept
    if size == pitch:
        size, count = size * count, 1
    for r in range(count):
        row, halves = view_u8(source + r * pitch, size), view_u16(target + 2 * r * size, size)
        for i in range(u64(size)):
            halves[i] = (s64(row[i]) ^ 128) - 128 - zero


def fill_bytes(target: int, words: int, problem: int) -> None:
    """Outside the image A is its zero point (proposed)."""
    zero, bytes_ = get(problem, word.ZERO_A), view_u8(target, 4 * words)
    for i in range(u64(4 * words)):
        bytes_[i] = zero + 128


def fill_zeros(target: int, words: int, problem: int) -> None:
    """Outside the image A is its zero point (proposed)."""
    clear(target, 4 * words)


def _make_row_sums(product: Product) -> Multiply:
    """Compute sums of a', one vector of equal numbers for each row, by products with bytes of ones.

    The words start at step ``first``; lanes after the last step are ignored.
    """

    def row_sums(
        group: int, rows: int, lda: int, a: int, ka: int, words: int, first: int, problem: int
    ) -> None:
        if get(problem, word.ZERO_B) == 0:
            return
        target = group + EDGE
        clear(target, 4 * EDGE_LANES * (0 if first else rows + 4))
        ones = target - 8 * EDGE_LANES
        whole, tail = view_u32(ones, EDGE_LANES), view_u32(ones + 4 * EDGE_LANES, EDGE_LANES)
        last = get(problem, word.K) - 4 * (first + words - 1)
        for j in range(EDGE_LANES):
            whole[j] = 0x01010101
            tail[j] = 0x01010101 >> (8 * max(4 - last, 0))
        for r in range(0, rows, 4):
            at, to = group + 8 * r, target + 4 * EDGE_LANES * r
            if words > 1:
                product(at, lda, a, ka, ones, 0, to, EDGE_LANES, words - 1)
            product(at, lda, a + 4 * (words - 1) * ka, ka, ones + 4 * EDGE_LANES, 0, to, EDGE_LANES, 1)

    return row_sums


def _no_row_sums(
    group: int, rows: int, lda: int, a: int, ka: int, words: int, first: int, problem: int
) -> None:
    """Do nothing: the numbers are already less their zero points."""


# --- sums ---------------------------------------------------------------------------------------------------


def _make_start(vnni: bool) -> Start:
    """Make start values: the column's, less zero_b times the row's, and partial sums (INT32)."""

    def start(group: int, rows: int, i: int, first: int, p: int, begin: int, problem: int) -> None:
        zero, n = get(problem, word.ZERO_B) if vnni else 0, get(problem, word.N)
        width, pitch, valid = panel_width(n, p), stored_lanes(n, p), lanes(n, p)
        columns, summed = view_u32(begin, width), get(problem, word.PSUM_FORMAT) != word.NO_PSUM
        at = psum_at(problem, i) + 4 * (p * BLOCK * get(problem, word.M) + first * pitch)
        put(group, AT, group + SUMS)
        for r in range(rows):
            sums, less = view_u32(group + SUMS + 4 * r * width, width), 0
            if zero != 0:
                less = zero * s64(view_u32(group + EDGE + 4 * EDGE_LANES * r, 1)[0])
            for j in range(u64(width)):
                sums[j] = s64(columns[j]) - less
            if summed:
                partial = view_u32(at + 4 * r * pitch, valid)
                for j in range(u64(valid)):
                    sums[j] = s64(sums[j]) + s64(partial[j])

    return start


def finish(group: int, rows: int, i: int, first: int, p: int, problem: int) -> None:
    """Store a group of sums in the result: unchanged (INT32) or through the chain (INT8)."""
    out = result_at(problem, i)
    if get(problem, word.OUT_FORMAT) == Format.INT32:
        _store_sums(group, rows, out, first, p, problem)
    else:
        _store_bytes(group, rows, out, first, p, problem)


def _store_sums(group: int, rows: int, out: int, first: int, p: int, problem: int) -> None:
    n = get(problem, word.N)
    width, pitch, valid = panel_width(n, p), stored_lanes(n, p), lanes(n, p)
    at = out + 4 * (p * BLOCK * get(problem, word.M) + first * pitch)
    for r in range(rows):
        sums, words = view_u32(group + SUMS + 4 * r * width, valid), view_u32(at + 4 * r * pitch, pitch)
        for j in range(u64(valid)):
            words[j] = sums[j]
        clear(at + 4 * (r * pitch + valid), 4 * (pitch - valid))


def _store_bytes(group: int, rows: int, out: int, first: int, p: int, problem: int) -> None:
    n, plane, lane = get(problem, word.N), p * BLOCK // INT8_BLOCK, p * BLOCK % INT8_BLOCK
    width, pitch, valid = panel_width(n, p), stored(n, plane, INT8_BLOCK), lanes(n, p)
    at = out + plane * INT8_BLOCK * get(problem, word.M) + first * pitch + lane
    sums, room = group + SUMS, min(BLOCK, pitch - lane)
    if get(problem, word.SCALE_P) == 0:
        if valid == pitch and 2 * width <= BLOCK:
            _narrow_rows(sums, at, rows, width, valid, problem)
            return
    elif valid % CHAIN_LANES == 0:
        _scaled_rows(sums, at, rows, width, pitch, valid, p * BLOCK, problem)
        for r in range(rows if room > valid else 0):
            clear(at + r * pitch + valid, room - valid)
        return
    for r in range(rows):
        _chain(sums + 4 * r * width, at + r * pitch, valid, p * BLOCK, problem)
        clear(at + r * pitch + valid, room - valid)


def _scaled_rows(
    sums: int, at: int, rows: int, width: int, pitch: int, valid: int, channel: int, problem: int
) -> None:
    """Convert rows of whole vectors of sums by factors; the first factor is for ``channel``."""
    q1, q0 = get(problem, word.Q1), get(problem, word.Q0)
    relu, zero = get(problem, word.RELU), get(problem, word.ZERO_OUT)
    above, below = get(problem, word.SCALE_P) + 2 * channel, get(problem, word.SCALE_N) + 2 * channel
    for r in range(rows):
        of, to = sums + 4 * r * width, at + r * pitch
        for j in range(0, valid, CHAIN_LANES):
            requantise_row(of + 4 * j, above + 2 * j, below + 2 * j, to + j, q1, q0, relu, zero)


def _narrow_rows(sums: int, at: int, rows: int, width: int, valid: int, problem: int) -> None:
    """Convert rows that are stored without gaps in one call, because single short rows would be slow.

    They are at most half as wide as a group's rows, so that their results fit after their sums.
    """
    if width == valid:
        _chain(sums, at, rows * valid, 0, problem)
    else:
        spare = sums + 4 * rows * width
        _chain(sums, spare, rows * width, 0, problem)
        copy_rows(at, valid, spare, width, valid, rows)


def _chain(sums_at: int, target: int, n: int, channel: int, problem: int) -> None:
    """Convert O32 to O8 for one row."""
    q1, q0 = get(problem, word.Q1), get(problem, word.Q0)
    relu, zero = get(problem, word.RELU), get(problem, word.ZERO_OUT)
    above_at, below_at = get(problem, word.SCALE_P), get(problem, word.SCALE_N)
    sums, result = view_u32(sums_at, n), view_u8(target, n)
    if above_at == 0:
        for j in range(u64(n)):
            result[j] = requantise(s64(sums[j]), q1, 1, q0, relu, zero)
    else:
        above = view_u16(above_at + 2 * channel, n)
        below = view_u16(below_at + 2 * channel, n)
        for j in range(u64(n)):
            scale = s64(above[j]) if s32(s64(sums[j])) >= 0 else s64(below[j])
            result[j] = requantise(s64(sums[j]), q1, scale, q0, relu, zero)
