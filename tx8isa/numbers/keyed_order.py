"""Puts numbers in their natural order within the keyed orders of prime fields.

An instruction on constants compares them as numbers, so comparisons of field elements must agree with it. So
whole numbers, and numbers of few binary digits, keep their natural order, around 0. They are spread over all
places, like other elements by their keys.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

Places = npt.NDArray[np.uint64]

_ZERO_AT = (1 << 60, 4 << 60, 7 << 60)
"""The place of 0 in the keyed orders: one eighth to seven eighths of the elements come before it."""
_END = 2.0**63
"""Exclusive upper bound of the places."""
_MOST_WHOLE = 1 << 16
"""Whole numbers up to this keep their natural order."""
_UNIT, _MOST_UNITS = 2.0**-12, 1 << 17
"""The last digit of numbers that are not whole, and its largest multiple."""
_EXPONENT = (1 << 22) - 1
"""The last digits of a place: exponents, which are below 2**21 in magnitude, differ in them."""

RELATIONS: dict[str, Callable[[Places, Places], npt.NDArray[np.bool_]]] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "ge": np.greater_equal,
    "gt": np.greater,
    "le": np.less_equal,
    "lt": np.less,
}
"""The relations that compare elements, by name, as NumPy functions of their places in the order."""


def place_numbers(
    own: npt.NDArray[np.float64], primes: npt.NDArray[np.float64], places: npt.NDArray[np.uint64]
) -> None:
    """Assign places to the numbers among canonical residues [primes, ...], each residue separately.

    Residues of other elements that look like such numbers get their places, because any order is valid.
    """
    per_prime = -1, *(1,) * (own.ndim - 1)
    moduli = primes.reshape(per_prime)
    with np.errstate(invalid="ignore"):
        units = own / _UNIT
        units -= moduli * np.rint(units / moduli)
        whole, short = np.abs(own) <= _MOST_WHOLE, np.abs(units) <= _MOST_UNITS
        numbers = np.where(whole, own, units * _UNIT)
        share = numbers / (1.0 + np.abs(numbers))
    zero = np.array(_ZERO_AT).reshape(per_prime)
    chosen = whole | short
    offset = (share * np.where(share > 0, _END - zero, zero))[chosen].astype(np.int64)
    places[chosen] = (np.broadcast_to(zero, own.shape)[chosen] + offset).astype(np.uint64)


def with_sign(infinities: npt.NDArray[np.float64], own: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return infinities times the signs of canonical residues [residues, ...], or 0 for those of 0.

    Whole numbers have a sign; that of others is taken as positive.
    """
    first = own[:1]
    is_whole = (np.abs(first) <= _MOST_WHOLE) & (own == first).all(0, keepdims=True)
    signs = np.where(is_whole, np.sign(first), np.where(np.isnan(first), np.nan, 1.0))
    return np.where(signs == 0.0, 0.0, infinities * signs)


def append_exponents(exponents: npt.NDArray[np.int64], places: npt.NDArray[np.uint64]) -> None:
    """Put the exponents into the last digits of places, which numbers do not need for their order."""
    places &= np.uint64(~_EXPONENT & 0xFFFFFFFFFFFFFFFF)
    places |= (exponents & _EXPONENT).astype(np.uint64)


def spread(words: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Mix all bits of 64-bit words by a bijection: splitmix64."""
    with np.errstate(over="ignore"):
        x = np.asarray(words + np.uint64(0x9E3779B97F4A7C15))
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            x ^= x >> np.uint64(shift)
            x *= np.uint64(factor)
    x ^= x >> np.uint64(31)
    return x
