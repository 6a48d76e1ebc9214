"""INT8 operands as words in scratch: four bytes, or two 16-bit halves, of neighbouring steps of a sum."""

from __future__ import annotations

from emulator.kernels.ne import options as o
from emulator.kernels.ne.arithmetic import Function
from emulator.kernels.ne.elements import BLOCK, INT8_BLOCK, clear, lanes, panel_width, stored
from emulator.kernels.ne.groups import make_multiply
from emulator.native.primitives.int8 import BYTES, interleave_bytes, interleave_halves
from emulator.native.primitives.memory import copy_bytes, view_i64, view_u8, view_u16, view_u32
from emulator.native.primitives.tile import transpose_16x16
from tx8isa.numbers.primitives import s64, u64

FLIP = 0x80808080
"""Signed bytes to unsigned ones, and back: plus 128."""


def make_transposed_panel(vnni: bool) -> Function:
    """Panel ``p`` of aligned weights [taps * n, k], and the start values of its columns.

    Rows are tap, then words of k; columns n. Lanes behind the last of k are zeros.
    """
    grain = 4 if vnni else 2
    block = INT8_BLOCK // grain
    widen, begin = (_copy_rows if vnni else _half_rows), _make_begin(vnni)

    def panel(source: int, target: int, plane: int, taps: int, n: int, k: int, p: int, options: int) -> None:
        width, rows, steps = panel_width(n, p), lanes(n, p), (k + grain - 1) // grain
        for tap in range(taps):
            for q in range((steps + block - 1) // block):
                pitch, valid = stored(k, q, INT8_BLOCK), min(INT8_BLOCK, k - q * INT8_BLOCK)
                of = source + q * INT8_BLOCK * taps * n + (tap * n + p * BLOCK) * pitch
                to = target + 4 * (tap * steps + q * block) * width
                widen(of, plane, rows, pitch, valid, options)
                words = pitch // grain
                for i in range(0, min(block, steps - q * block), 16):
                    for j in range(0, rows, 16):
                        transpose_16x16(plane + 4 * (j * words + i), words, to + 4 * (i * width + j), width)
        begin(target, plane, taps * steps, taps * k, width, rows, p * BLOCK, options)

    return panel


def _copy_rows(source: int, target: int, rows: int, pitch: int, valid: int, options: int) -> None:
    """Signed bytes as they are, zeros behind the last lane that counts."""
    copy_bytes(target, source, rows * pitch)
    for r in range(rows):
        clear(target + r * pitch + valid, pitch - valid)


def _half_rows(source: int, target: int, rows: int, pitch: int, valid: int, options: int) -> None:
    """b - zero_b as 16-bit halves, zeros behind the last lane that counts."""
    zero = s64(view_i64(options, o.WORDS)[o.ZERO_B])
    row, halves = view_u8(source, rows * pitch), view_u16(target, rows * pitch)
    for i in range(u64(rows * pitch)):
        halves[i] = (s64(row[i]) ^ 128) - 128 - zero
    for r in range(rows):
        clear(target + 2 * (r * pitch + valid), 2 * (pitch - valid))


def make_direct_panel(vnni: bool) -> Function:
    """Panel ``p`` of an aligned [k, n] matrix, and the start values of its columns."""
    grain = 4 if vnni else 2
    interleave, begin = _make_interleave(vnni), _make_begin(vnni)

    def panel(source: int, target: int, plane: int, k: int, n: int, p: int, options: int) -> None:
        zero = 0 if vnni else s64(view_i64(options, o.WORDS)[o.ZERO_B])
        width = panel_width(n, p)
        interleave(source, target, plane, k, n, p, zero, zero & 255)
        begin(target, plane, (k + grain - 1) // grain, k, width, lanes(n, p), p * BLOCK, options)

    return panel


def make_columns(vnni: bool) -> Function:
    """64 columns of an aligned A [k, m] as words, a row for every word of k."""
    interleave = _make_interleave(vnni)

    def columns(source: int, target: int, plane: int, k: int, m: int, chunk: int, options: int) -> None:
        adjust = FLIP if vnni else s64(view_i64(options, o.WORDS)[o.ZERO_A])
        interleave(source, target, plane, k, m, chunk, adjust, 0)

    return columns


def _make_interleave(vnni: bool) -> Function:
    """64 columns of a matrix [k, n] as words [k / grain, panel width]; rows behind the last hold ``pad``."""
    grain = 4 if vnni else 2
    interleave = interleave_bytes if vnni else interleave_halves

    def columns(source: int, target: int, plane: int, k: int, n: int, p: int, adjust: int, pad: int) -> None:
        lane = p * BLOCK % INT8_BLOCK
        pitch, width = stored(n, p * BLOCK // INT8_BLOCK, INT8_BLOCK), panel_width(n, p)
        of = source + p * BLOCK // INT8_BLOCK * INT8_BLOCK * k + lane
        room = min(BLOCK, pitch - lane)
        direct = k // grain * grain if room >= 16 else 0
        for first in range(0, direct, grain):
            to = target + 4 * first // grain * width
            for j in range(0, width, 16):
                interleave(of + first * pitch + j, pitch, to + 4 * j, adjust)
        padding = view_u8(plane, grain * BLOCK)
        for first in range(direct, k, grain):  # rows that end short of a whole vector, or are missing
            to = target + 4 * (first // grain) * width
            for i in range(u64(grain * BLOCK)):
                padding[i] = pad
            for r in range(min(grain, k - first)):
                copy_bytes(plane + r * BLOCK, of + (first + r) * pitch, room)
            for j in range(0, width, 16):
                interleave(plane + j, BLOCK, to + 4 * j, adjust)

    return columns


def _make_begin(vnni: bool) -> Function:
    """The row behind a panel's last: bias, and for bytes what the zero points make of the column."""
    multiply = make_multiply(BYTES)
    sums_at = 128

    def begin(
        panel: int, plane: int, rows: int, steps: int, width: int, valid: int, channel: int, options: int
    ) -> None:
        words, target = view_i64(options, o.WORDS), view_u32(panel + 4 * rows * width, width)
        for j in range(u64(width)):
            target[j] = 0
        if words[o.BIAS] != 0:
            bias = view_u32(words[o.BIAS] + 4 * channel, valid)
            for j in range(u64(valid)):
                target[j] = bias[j]
        if vnni:
            z, zero = words[o.ZERO_A] + 128, s64(words[o.ZERO_B])
            clear(plane, sums_at + 4 * 8 * BLOCK)  # an index of zeros, and sums
            view_u32(plane + sums_at - 4, 1)[0] = 0x01010101
            multiply(plane, 1, 0, plane + sums_at - 4, 0, panel, width, plane + sums_at, rows)
            totals = view_u32(plane + sums_at, width)
            for j in range(u64(width)):
                target[j] = s64(target[j]) - z * s64(totals[j]) + steps * z * zero

    return begin
