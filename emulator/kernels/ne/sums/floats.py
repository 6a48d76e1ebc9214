"""FP16, BF16 and TF32: binary32 words, one fused multiply-add per step, one rounding at the end."""

from __future__ import annotations

from typing import Any

from emulator.kernels.ne import options as o
from emulator.kernels.ne.arithmetic import Arithmetic, Function
from emulator.kernels.ne.elements import (
    BLOCK,
    clear,
    element_bytes,
    lanes,
    make_narrow,
    make_widen,
    make_widen_rows,
    stored_lanes,
)
from emulator.kernels.ne.groups import make_multiply
from emulator.native.primitives.float32 import single
from emulator.native.primitives.memory import view_f32, view_i64
from emulator.native.primitives.tile import TILES
from tx8isa.numbers.formats import Format
from tx8isa.numbers.primitives import u64

from .float_panels import make_direct_panel, make_transposed_panel

LEAKY_SLOPE = 0.01
"""Of ``lrelu``: no operand carries one (proposed)."""


def make_float(fmt: Format, post: bool) -> Arithmetic:
    """The arithmetic of a format; ``post``: bias, scale and activation take part (proposed)."""
    return Arithmetic(
        bits=fmt.bits,
        grain=1,
        block=BLOCK,
        extra=0,
        multiply=make_multiply(TILES),
        panel=make_transposed_panel(fmt),
        direct_panel=make_direct_panel(fmt),
        rows=make_widen_rows(fmt),
        fill=zeros,
        columns=_make_columns(fmt),
        column_pitch=stored_lanes,
        edge=_nothing,
        start=make_start(),
        finish=make_finish(fmt, post),
    )


def zeros(target: int, words: int, options: int) -> None:
    """+0 outside the image."""
    clear(target, 4 * words)


def _nothing(
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
    """Binary32 sums need no corrections."""


def _make_columns(fmt: Format) -> Function:
    widen, size = make_widen(fmt), fmt.bits // 8

    def columns(source: int, target: int, plane: int, k: int, m: int, chunk: int, options: int) -> None:
        widen(source + size * chunk * BLOCK * k, target, k * stored_lanes(m, chunk))

    return columns


def make_start() -> Function:
    """Start values of a group: +0, or the partial sums at ``psum`` in ``psum_format`` (below 0: none)."""
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
        stored, size = stored_lanes(n, p), element_bytes(psum_format)
        at = psum + (p * BLOCK * positions + first * stored) * size
        if psum_format < 0:
            sums = view_f32(c, rows * width)
            for i in range(u64(rows * width)):
                sums[i] = 0.0
        elif stored == width:
            load(at, psum_format, c, rows * width)
        else:
            for r in range(rows):
                load(at + r * stored * size, psum_format, c + 4 * r * width, lanes(n, p))

    return start


def make_finish(fmt: Format, post: bool) -> Function:
    """Round a group into the result, in ``fmt`` or FP32; padding lanes become zero."""
    same, single_ = make_narrow(fmt), make_narrow(Format.FP32)
    before: Any = process if post else _leave

    def store(c: int, out: int, out_format: int, n: int) -> None:
        if out_format == Format.FP32:
            single_(c, out, n)
        else:
            same(c, out, n)

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
        stored, valid, size = stored_lanes(n, p), lanes(n, p), element_bytes(out_format)
        at = out + (p * BLOCK * positions + first * stored) * size
        before(c, rows, width, valid, p * BLOCK, options)
        if stored == valid and stored == width:
            store(c, at, out_format, rows * width)
        else:
            for r in range(rows):
                to = at + r * stored * size
                store(c + 4 * r * width, to, out_format, valid)
                clear(to + valid * size, (stored - valid) * size)

    return finish


def _leave(c: int, rows: int, width: int, valid: int, channel: int, options: int) -> None:
    """Bias, scale and activation are ignored (board)."""


def process(c: int, rows: int, width: int, valid: int, channel: int, options: int) -> None:
    """Bias, scale and activation on a group, one binary32 operation after another (proposed)."""
    words = view_i64(options, o.WORDS)
    for r in range(rows):
        sums = view_f32(c + 4 * r * width, valid)
        if words[o.BIAS] != 0:
            bias = view_f32(words[o.BIAS] + 4 * channel, valid)
            for j in range(u64(valid)):
                sums[j] = sums[j] + bias[j]
        if words[o.SCALE_P] != 0:
            above = view_f32(words[o.SCALE_P] + 4 * channel, valid)
            below = view_f32(words[o.SCALE_N] + 4 * channel, valid)
            for j in range(u64(valid)):
                sums[j] = sums[j] * (above[j] if sums[j] >= single(0.0) else below[j])
        if words[o.RELU] != 0:
            for j in range(u64(valid)):
                sums[j] = sums[j] if sums[j] > single(0.0) else single(0.0)
        if words[o.LRELU] != 0:
            for j in range(u64(valid)):
                sums[j] = sums[j] if sums[j] >= single(0.0) else sums[j] * single(LEAKY_SLOPE)
