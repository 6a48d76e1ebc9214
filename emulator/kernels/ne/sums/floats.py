"""FP16, BF16 and TF32: binary32 words, one fused multiply-add per step, one rounding at the end."""

from __future__ import annotations

from typing import Any

from emulator.kernels.ne import problem as word
from emulator.kernels.ne.arithmetic import Finish, MatrixArithmetic, Panel, Start
from emulator.kernels.ne.elements import (
    BLOCK,
    element_bytes,
    lanes,
    make_narrow,
    make_widen,
    make_widen_rows,
    panel_width,
    stored_lanes,
)
from emulator.kernels.ne.groups import AT, SUMS, make_multiply
from emulator.kernels.ne.problem import psum_at, result_at
from emulator.memory.rows import clear
from emulator.native.primitives.float32 import single
from emulator.native.primitives.memory import get, put, view_f32
from emulator.native.primitives.products import PRODUCTS, product_row_fp16
from tx8isa.numbers.formats import Format
from tx8isa.numbers.primitives import u64

from .float_panels import (
    HARDWARE_FP16,
    half_part,
    make_direct_panel,
    make_part,
    make_transposed_panel,
    make_transposed_part,
)

LEAKY_SLOPE = 0.01
"""Slope of ``lrelu`` below zero: no operand carries one (proposed)."""


def make_float(fmt: Format, post: bool) -> MatrixArithmetic:
    """Make the arithmetic of a format; ``post``: bias, scale and activation are applied (proposed)."""
    by_rows = fmt is Format.FP16 and HARDWARE_FP16
    return MatrixArithmetic(
        bits=fmt.bits,
        grain=1,
        block=BLOCK,
        extra=0,
        multiply=make_multiply(PRODUCTS),
        panel=make_transposed_panel(fmt),
        direct_panel=make_direct_panel(fmt),
        part=make_part(fmt),
        transposed_part=make_transposed_part(fmt),
        row=product_row_fp16 if by_rows else None,
        row_part=half_part if by_rows else None,
        rows=make_widen_rows(fmt),
        fill=zeros,
        columns=_make_columns(fmt),
        column_pitch=stored_lanes,
        edge=_nothing,
        start=make_start(post),
        finish=make_finish(fmt, post),
    )


def zeros(target: int, words: int, problem: int) -> None:
    """Fill with +0, the value outside the image."""
    clear(target, 4 * words)


def _nothing(group: int, rows: int, lda: int, a: int, ka: int, words: int, first: int, problem: int) -> None:
    """Binary32 sums need no corrections."""


def _make_columns(fmt: Format) -> Panel:
    widen, size = make_widen(fmt), fmt.bits // 8

    def columns(source: int, target: int, p: int, problem: int) -> None:
        k, pitch = get(problem, word.K), stored_lanes(get(problem, word.M), p)
        widen(source + size * p * BLOCK * k, target, k * pitch)

    return columns


def make_start(post: bool) -> Start:
    """Make the start values of a group: +0, or partial sums; ``post`` as in ``make_float``."""
    formats = (Format.FP16, Format.BF16, Format.TF32, Format.FP32)
    fp16, bf16, tf32, fp32 = (make_widen(fmt) for fmt in formats)

    def load(psum: int, psum_format: int, target: int, n: int) -> None:
        if psum_format == Format.FP16:
            fp16(psum, target, n)
        elif psum_format == Format.BF16:
            bf16(psum, target, n)
        elif psum_format == Format.TF32:
            tf32(psum, target, n)
        else:
            fp32(psum, target, n)

    def start(group: int, rows: int, i: int, first: int, p: int, begin: int, problem: int) -> None:
        n, psum_format = get(problem, word.N), get(problem, word.PSUM_FORMAT)
        width, stored, size = panel_width(n, p), stored_lanes(n, p), element_bytes(psum_format)
        at = psum_at(problem, i) + (p * BLOCK * get(problem, word.M) + first * stored) * size
        target = group + SUMS
        if not post and is_in_place(p, problem):
            target = result_at(problem, i) + (p * BLOCK * get(problem, word.M) + first * stored) * 4
        put(group, AT, target)
        if psum_format == word.NO_PSUM:
            sums = view_f32(target, rows * width)
            for j in range(u64(rows * width)):
                sums[j] = 0.0
        elif at == target:
            pass
        elif stored == width:
            load(at, psum_format, target, rows * width)
        else:
            for r in range(rows):
                load(at + r * stored * size, psum_format, target + 4 * r * width, lanes(n, p))

    return start


