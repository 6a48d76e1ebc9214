"""INT8 operands as words in scratch: four bytes, or two 16-bit halves, of neighbouring steps of a sum."""

from __future__ import annotations

from collections.abc import Callable

from emulator.kernels.ne import problem as word
from emulator.kernels.ne.arithmetic import Panel, steps
from emulator.kernels.ne.elements import BLOCK, INT8_BLOCK, lanes, panel_width, stored
from emulator.kernels.ne.groups import AT, PLANE, ROWS, SUMS, make_multiply
from emulator.memory.rows import clear
from emulator.native.primitives.int8 import BYTES, interleave_bytes, interleave_halves
from emulator.native.primitives.memory import copy_bytes, get, put, view_u8, view_u16, view_u32
from emulator.native.primitives.products import transpose_16x16
from tx8isa.numbers.primitives import s64, u64

FLIP = 0x80808080
"""Signed bytes to unsigned ones, and back: plus 128."""


def make_transposed_panel(vnni: bool) -> Panel:
    """Make panel ``p`` of aligned weights [TAPS * N, K], and the start values of its columns.

    Rows are tap, then words of k; columns n. Lanes after the last of k are zeros.
    """
    grain = 4 if vnni else 2
    block = INT8_BLOCK // grain
    widen, begin = (_copy_rows if vnni else _half_rows), _make_begin(vnni)

    def panel(source: int, target: int, p: int, problem: int) -> None:
        k, n, taps = get(problem, word.K), get(problem, word.N), get(problem, word.TAPS)
        width, rows, words = panel_width(n, p), lanes(n, p), steps(k, grain)
        plane = get(problem, word.WORK) + PLANE
        for tap in range(taps):
            for q in range((words + block - 1) // block):
                pitch, valid = stored(k, q, INT8_BLOCK), min(INT8_BLOCK, k - q * INT8_BLOCK)
                of = source + q * INT8_BLOCK * taps * n + (tap * n + p * BLOCK) * pitch
                to = target + 4 * (tap * words + q * block) * width
                widen(of, plane, rows, pitch, valid, problem)
                row = pitch // grain
                for i in range(0, min(block, words - q * block), 16):
                    for j in range(0, rows, 16):
                        transpose_16x16(plane + 4 * (j * row + i), row, to + 4 * (i * width + j), width)
        begin(target, taps * words, taps * k, p, problem)

    return panel


def _copy_rows(source: int, target: int, rows: int, pitch: int, valid: int, problem: int) -> None:
    """Copy signed bytes, with zeros after the last valid lane."""
    copy_bytes(target, source, rows * pitch)
    for r in range(rows):
        clear(target + r * pitch + valid, pitch - valid)


def _half_rows(source: int, target: int, rows: int, pitch: int, valid: int, problem: int) -> None:
    """Convert to b - zero_b as 16-bit halves, with zeros after the last valid lane."""
    zero = get(problem, word.ZERO_B)
    row, halves = view_u8(source, rows * pitch), view_u16(target, rows * pitch)
    for i in range(u64(rows * pitch)):
        halves[i] = (s64(row[i]) ^ 128) - 128 - zero
    for r in range(rows):
        clear(target + 2 * (r * pitch + valid), 2 * (pitch - valid))


def make_direct_panel(vnni: bool) -> Panel:
    """Make panel ``p`` of an aligned [K, N] matrix, and the start values of its columns."""
    grain = 4 if vnni else 2
    interleave, begin = _make_interleave(vnni), _make_begin(vnni)

    def panel(source: int, target: int, p: int, problem: int) -> None:
        k, zero = get(problem, word.K), 0 if vnni else get(problem, word.ZERO_B)
        interleave(source, target, get(problem, word.N), p, zero, zero & 255, problem)
        begin(target, steps(k, grain), k, p, problem)

    return panel


def make_columns(vnni: bool) -> Panel:
    """Make words of 64 columns of an aligned A [K, M], a row for every word of k."""
    interleave = _make_interleave(vnni)

    def columns(source: int, target: int, p: int, problem: int) -> None:
        adjust = FLIP if vnni else get(problem, word.ZERO_A)
        interleave(source, target, get(problem, word.M), p, adjust, 0, problem)

    return columns


def _make_interleave(vnni: bool) -> Callable[[int, int, int, int, int, int, int], None]:
    """Make words [K / grain, panel width] of 64 columns of a matrix [K, n]; missing rows hold ``pad``."""
    grain = 4 if vnni else 2
    interleave = interleave_bytes if vnni else interleave_halves

    def columns(source: int, target: int, n: int, p: int, adjust: int, pad: int, problem: int) -> None:
        k, plane, lane = get(problem, word.K), p * BLOCK // INT8_BLOCK, p * BLOCK % INT8_BLOCK
        pitch, width = stored(n, plane, INT8_BLOCK), panel_width(n, p)
        of, room = source + plane * INT8_BLOCK * k + lane, min(BLOCK, pitch - lane)
        direct = k // grain * grain if room >= 16 else 0
        for first in range(0, direct, grain):
            to = target + 4 * (first // grain) * width
            for j in range(0, width, 16):
                interleave(of + first * pitch + j, pitch, to + 4 * j, adjust)
        padded = get(problem, word.WORK) + PLANE
        padding = view_u8(padded, grain * BLOCK)
        for first in range(direct, k, grain):  # rows that end short of a whole vector, or are missing
            to = target + 4 * (first // grain) * width
            for i in range(u64(grain * BLOCK)):
                padding[i] = pad
            for r in range(min(grain, k - first)):
                copy_bytes(padded + r * BLOCK, of + (first + r) * pitch, room)
            for j in range(0, width, 16):
                interleave(padded + j, BLOCK, to + 4 * j, adjust)

    return columns


def _make_begin(vnni: bool) -> Callable[[int, int, int, int, int], None]:
    """Make the row after panel ``p``: bias, and for bytes the correction of the column for zero points."""
    multiply = make_multiply(BYTES)

    def begin(panel: int, rows: int, terms: int, p: int, problem: int) -> None:
        n, bias_at = get(problem, word.N), get(problem, word.BIAS)
        width, valid = panel_width(n, p), lanes(n, p)
        target = view_u32(panel + 4 * rows * width, width)
        for j in range(u64(width)):
            target[j] = 0
        if bias_at != 0:
            bias = view_u32(bias_at + 4 * p * BLOCK, valid)
            for j in range(u64(valid)):
                target[j] = bias[j]
        if vnni:
            z, zero = get(problem, word.ZERO_A) + 128, get(problem, word.ZERO_B)
            group = get(problem, word.WORK) + PLANE  # the plane is free again
            ones = group + SUMS - 4
            clear(group, 8 * ROWS)
            clear(group + SUMS, 4 * ROWS * BLOCK)
            view_u32(ones, 1)[0] = 0x01010101
            put(group, AT, group + SUMS)
            multiply(group, 1, 0, ones, 0, panel, width, rows)
            totals = view_u32(group + SUMS, width)
            for j in range(u64(width)):
                target[j] = s64(target[j]) - z * s64(totals[j]) + terms * z * zero

    return begin
