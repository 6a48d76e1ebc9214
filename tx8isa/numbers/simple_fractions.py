"""Finds the simplest fraction, or root of a fraction, that rounds to a number: the constant before
rounding."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from .formats import EXPONENT_BITS, Format, largest_number
from .rounding import rounded

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

_STEPS = 12
"""Maximum number of terms of a continued fraction."""
_MOST = 2.0**31
"""Exclusive bound of numerators and denominators."""
_SIMPLE = 1 << 10
"""Exclusive bound of the product of the odd parts of a simple fraction's numerator and denominator."""
_SHORT = 18
"""Numbers of so few bits are taken literally."""
_PLAIN = 4
"""A number that a format rounds to so few bits, such as 0.9999 to 1, is the rounded one."""


class GivenNumbers:
    """Single numbers that a program may hold rounded to a short format, or not; and their reciprocals.

    Each of them is one number, whatever format it was rounded to. Given numbers that the format does not tell
    apart are one, too. A number that is none of these roundings, however near, stays another number.
    """

    def __init__(self, numbers: Iterable[float], fmt: Format) -> None:
        given = _in_fp32(np.unique(np.array([*numbers], np.float64)))
        beyond = np.abs(given) > largest_number(fmt)
        self.hiding: Floats = given[beyond & (given < 0.0)]
        """Numbers that a program stores as the lowest one of the format, so that they hide keys."""
        usual = np.abs(given[~beyond & (given != 0.0)])
        self._meant: dict[float, float] = {}
        for number in (*usual.tolist(), *_in_fp32(1.0 / usual).tolist()):
            self._note(number, float(rounded(np.asarray(number), fmt)), fmt)
        self._known = np.array([*self._meant])

    def _note(self, number: float, rounding: float, fmt: Format) -> None:
        """Keep what a number of FP32, and its rounding, mean; so small ones that lose digits are left out."""
        if number == rounding or not _least(fmt) <= number <= largest_number(fmt):
            return
        if are_short(np.asarray(rounding), _PLAIN):
            self._meant[number] = rounding
        else:
            first = self._meant.setdefault(rounding, number)
            if first != number:
                self._meant[number] = first

    def whole(self, values: Floats) -> Floats:
        """Return values with the given numbers in place of their roundings."""
        magnitudes = np.abs(values)
        if not np.isin(magnitudes, self._known).any():
            return values
        meant = [self._meant.get(each, each) for each in magnitudes.ravel().tolist()]
        return np.copysign(np.reshape(meant, values.shape), values)


def _in_fp32(numbers: Floats) -> Floats:
    with np.errstate(over="ignore"):
        return numbers.astype(np.float32).astype(np.float64)


def _least(fmt: Format) -> float:
    """Return the smallest positive number of a format with all digits."""
    return math.ldexp(1.0, 2 - 2 ** (EXPONENT_BITS[fmt] - 1))


