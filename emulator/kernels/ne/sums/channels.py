"""Products within each channel: the arithmetic of depthwise convolution."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from emulator.kernels.ne import problem as word
from emulator.kernels.ne.arithmetic import MatrixArithmetic, Rows
from emulator.kernels.ne.elements import BLOCK, INT8_BLOCK
from emulator.native.primitives.memory import get, view_u8, view_u32
from emulator.native.primitives.products import taps_f32, taps_i32
from tx8isa.numbers.formats import Format
from tx8isa.numbers.primitives import s64, u64

from .floats import make_float
from .integers import fill_zeros, make_integer


@dataclass(frozen=True, slots=True)
class Channels:
    """Arithmetic with one step in a word, with additional functions for depthwise convolution."""

    arithmetic: MatrixArithmetic
    block: int
    """Lanes of a whole plane of the input."""
    taps: Callable[[int, int, int, int, int, int, int, int], int]
    """The primitive ``taps_f32`` or ``taps_i32``."""
    weights: Rows
    """Make words of the weights."""
    begin: Callable[[int, int, int, int, int], None]
    """(row, width, valid, channel, problem): start values of the columns."""


def make_channels(fmt: Format, post: bool) -> Channels:
    """The arithmetic of a format; ``post`` as in ``make_float``."""
    if fmt is not Format.INT8:
        arithmetic = make_float(fmt, post)
        return Channels(arithmetic, BLOCK, taps_f32, arithmetic.rows, _nothing)
    # Start values are those of the 16-bit halves, whose numbers are also less their zero points.
    arithmetic = replace(make_integer(vnni=False), grain=1, rows=_less_zero, fill=fill_zeros)
    return Channels(arithmetic, INT8_BLOCK, taps_i32, _integers, _bias)


def _nothing(row: int, width: int, valid: int, channel: int, problem: int) -> None:
    """Binary32 sums start at +0."""


def _bias(row: int, width: int, valid: int, channel: int, problem: int) -> None:
    target, bias = view_u32(row, width), get(problem, word.BIAS)
    for j in range(u64(width)):
        target[j] = 0
    if bias != 0:
        values = view_u32(bias + 4 * channel, valid)
        for j in range(u64(valid)):
            target[j] = values[j]


def _integers(source: int, pitch: int, target: int, kept: int, count: int, problem: int) -> None:
    _widen(source, pitch, target, kept, count, 0)


def _less_zero(source: int, pitch: int, target: int, kept: int, count: int, problem: int) -> None:
    _widen(source, pitch, target, kept, count, get(problem, word.ZERO_A))


def _widen(source: int, pitch: int, target: int, kept: int, count: int, zero: int) -> None:
    """Signed bytes less ``zero`` as 32-bit integers; rows without gaps are one."""
    if kept == pitch:
        kept, count = count * kept, 1
    for r in range(count):
        row, words = view_u8(source + r * pitch, kept), view_u32(target + 4 * r * kept, kept)
        for i in range(u64(kept)):
            words[i] = (s64(row[i]) ^ 128) - 128 - zero
