"""Mould of the converts between packed vectors (docs/isa.md, Converts).

A NaN keeps its sign and upper payload bits and becomes quiet; nothing else in the emulator keeps payloads,
so the stores here put the NaN rule on top of those of ``access``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy import float64

from emulator.native.float32 import f32_bits
from emulator.native.memory import view_i64
from emulator.state import RANDOM, SCRATCH, SIZE, SPM
from tx8isa.formats import EXPONENT_BITS, MANTISSA_BITS, Format, integer_from
from tx8isa.meaning import Convert
from tx8isa.primitives import s64, u64
from tx8isa.record import Instruction

from .access import ACCESS, VIEWS, any_store, nearest_store
from .lfsr import random_bits, step
from .rows import apart

Kernel = Callable[[int, int], int]
Element = Callable[[int, int, int, Any], int]
"""(source pattern, rounding mode, zero point, state words) -> result pattern."""

_INTEGER_MAGIC = 6755399441055744.0  # 1.5 * 2**52: adding it leaves no bits below 1


def make_convert(instruction: Instruction, nearest: bool) -> Kernel:
    """The kernel of one convert."""
    meaning: Convert = instruction.meaning
    source, target = meaning.source, meaning.target
    view_source, view_target = VIEWS[source.bits // 8], VIEWS[target.bits // 8]
    source_size, target_size = source.bits // 8, target.bits // 8
    names = [o.name for o in instruction.operands]
    target_at, source_at, count_at = (names.index(name) for name in ("dst", "src0", "n"))
    mode_at = names.index("rnd") if "rnd" in names else -1
    zero_at = names.index("zero") if "zero" in names else -1
    operands = len(names)
    element = _nearest(source, target) if nearest or mode_at < 0 else _rounding(source, target)

    def kernel(fields: int, state: int) -> int:
        words, memory = view_i64(fields, operands), view_i64(state, SIZE)
        n, result = words[count_at], memory[SPM] + words[target_at]
        mode = words[mode_at] if mode_at >= 0 else 0
        zero = words[zero_at] if zero_at >= 0 else 0
        first = memory[SPM] + words[source_at]
        first = apart(first, n * source_size, result, n * target_size, memory[SCRATCH])
        to, of = view_target(result, n), view_source(first, n)
        for i in range(u64(n)):
            to[i] = element(s64(of[i]), mode, zero, memory)
        return 0

    return kernel


def _nearest(source: Format, target: Format) -> Element:
    """Branch-free conversions that vectorise."""
    if not source.is_float:
        return _from_integer(source, target)
    return _float_to_float(source, target) if target.is_float else _to_integer(source, target)


def _from_integer(source: Format, target: Format) -> Element:
    """Integers are exact in binary64."""
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
    """Pattern in ``target`` of a binary32 NaN: sign and upper payload bits kept, quiet bit set."""
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
    """Clamp, then round to an integer by an addition that has no room for a fraction."""
    load = ACCESS[source].load
    low, high = float(-(1 << (target.bits - 1))), float((1 << (target.bits - 1)) - 1)

    def element(bits: int, mode: int, zero: int, memory: Any) -> int:
        x = float64(load(bits))
        x = x if x == x else float64(0.0)
        x = x if x > low else float64(low)
        x = x if x < high else float64(high)
        return int((x + _INTEGER_MAGIC) - _INTEGER_MAGIC)

    return element


def _rounding(source: Format, target: Format) -> Element:
    """Any mode, by definition."""
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