def make_finish(fmt: Format, post: bool) -> Finish:
    """Round a group into the result, in ``fmt`` or FP32; padding lanes become zero."""
    same, single_ = make_narrow(fmt), make_narrow(Format.FP32)
    before: Any = process if post else _leave

    def store(c: int, out: int, out_format: int, n: int) -> None:
        if out_format == Format.FP32:
            single_(c, out, n)
        else:
            same(c, out, n)

    def finish(group: int, rows: int, i: int, first: int, p: int, problem: int) -> None:
        if not post and is_in_place(p, problem):
            return
        n, out_format = get(problem, word.N), get(problem, word.OUT_FORMAT)
        stored, valid, size = stored_lanes(n, p), lanes(n, p), element_bytes(out_format)
        width, sums = panel_width(n, p), group + SUMS
        at = result_at(problem, i) + (p * BLOCK * get(problem, word.M) + first * stored) * size
        before(sums, rows, width, valid, p * BLOCK, problem)
        if stored == valid and stored == width:
            store(sums, at, out_format, rows * width)
        else:
            for r in range(rows):
                to = at + r * stored * size
                store(sums + 4 * r * width, to, out_format, valid)
                clear(to + valid * size, (stored - valid) * size)

    return finish


def is_in_place(p: int, problem: int) -> bool:
    """Return True if the sums of panel ``p`` are made in the result, which must be binary32 without padding
    lanes.

    Partial sums of another format at that place would be overwritten before they are read.
    """
    n, psum_format = get(problem, word.N), get(problem, word.PSUM_FORMAT)
    apart = psum_format == word.NO_PSUM or psum_format == Format.FP32
    apart = apart or get(problem, word.PSUM) != get(problem, word.OUT)
    plain = get(problem, word.IN_PLACE) != 0 and get(problem, word.OUT_FORMAT) == Format.FP32
    return plain and apart and lanes(n, p) == panel_width(n, p) and stored_lanes(n, p) == panel_width(n, p)


def _leave(at: int, rows: int, width: int, valid: int, channel: int, problem: int) -> None:
    """Ignore bias, scale and activation (board)."""


def process(at: int, rows: int, width: int, valid: int, channel: int, problem: int) -> None:
    """Apply bias, scale and activation to a group, one binary32 operation after another (proposed)."""
    bias_at, relu = get(problem, word.BIAS), get(problem, word.RELU)
    above_at, below_at = get(problem, word.SCALE_P), get(problem, word.SCALE_N)
    lrelu = get(problem, word.LRELU)
    for r in range(rows):
        sums = view_f32(at + 4 * r * width, valid)
        if bias_at != 0:
            bias = view_f32(bias_at + 4 * channel, valid)
            for j in range(u64(valid)):
                sums[j] = sums[j] + bias[j]
        if above_at != 0:
            above = view_f32(above_at + 4 * channel, valid)
            below = view_f32(below_at + 4 * channel, valid)
            for j in range(u64(valid)):
                sums[j] = sums[j] * (above[j] if sums[j] >= single(0.0) else below[j])
        if relu != 0:
            for j in range(u64(valid)):
                sums[j] = sums[j] if sums[j] > single(0.0) else single(0.0)
        if lrelu != 0:
            for j in range(u64(valid)):
                sums[j] = sums[j] if sums[j] >= single(0.0) else sums[j] * single(LEAKY_SLOPE)
