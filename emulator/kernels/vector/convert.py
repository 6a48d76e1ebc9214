"""Kernels of the converts between packed vectors (docs/isa.md, Converts).

A NaN keeps its sign and upper payload bits and becomes quiet. Nothing else in the emulator keeps payloads, so
the stores here add the NaN rule to those of ``access``. As in ``elementwise``, each rounding mode has a loop,
without branches except for the stochastic one.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any

import numpy as np
from numpy import float64

from emulator.kernels.shared import Kernel
from emulator.kernels.shared.access import ACCESS, VIEWS, any_store, directed_store, nearest_store
from emulator.kernels.shared.checked import INEXACT, INFINITE, INTEGER_OVERFLOW, NAN_INPUT, rounding_events
from emulator.kernels.shared.lfsr import random_bits, step
from emulator.memory.rows import apart
from emulator.memory.state import NUMERIC, RANDOM, SCRATCH, SIZE, SPM
from emulator.native.primitives.float32 import f32_bits
from emulator.native.primitives.memory import view_i64
from tx8isa.numbers.formats import EXPONENT_BITS, MANTISSA_BITS, Format, integer_from
from tx8isa.numbers.primitives import s64, u64
from tx8isa.records.meaning import Convert
from tx8isa.records.record import Instruction

Element = Callable[[int, int, int, Any], int]
"""(source pattern, rounding mode, zero point, state words) -> result pattern."""
Loop = Callable[[int, int, int, int, int, int], None]
"""(address of the result, of the source, elements, rounding mode, zero point, state address)."""
Events = Callable[[int, int, int, int, Any], int]
"""(source pattern, result pattern, rounding mode, zero point, state words) -> exception bits."""

_INTEGER_MAGIC = 6755399441055744.0  # 1.5 * 2**52: adding it leaves no bits below 1


def make_convert(instruction: Instruction, nearest: bool, checked: bool) -> Kernel:
    """Make the kernel of one convert; ``checked``: it also records numeric exceptions."""
    meaning: Convert = instruction.meaning
    source_size, target_size = meaning.source.bits // 8, meaning.target.bits // 8
    names = [o.name for o in instruction.operands]
    target_at, source_at, count_at = (names.index(name) for name in ("dst", "src0", "n"))
    mode_at = names.index("rnd") if "rnd" in names else -1
    zero_at = names.index("zero") if "zero" in names else -1
    operands, run = len(names), _run(meaning, nearest or mode_at < 0, checked)

    def kernel(fields: int, state: int) -> int:
        words, memory = view_i64(fields, operands), view_i64(state, SIZE)
        n, result = words[count_at], memory[SPM] + words[target_at]
        mode = words[mode_at] if mode_at >= 0 else 0
        zero = words[zero_at] if zero_at >= 0 else 0
        first = memory[SPM] + words[source_at]
        first = apart(first, n * source_size, result, n * target_size, memory[SCRATCH])
        run(result, first, n, mode, zero, state)
        return 0

    return kernel


def _run(meaning: Convert, nearest: bool, checked: bool) -> Loop:
    source, target = meaning.source, meaning.target
    if checked:
        return _watched(_nearest(source, target) if nearest else _any_mode(source, target), meaning)
    if nearest:
        return _loop(_nearest(source, target), meaning)
    toward_zero, up, down = (_loop(_directed(source, target, mode), meaning) for mode in (1, 2, 3))
    stochastic = _loop(_any_mode(source, target), meaning)

    def run(result: int, first: int, n: int, mode: int, zero: int, state: int) -> None:
        if mode == 1:
            toward_zero(result, first, n, mode, zero, state)
        elif mode == 2:
            up(result, first, n, mode, zero, state)
        elif mode == 3:
            down(result, first, n, mode, zero, state)
        else:
            stochastic(result, first, n, mode, zero, state)

    return run


def _loop(element: Element, meaning: Convert) -> Loop:
    view_source, view_target = VIEWS[meaning.source.bits // 8], VIEWS[meaning.target.bits // 8]

    def run(result: int, first: int, n: int, mode: int, zero: int, state: int) -> None:
        to, of, memory = view_target(result, n), view_source(first, n), view_i64(state, SIZE)
        for i in range(u64(n)):
            to[i] = element(s64(of[i]), mode, zero, memory)

    return run


def _watched(element: Element, meaning: Convert) -> Loop:
    """Make the loop that records numeric exceptions; see ``checked``."""
    view_source, view_target = VIEWS[meaning.source.bits // 8], VIEWS[meaning.target.bits // 8]
    events = _to_float_events(meaning) if meaning.target.is_float else _to_integer_events(meaning)

    def run(result: int, first: int, n: int, mode: int, zero: int, state: int) -> None:
        to, of, memory = view_target(result, n), view_source(first, n), view_i64(state, SIZE)
        seen = 0
        for i in range(u64(n)):
            pattern = element(s64(of[i]), mode, zero, memory)
            to[i] = pattern
            seen |= events(s64(of[i]), pattern, mode, zero, memory)
        memory[NUMERIC] = memory[NUMERIC] | seen

    return run


def _to_float_events(meaning: Convert) -> Events:
    value, zero_point = _value(meaning.source), meaning.zero_point
    load, rounding = ACCESS[meaning.target].load, rounding_events(meaning.target)

    def events(bits: int, stored: int, mode: int, zero: int, memory: Any) -> int:
        x = value(bits) - float64(zero if zero_point else 0)
        seen = NAN_INPUT if x != x else 0
        if abs(float64(load(stored))) == inf:
            seen |= INFINITE
        return seen | rounding(x, True, stored) if abs(x) < inf else seen

    return events


_BEYOND = 1 << 33
"""Bounds wider than those of every integer format."""


def _to_integer_events(meaning: Convert) -> Events:
    """Detect overflow, for a result out of range by any amount and for NaN, or else inexact results."""
    value, high = _value(meaning.source), (1 << (meaning.target.bits - 1)) - 1

    def events(bits: int, stored: int, mode: int, zero: int, memory: Any) -> int:
        x = value(bits)
        if x != x:
            return NAN_INPUT | INTEGER_OVERFLOW
        whole = integer_from(x, mode, -_BEYOND, _BEYOND, random_bits(memory[RANDOM]))
        if whole > high or whole < -high - 1:
            return INTEGER_OVERFLOW
        return INEXACT if float64(whole) != x else 0

    return events


def _nearest(source: Format, target: Format) -> Element:
    """Make branch-free conversions that vectorise."""
    if not source.is_float:
        return _from_integer(source, target)
    return _float_to_float(source, target) if target.is_float else _to_integer(source, target)


def _from_integer(source: Format, target: Format) -> Element:
    """Make the conversion from integers, which are exact in binary64."""
    sign = 1 << (source.bits - 1)
    store = nearest_store(target, source.bits < 32)

    def element(bits: int, mode: int, zero: int, memory: Any) -> int:
        return store(float64((bits ^ sign) - sign - zero))

    return element


def _float_to_float(source: Format, target: Format) -> Element:
    load, store = ACCESS[source].load, ACCESS[target].store
    quiet = quiet_nan(target)

    def element(bits: int, mode: int, zero: int, memory: Any) -> int:
        x = load(bits)
        return quiet(x) if x != x else store(x)

    return element


def quiet_nan(target: Format) -> Callable[[np.float32], int]:
    """Make the pattern in ``target`` of a binary32 NaN: sign and upper payload bits kept, quiet bit set."""
    mantissa, bits = MANTISSA_BITS[target], target.bits
    unused = bits - 1 - EXPONENT_BITS[target] - mantissa
    field = (1 << mantissa) - 1
    top = ((1 << EXPONENT_BITS[target]) - 1) << mantissa | 1 << (mantissa - 1)

    def quiet(x: np.float32) -> int:
        pattern = f32_bits(x)
        payload = (pattern >> (23 - mantissa)) & field
        return (top | payload) << unused | (pattern >> 31) << (bits - 1)

    return quiet


def _to_integer(source: Format, target: Format) -> Element:
    """Clamp, then round to an integer by adding a number so large that the sum has no fraction."""
    clamped = _clamped(source, target)

    def element(bits: int, mode: int, zero: int, memory: Any) -> int:
        return int((clamped(bits) + _INTEGER_MAGIC) - _INTEGER_MAGIC)

    return element


def _clamped(source: Format, target: Format) -> Callable[[int], float]:
    """Clamp a number to the range of an integer format; 0 for NaN."""
    load = ACCESS[source].load
    low, high = float(-(1 << (target.bits - 1))), float((1 << (target.bits - 1)) - 1)

    def clamped(bits: int) -> float:
        x = float64(load(bits))
        x = x if x == x else float64(0.0)
        x = x if x > low else float64(low)
        return x if x < high else float64(high)

    return clamped


def _directed(source: Format, target: Format, mode: int) -> Element:
    """Make the conversion toward zero (1), up (2) or down (3), without branches."""
    if not target.is_float:
        return _to_integer_directed(source, target, mode)
    value, store = _value(source), directed_store(target, mode)
    if not source.is_float:

        def from_integer(bits: int, mode: int, zero: int, memory: Any) -> int:
            return store(value(bits))

        return from_integer
    quiet, load = quiet_nan(target), ACCESS[source].load

    def from_float(bits: int, mode: int, zero: int, memory: Any) -> int:
        x = load(bits)
        return quiet(x) if x != x else store(float64(x))

    return from_float


def _to_integer_directed(source: Format, target: Format, mode: int) -> Element:
    """Round to the nearest integer, or to its neighbour if that is on the wrong side."""
    clamped = _clamped(source, target)

    def toward_zero(bits: int, mode: int, zero: int, memory: Any) -> int:
        x = clamped(bits)
        near = (x + _INTEGER_MAGIC) - _INTEGER_MAGIC
        neighbour = near - 1.0 if x > 0.0 else near + 1.0
        return int(neighbour if abs(near) > abs(x) else near)

    def upward(bits: int, mode: int, zero: int, memory: Any) -> int:
        x = clamped(bits)
        near = (x + _INTEGER_MAGIC) - _INTEGER_MAGIC
        return int(near + 1.0 if near < x else near)

    def downward(bits: int, mode: int, zero: int, memory: Any) -> int:
        x = clamped(bits)
        near = (x + _INTEGER_MAGIC) - _INTEGER_MAGIC
        return int(near - 1.0 if near > x else near)

    return {1: toward_zero, 2: upward, 3: downward}[mode]


def _any_mode(source: Format, target: Format) -> Element:
    """Make the conversion in any mode, by the definition."""
    load = _value(source)
    store = _rounded(target)
    quiet = quiet_nan(target) if source.is_float and target.is_float else None

    def element(bits: int, mode: int, zero: int, memory: Any) -> int:
        random = 0
        if mode == 4:
            memory[RANDOM] = step(memory[RANDOM])
            random = random_bits(memory[RANDOM])
        return store(load(bits), mode, random)

    if quiet is None:
        return element
    widen = ACCESS[source].load

    def element_or_nan(bits: int, mode: int, zero: int, memory: Any) -> int:
        pattern = element(bits, mode, zero, memory)
        x = widen(bits)
        return quiet(x) if x != x else pattern

    return element_or_nan


def _value(source: Format) -> Callable[[int], float]:
    if source.is_float:
        load = ACCESS[source].load

        def from_float(bits: int) -> float:
            return float64(load(bits))

        return from_float
    sign = 1 << (source.bits - 1)

    def from_integer(bits: int) -> float:
        return float64((bits ^ sign) - sign)

    return from_integer


def _rounded(target: Format) -> Callable[[float, int, int], int]:
    if target.is_float:
        return any_store(target)
    low, high = -(1 << (target.bits - 1)), (1 << (target.bits - 1)) - 1

    def to_integer(x: float, mode: int, random: int) -> int:
        return integer_from(x, mode, low, high, random)

    return to_integer
