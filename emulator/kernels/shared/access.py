"""Reads and writes the elements of each format in kernels, on raw addresses.

Every element is an unsigned pattern in memory and a binary32 after loading (exact for every float format).
Bodies work on binary64, or on binary32 if their record allows it (``single``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import numpy as np
from numpy import float64

from emulator.native.inline import with_constants
from emulator.native.primitives.float32 import (
    bf16_to_f32,
    bits_f32,
    f32_bits,
    f32_to_bf16,
    f32_to_fp16,
    f32_to_fp32,
    f32_to_tf32,
    fp16_to_f32,
    single,
    tf32_to_f32,
)
from emulator.native.primitives.memory import view_u8, view_u16, view_u32
from tx8isa.numbers.formats import EXPONENT_BITS, MANTISSA_BITS, Format, narrow

Load = Callable[[int], np.float32]
Store = Callable[[np.float32], int]
View = Callable[[int, int], Any]

VIEWS: dict[int, View] = {1: view_u8, 2: view_u16, 4: view_u32}
"""Array of unsigned elements by their size in bytes."""


@dataclass(frozen=True, slots=True)
class Access:
    """One float format in memory."""

    size: int
    """Bytes of one element."""
    view: View
    load: Load
    store: Store
    """From binary32, nearest even, NaN canonical."""


ACCESS: dict[Format, Access] = {
    Format.FP16: Access(2, view_u16, fp16_to_f32, f32_to_fp16),
    Format.BF16: Access(2, view_u16, bf16_to_f32, f32_to_bf16),
    Format.FP32: Access(4, view_u32, bits_f32, f32_to_fp32),
    Format.TF32: Access(4, view_u32, tf32_to_f32, f32_to_tf32),
}


def magnitude_bits(fmt: Format) -> int:
    """Return the mask of a float pattern's magnitude bits; all clear: zero of either sign."""
    value_bits = EXPONENT_BITS[fmt] + MANTISSA_BITS[fmt]
    return ((1 << value_bits) - 1) << fmt.bits - 1 - value_bits


def odd_single(x: float) -> np.float32:
    """Round ``x`` to binary32, an inexact value to the neighbour whose last bit is odd.

    A second rounding to a format with at most 22 significant bits, whose subnormals are at least four times
    coarser than those of binary32, then equals a single rounding of ``x``.
    """
    near = single(x)
    error = x - float64(near)
    bits = f32_bits(near)
    away = 1 if (error > 0.0) == (x > 0.0) else -1
    return bits_f32(bits + away if (abs(error) > 0.0) & (bits & 1 == 0) else bits)


def nearest_store(fmt: Format, exact: bool = False) -> Callable[[float], int]:
    """Make the rounding of binary64 to ``fmt``, nearest even; ``exact``: binary32 holds every value."""
    store = ACCESS[fmt].store

    def store_single(x: float) -> int:
        return store(single(x))

    def store_odd(x: float) -> int:
        return store(odd_single(x))

    return store_single if exact or fmt is Format.FP32 else store_odd


def any_store(fmt: Format) -> Callable[[float, int, int], int]:
    """Make the rounding of binary64 to a pattern by (value, mode, 52 random bits): ``formats.narrow``."""
    exponent, mantissa = EXPONENT_BITS[fmt], MANTISSA_BITS[fmt]
    unused = fmt.bits - 1 - exponent - mantissa

    def store(x: float, mode: int, random: int) -> int:
        return narrow(x, exponent, mantissa, mode, random) << unused

    return store


def directed_store(fmt: Format, mode: int) -> Callable[[float], int]:
    """Make the rounding of binary64 to ``fmt`` toward zero (1), up (2) or down (3), without branches.

    It rounds to nearest first; if that is on the wrong side, the neighbour is the right result. Adding one to
    a pattern is a step of the magnitude, also from zero to the smallest number and to and from infinity.
    """
    load, store = ACCESS[fmt].load, nearest_store(fmt)
    unit, sign = 1 << (fmt.bits - 1 - EXPONENT_BITS[fmt] - MANTISSA_BITS[fmt]), fmt.bits - 1

    def toward_zero(x: float) -> int:
        near = store(x)
        return near - unit if abs(float64(load(near))) > abs(x) else near

    def upward(x: float) -> int:
        near = store(x)
        away = near - unit if near >> sign == 1 else near + unit
        return away if float64(load(near)) < x else near

    def downward(x: float) -> int:
        near = store(x)
        away = near + unit if near >> sign == 1 else near - unit
        return away if float64(load(near)) > x else near

    return {1: toward_zero, 2: upward, 3: downward}[mode]


def single_body(body: Callable[..., float]) -> Callable[..., np.float32] | None:
    """Return the body with binary32 constants, so that all of it is binary32; None if it calls functions.

    ValueError for a constant that binary32 cannot hold, because such a body must not be ``single``.
    """
    code = body.__code__
    named = {name: body.__globals__[name] for name in code.co_names if name in body.__globals__}
    if any(callable(value) for value in named.values()):
        return None
    assert isinstance(body, FunctionType), "bodies are plain functions"
    return with_constants(body, _narrowed, {name: _narrowed(value) for name, value in named.items()})


def _narrowed(value: Any) -> Any:
    if not isinstance(value, float):
        return value
    if float(np.float32(value)) != value:
        raise ValueError(f"the constant {value!r} is not a binary32 number")
    return np.float32(value)