def simple_fractions(values: Floats, mantissa_bits: int | Integers) -> tuple[Integers, Integers, Integers]:
    """Find fractions with the smallest denominators near values: numerators, denominators, powers of two.

    A fraction differs from its value by less than the spacing of a format with ``mantissa_bits`` stored bits,
    because programs use both neighbours of 1/n so that their sum is right. Whole numbers, powers of two and
    values without such a fraction do not change. Whole numbers are below 2**53.
    """
    magnitude = np.abs(values)
    above, below = _within(magnitude, _step(magnitude, mantissa_bits))
    simple = (below > 0) & (magnitude > 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        simple &= np.abs(above / below - magnitude) <= _step(magnitude, mantissa_bits)
    simple &= (np.rint(magnitude) != magnitude) & (np.frexp(magnitude)[0] != 0.5)
    significand, exponent = np.frexp(values)
    whole = np.where(simple, np.copysign(above, values), np.ldexp(significand, 53))
    fraction = np.where(simple, below, 1.0)
    power = np.where(simple, 0, exponent.astype(np.int64) - 53)
    return whole.astype(np.int64), fraction.astype(np.int64), power


def stored_fractions(
    values: Floats, mantissa_bits: int
) -> tuple[Integers, Integers, Integers, npt.NDArray[np.bool_]]:
    """Find fractions as ``simple_fractions`` where these are simple, and exact ones elsewhere.

    The last array marks the simple ones.
    """
    found = simple_fractions(values, mantissa_bits)
    simple = are_simple(*found[:2]) & ~are_short(values)
    above, below, power = (
        np.where(simple, *pair) for pair in zip(found, exact_fractions(values), strict=True)
    )
    return above, below, power, simple


def held_fractions(values: Floats, held: int, rounded: int) -> tuple[Integers, Integers, Integers]:
    """Find the simplest fractions near values that another format may have rounded first.

    ``held`` and ``rounded`` are the stored significand bits of the values' format and of the other one.
    """
    return simple_fractions(values, np.where(are_short(values, rounded + 1), min(held, rounded), held))


def _step(magnitude: Floats, mantissa_bits: int | Integers) -> Floats:
    """Return the spacing of the format at a magnitude, slightly reduced so that bounds round inwards."""
    exponent = np.frexp(magnitude)[1] - 1
    step: Floats = np.ldexp(0.998, exponent - mantissa_bits)
    return step


def simple_roots(
    values: Floats, times: float = 1.0
) -> tuple[Integers, Integers, Integers, npt.NDArray[np.bool_]]:
    """Find roots of simple fractions that are, ``times`` a number, near FP32 numbers: numerators,
    denominators, even powers of two.

    The last array marks the values that are such a root. Values of few digits never are, nor roots of few
    digits; of random other values about one in a thousand is taken for one.
    """
    roots = np.abs(values) / times
    significand, exponent = np.frexp(roots)
    square = significand * significand
    found = _within(square, np.ldexp(square, -22))
    above, below = (each.astype(np.int64) for each in found)
    stands = ~are_short(values) & ~are_short(roots) & are_simple(above, below)
    return np.where(stands, above, 1), np.where(stands, below, 1), 2 * exponent.astype(np.int64), stands


def exact_fractions(values: Floats) -> tuple[Integers, Integers, Integers]:
    """Split numbers into (whole number, 1, power of two)."""
    significand, exponent = np.frexp(np.where(np.isfinite(values), values, 0.0))
    whole = np.ldexp(significand, 53).astype(np.int64)
    return whole, np.ones_like(whole), exponent.astype(np.int64) - 53


def are_short(values: Floats, bits: int = _SHORT) -> npt.NDArray[np.bool_]:
    """Return True for numbers of at most ``bits`` bits, by default so few that they are taken literally."""
    significand = np.ldexp(np.frexp(values)[0], bits)
    return np.asarray(significand == np.rint(significand))


def are_simple(above: Integers, below: Integers) -> npt.NDArray[np.bool_]:
    """Return True for fractions with few digits, not counting powers of two."""
    odd = (above // np.maximum(above & -above, 1)) * (below // np.maximum(below & -below, 1))
    return np.asarray((odd > 0) & (odd < _SIMPLE))


def _within(magnitude: Floats, step: Floats) -> tuple[Floats, Floats]:
    """Find the simplest fractions within a step of magnitudes, by continued fractions; 0, 0 if none."""
    low, high = magnitude - step, magnitude + step
    before, last = (np.zeros_like(low), np.ones_like(low)), (np.ones_like(low), np.zeros_like(low))
    found = np.zeros_like(low), np.zeros_like(low)
    open_ = low > 0
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        for _ in range(_STEPS):
            whole = np.floor(low)
            ends = open_ & (np.floor(high) > whole)
            term = np.where(ends, whole + 1, whole)
            following = term * last[0] + before[0], term * last[1] + before[1]
            fits = ends & (following[0] < _MOST) & (following[1] < _MOST)
            found = np.where(fits, following[0], found[0]), np.where(fits, following[1], found[1])
            open_ &= ~ends
            if not open_.any():
                break
            before, last = last, following
            low, high = 1.0 / (high - whole), 1.0 / (low - whole)
            open_ &= np.isfinite(high)
    return found
