"""Exact arithmetic on arrays of stored numbers, with integers alone: the oracle of the test_exact files.

A number is a sign, an integer below 2**61 and a power of two. A remainder is kept as one odd last bit far
below the relevant places, so that rounding knows on which side of a boundary the exact value is. The oracle
shares no code with the code it judges; ``exact_fractions`` is a second, slower oracle that judges this one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import isqrt
from typing import Any

import numpy as np

from exact_fractions import LAYOUT, RDN, RNE, RTZ, RUP
from tx8isa.numbers.formats import Format

Array = np.ndarray[Any, Any]
FINITE, INFINITE, NAN = range(3)
NEAREST_WIDTH = 24
"""Significant bits of the widest format."""


@dataclass(frozen=True)
class Reals:
    """Numbers ``(-1)**negative * magnitude * 2**exponent`` where ``kind`` is FINITE."""

    kind: Array
    negative: Array
    magnitude: Array
    exponent: Array


def patterns_of(fmt: Format, values: Array) -> Array:
    """Signless bits of stored patterns, without the bits that TF32 does not use, as int64."""
    return values.astype(np.int64) >> LAYOUT[fmt][2]


def reals(fmt: Format, stored: Array) -> Reals:
    """Return the numbers of stored patterns of a float format."""
    exponent_bits, mantissa_bits, _ = LAYOUT[fmt]
    bits = patterns_of(fmt, stored)
    fraction = bits & ((1 << mantissa_bits) - 1)
    field = bits >> mantissa_bits & ((1 << exponent_bits) - 1)
    special = field == (1 << exponent_bits) - 1
    kind = np.where(special, np.where(fraction != 0, NAN, INFINITE), FINITE)
    magnitude = np.where(special, 0, np.where(field > 0, fraction + (1 << mantissa_bits), fraction))
    exponent = np.maximum(field, 1) - ((1 << (exponent_bits - 1)) - 1) - mantissa_bits
    return Reals(kind, bits >> (exponent_bits + mantissa_bits) == 1, magnitude, exponent)


def integers(fmt: Format, stored: Array) -> Reals:
    """Return the integers of stored patterns."""
    value = stored.astype(np.int64)
    value = np.where(value >> (fmt.bits - 1) == 1, value - (1 << fmt.bits), value)
    return whole(value)


def whole(value: Array) -> Reals:
    """Integers of any sign as numbers."""
    zero = np.zeros_like(value)
    return Reals(zero + FINITE, value < 0, np.abs(value), zero)


def constant(value: int, exponent: int, like: Reals) -> Reals:
    """``value * 2**exponent``, as many times as ``like`` has numbers."""
    zero = np.zeros_like(like.magnitude)
    return Reals(zero + FINITE, zero == 1, zero + value, zero + exponent)


def bit_length(magnitude: Array) -> Array:
    """``int.bit_length`` of each element, for integers from 0 to below 2**62."""
    length = np.frexp(magnitude.astype(np.float64))[1].astype(np.int64)
    return length - (magnitude >> np.maximum(length - 1, 0) == 0) * (length > 0)


# --- rounding -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Cut:
    """Magnitudes truncated to the places of a format: signless pattern, remainder, its place."""

    pattern: Array
    rest: Array
    places: Array
    """The rest counts in units of 2**-places of the last place kept."""


def cut(fmt: Format, x: Reals) -> Cut:
    """Cut finite magnitudes; a pattern of infinity or more lies beyond the finite range."""
    exponent_bits, mantissa_bits, _ = LAYOUT[fmt]
    lowest = 2 - (1 << (exponent_bits - 1))
    leading = np.where(x.magnitude == 0, lowest, x.exponent + bit_length(x.magnitude) - 1)
    leading = np.maximum(leading, lowest)
    drop = leading - mantissa_bits - x.exponent
    right, left = np.clip(drop, 0, 63), np.clip(-drop, 0, 62)
    kept = (x.magnitude >> right) << left
    rest = x.magnitude - (x.magnitude >> right << right)
    return Cut(kept + ((leading - lowest) << mantissa_bits), rest, right)


def stored(fmt: Format, x: Reals, mode: int) -> Array:
    """Stored patterns of numbers rounded once in a deterministic mode; every NaN is the canonical one."""
    exponent_bits, mantissa_bits, _ = LAYOUT[fmt]
    infinity = ((1 << exponent_bits) - 1) << mantissa_bits
    parts = cut(fmt, x)
    half = np.left_shift(1, np.maximum(parts.places - 1, 0))
    nearer = (parts.rest > half) | ((parts.rest == half) & (parts.pattern & 1 == 1))
    away = {
        RNE: nearer & (parts.places > 0),
        RTZ: np.zeros_like(x.negative),
        RUP: (parts.rest > 0) & ~x.negative,
        RDN: (parts.rest > 0) & x.negative,
    }[mode]
    pattern = parts.pattern + away
    outward = {RNE: True, RTZ: False, RUP: ~x.negative, RDN: x.negative}[mode]
    pattern = np.where(pattern >= infinity, np.where(outward, infinity, infinity - 1), pattern)
    return assembled(fmt, x, pattern)


def assembled(fmt: Format, x: Reals, magnitude: Array) -> Array:
    """Signless patterns with the signs and the special values of ``x``, as stored."""
    exponent_bits, mantissa_bits, unused = LAYOUT[fmt]
    infinity = ((1 << exponent_bits) - 1) << mantissa_bits
    signed = np.where(x.kind == INFINITE, infinity, magnitude) | (
        x.negative.astype(np.int64) << (exponent_bits + mantissa_bits)
    )
    result = np.where(x.kind == NAN, infinity | 1 << (mantissa_bits - 1), signed) << unused
    return result.astype(f"u{fmt.bits // 8}")


def neighbours(fmt: Format, x: Reals) -> tuple[Array, Array, Array]:
    """(result toward zero, result away from zero, probability of the second) of stochastic rounding.

    Beyond the power of two that follows the largest finite number both are infinity.
    """
    exponent_bits, mantissa_bits, _ = LAYOUT[fmt]
    infinity = ((1 << exponent_bits) - 1) << mantissa_bits
    parts = cut(fmt, x)
    low, high = np.minimum(parts.pattern, infinity), np.minimum(parts.pattern + (parts.rest > 0), infinity)
    probability = np.ldexp(parts.rest.astype(np.float64), -parts.places)
    return assembled(fmt, x, low), assembled(fmt, x, high), np.where(x.kind == FINITE, probability, 0.0)


def whole_neighbours(x: Reals) -> tuple[Array, Array, Array]:
    """(magnitude toward zero, remainder, its places) of numbers truncated to integers; 2**40 at most."""
    length = bit_length(x.magnitude) + x.exponent
    right, left = np.clip(-x.exponent, 0, 63), np.clip(x.exponent, 0, 40)
    kept = np.where(length > 40, 1 << 40, (x.magnitude >> right) << left)
    return kept, np.where(length > 40, 0, x.magnitude - (x.magnitude >> right << right)), right


def saturated(fmt: Format, x: Reals, magnitude: Array) -> Array:
    """Integers of the sign of ``x``, saturated, as stored; infinities at the ends, NaN as 0."""
    value = np.where(x.kind == INFINITE, 1 << 40, magnitude)
    value = np.where(x.negative, -value, value)
    high = (1 << (fmt.bits - 1)) - 1
    value = np.where(x.kind == NAN, 0, np.clip(value, -high - 1, high))
    return (value & ((1 << fmt.bits) - 1)).astype(f"u{fmt.bits // 8}")


def stored_integers(fmt: Format, x: Reals, mode: int) -> Array:
    """Stored integers of numbers rounded to whole ones, saturated; NaN gives 0."""
    kept, rest, places = whole_neighbours(x)
    half = np.left_shift(1, np.maximum(places - 1, 0))
    nearer = ((rest > half) | ((rest == half) & (kept & 1 == 1))) & (places > 0)
    away = {
        RNE: nearer,
        RTZ: np.zeros_like(x.negative),
        RUP: (rest > 0) & ~x.negative,
        RDN: (rest > 0) & x.negative,
    }[mode]
    return saturated(fmt, x, kept + away)


# --- arithmetic ---------------------------------------------------------------------------


def negated(x: Reals) -> Reals:
    return replace(x, negative=~x.negative)


def _special(a: Reals, b: Reals, kind: Array, result: Reals) -> Reals:
    """``result`` with its kind, and NaN where an operand is NaN."""
    return replace(result, kind=np.where((a.kind == NAN) | (b.kind == NAN), NAN, kind))


def _normal(x: Reals) -> Reals:
    """Finite magnitudes shifted up to ``NEAREST_WIDTH`` bits."""
    shift = np.where(x.magnitude == 0, 0, NEAREST_WIDTH - bit_length(x.magnitude))
    return replace(x, magnitude=x.magnitude << shift, exponent=x.exponent - shift)


def add(a: Reals, b: Reals, mode: int = RNE) -> Reals:
    """Sums. The smaller number is kept to 32 places below the larger one, and one odd bit below that.

    Numbers of opposite sign that cancel give -0 when rounding down, otherwise +0 (IEEE 754, 6.3).
    """
    first, second = _normal(a), _normal(b)
    first_top = np.where(first.magnitude == 0, -(10**6), first.exponent)
    second_top = np.where(second.magnitude == 0, -(10**6), second.exponent)
    swap = second_top > first_top
    top = np.where(swap, second_top, first_top)
    distance = np.minimum(top - np.where(swap, first_top, second_top), 60)

    def signed(x: Reals, shift: Array) -> Array:
        wide = x.magnitude << 32
        kept = (wide >> shift) << 1 | ((wide >> shift << shift) != wide)
        return np.where(x.negative, -kept, kept)

    total = signed(first, np.where(swap, distance, 0)) + signed(second, np.where(swap, 0, distance))
    infinite = (a.kind == INFINITE) | (b.kind == INFINITE)
    cancel = (a.kind == INFINITE) & (b.kind == INFINITE) & (a.negative != b.negative)
    zero = a.negative | b.negative if mode == RDN else a.negative & b.negative
    sign = np.where(total == 0, zero, total < 0)
    sign = np.where(a.kind == INFINITE, a.negative, np.where(b.kind == INFINITE, b.negative, sign))
    kind = np.where(cancel, NAN, np.where(infinite, INFINITE, FINITE))
    return _special(a, b, kind, Reals(kind, sign, np.abs(total), top - 33))


def sub(a: Reals, b: Reals, mode: int = RNE) -> Reals:
    return add(a, negated(b), mode)


def mul(a: Reals, b: Reals, mode: int = RNE) -> Reals:
    """Products: the same numbers in every mode, as quotients."""
    infinite = (a.kind == INFINITE) | (b.kind == INFINITE)
    zero = ((a.kind == FINITE) & (a.magnitude == 0)) | ((b.kind == FINITE) & (b.magnitude == 0))
    kind = np.where(infinite & zero, NAN, np.where(infinite, INFINITE, FINITE))
    product = Reals(kind, a.negative != b.negative, a.magnitude * b.magnitude, a.exponent + b.exponent)
    return _special(a, b, kind, product)


def div(a: Reals, b: Reals, mode: int = RNE) -> Reals:
    """Quotients to 35 bits and more, and an odd bit for a remainder."""
    zero_a, zero_b = ((x.kind == FINITE) & (x.magnitude == 0) for x in (a, b))
    invalid = (zero_a & zero_b) | ((a.kind == INFINITE) & (b.kind == INFINITE))
    infinite = (a.kind == INFINITE) | zero_b
    kind = np.where(invalid, NAN, np.where(infinite, INFINITE, FINITE))
    first, second = _normal(a), _normal(b)
    divisor = np.where(second.magnitude == 0, 1, second.magnitude)
    quotient, remainder = np.divmod(first.magnitude << 36, divisor)
    magnitude = np.where(b.kind == INFINITE, 0, quotient << 1 | (remainder != 0))
    quotients = Reals(kind, a.negative != b.negative, magnitude, first.exponent - second.exponent - 37)
    return _special(a, b, kind, quotients)


def _even(x: Reals) -> Reals:
    """Magnitudes of 24 or 25 bits, powers of two even."""
    normal = _normal(x)
    odd = normal.exponent & 1
    return replace(normal, magnitude=normal.magnitude << odd, exponent=normal.exponent - odd)


_root = np.frompyfunc(isqrt, 1, 1)


def sqrt(x: Reals) -> Reals:
    """Square roots, -0 of -0; NaN below zero."""
    even = _even(x)
    root = _root((even.magnitude << 36).astype(object)).astype(np.int64)
    inexact = root * root != even.magnitude << 36
    below = x.negative & ((x.kind == INFINITE) | (x.magnitude != 0))
    kind = np.where(below, NAN, x.kind)
    return Reals(kind, x.negative, root << 1 | inexact, even.exponent // 2 - 19)


def rsqrt(x: Reals) -> Reals:
    """Reciprocal square roots; a signed infinity at a zero, NaN below zero."""
    even = _even(x)
    divisor = np.where(even.magnitude == 0, 1, even.magnitude).astype(object)
    root = _root((1 << 84) // divisor)
    inexact = root * root * divisor != 1 << 84
    below = x.negative & ((x.kind == INFINITE) | (x.magnitude != 0))
    zero = (x.kind == FINITE) & (x.magnitude == 0)
    kind = np.where(below | (x.kind == NAN), NAN, np.where(zero, INFINITE, FINITE))
    magnitude = np.where(x.kind == INFINITE, 0, root.astype(np.int64) << 1 | inexact.astype(np.int64))
    return Reals(kind, x.negative, magnitude, -even.exponent // 2 - 43)


def chosen(first: Array, a: Reals, b: Reals) -> Reals:
    """Numbers of ``a`` where ``first`` is True, else of ``b``; of a NaN and a number, the number."""
    take = np.where(a.kind == NAN, False, np.where(b.kind == NAN, True, first))
    return Reals(
        np.where(take, a.kind, b.kind),
        np.where(take, a.negative, b.negative),
        np.where(take, a.magnitude, b.magnitude),
        np.where(take, a.exponent, b.exponent),
    )


def order_key(x: Reals) -> Array:
    """Integers in the order of the numbers, -0 below +0."""
    normal = _normal(x)
    size = np.where(normal.magnitude == 0, 0, (normal.exponent + 512) << 32 | normal.magnitude)
    size = np.where(x.kind == INFINITE, 1 << 60, size)
    return np.where(x.negative, -size - 1, size)


def maximum(a: Reals, b: Reals) -> Reals:
    return chosen(order_key(a) >= order_key(b), a, b)


def minimum(a: Reals, b: Reals) -> Reals:
    return chosen(order_key(a) <= order_key(b), a, b)


# --- errors -------------------------------------------------------------------------------


def ulps(fmt: Format, found: Array, true: Reals) -> Array:
    """Distance of stored results from finite numbers, in units of the last place of the numbers.

    Infinity counts as the power of two that follows the largest finite number, and numbers beyond it as that
    power; a NaN, or a wrong sign, is infinitely far.
    """
    exponent_bits, mantissa_bits, _ = LAYOUT[fmt]
    bias = (1 << (exponent_bits - 1)) - 1
    leading = true.exponent + bit_length(true.magnitude) - 1
    lowest, end = 1 - bias, bias + 1
    beyond = leading >= end
    magnitude = np.where(beyond, 1, true.magnitude).astype(np.float64)
    exponent = np.where(beyond, end, np.where(true.magnitude == 0, 0, true.exponent))
    unit = np.where(true.magnitude == 0, lowest, np.clip(leading, lowest, end - 1)) - mantissa_bits
    result = reals(fmt, found)
    size = np.where(result.kind == INFINITE, 1, result.magnitude).astype(np.float64)
    place = np.where(result.kind == INFINITE, end, result.exponent)
    error = np.abs(np.ldexp(size, place - unit) - np.ldexp(magnitude, np.maximum(exponent - unit, -2000)))
    return np.where((result.kind == NAN) | (result.negative != true.negative), np.inf, error)
