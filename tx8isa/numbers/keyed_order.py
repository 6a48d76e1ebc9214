"""The places of numbers in the keyed orders of prime fields.

An instruction whose operands are constants alone compares them as numbers, and elements must agree with it.
So whole numbers, and others of few binary digits, are in their own order, around 0. They are spread over all
places, as other elements are by their keys.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

_ZERO_AT = (1 << 60, 4 << 60, 7 << 60)
"""Where 0 stands in the keyed orders: from one eighth to seven of the elements come before it."""
_END = 2.0**63
"""All places are below it."""
_MOST_WHOLE = 1 << 16
"""Whole numbers up to this are in their order."""
_UNIT, _MOST_UNITS = 2.0**-12, 1 << 17
"""The last digit of numbers that are not whole, and how many of it they have at most."""


def place_numbers(
    own: npt.NDArray[np.float64], primes: npt.NDArray[np.float64], places: npt.NDArray[np.uint64]
) -> None:
    """Put the numbers among canonical residues [primes, ...] at their places, each residue by itself.

    Some residues of other elements look like numbers. They have the places of these; any order will do.
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
