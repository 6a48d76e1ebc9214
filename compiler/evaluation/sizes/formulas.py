"""Extents as formulas of dimensions, found from their values at several points."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations_with_replacement, pairwise
from math import gcd, prod
from typing import Any

import numpy as np

from compiler.graph import Array

from .sums import SUM

Point = Mapping[str, int]
"""A size for each dimension, by name."""

_DEGREE = 3
"""Dimensions that a product may have."""
_LARGEST_DIVISOR = 64
"""The largest divisor that is tried: the product of the strides of all windows along a dimension."""
_LARGEST_FACTOR = 8
"""The largest factor of a dimension before it is divided, as of images that are enlarged first."""


@dataclass(frozen=True)
class ExtentFormula:
    """``(factor * product of dimensions + offset) / divisor``, rounded down where it is no integer."""

    factor: int
    names: tuple[str, ...]
    offset: int = 0
    divisor: int = 1

    def __str__(self) -> str:
        if not self.names:
            return str(self.offset)
        text = "*".join([*([str(self.factor)] if self.factor != 1 else []), *self._factors()])
        if self.offset:
            text += f" {'-' if self.offset < 0 else '+'} {abs(self.offset)}"
        if self.divisor == 1:
            return text
        return f"({text})/{self.divisor}" if self.offset else f"{text}/{self.divisor}"

    def _factors(self) -> Iterator[str]:
        """The dimensions and sums as they are written in the product."""
        alone = len(self.names) == self.factor == self.divisor == 1 and not self.offset
        for name in self.names:
            yield f"({name})" if SUM in name and not alone else name

    @property
    def fixed(self) -> bool:
        """Whether it is the same number everywhere."""
        return not self.names

    def at(self, sizes: Mapping[str, Any]) -> Any:
        """Its value for sizes: numbers, arrays of them, or what else has the arithmetic of integers."""
        if not self.names:
            return self.offset
        value: Any = self.factor
        for name in self.names:
            value = sizes[name] * value
        value = value + self.offset if self.offset else value
        return value // self.divisor if self.divisor > 1 else value


def fitted(values: Sequence[int], points: Sequence[Point]) -> ExtentFormula | None:
    """The simplest formula that has these values at the points; None if there is none of the kind."""
    if all(value == values[0] for value in values):
        return ExtentFormula(0, (), values[0])
    for names in _products(sorted(points[0])):
        products = [prod(point[name] for name in names) for point in points]
        ratio = Fraction(values[0], products[0])
        if all(value == ratio * product for value, product in zip(values, products, strict=True)):
            return ExtentFormula(ratio.numerator, names, 0, ratio.denominator)
    for names in _products(sorted(points[0])):
        found = _line(values, [prod(point[name] for name in names) for point in points], names)
        if found is not None:
            return found
    return None


def _products(names: Sequence[str]) -> Iterator[tuple[str, ...]]:
    for degree in range(1, _DEGREE + 1):
        yield from combinations_with_replacement(names, degree)


def _line(values: Sequence[int], products: Sequence[int], names: tuple[str, ...]) -> ExtentFormula | None:
    """A product times a factor plus a number."""
    pairs = list(zip(products, values, strict=True))
    steps = [(b - a, d - c) for (a, c), (b, d) in pairwise(pairs) if a != b]
    if not steps:
        return None
    slope = Fraction(steps[0][1], steps[0][0])
    offset = values[0] - slope * products[0]
    divisor = max(slope.denominator, offset.denominator)
    if any(value != slope * product + offset for product, value in pairs):
        return None
    if divisor % slope.denominator or divisor % offset.denominator:
        return None
    return ExtentFormula(int(slope * divisor), names, int(offset * divisor), divisor)


class Undecided(Exception):
    """Several formulas have the values that are known; they differ at ``number``, that of a point."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def found_formula(
    values: Sequence[int], points: Sequence[Point], domain: Mapping[str, Array]
) -> ExtentFormula | None:
    """The simplest formula that has these values at the points, also of those with a rounded quotient.

    ``domain`` has the sizes at all points for which it must be right. None if there is none; Undecided if
    there are several with a quotient, which differ at a point.
    """
    found = fitted(values, points)
    if found is not None and found.divisor == 1:
        return found
    return rounded_formula(values, points, domain) or found


def rounded_formula(
    values: Sequence[int], points: Sequence[Point], domain: Mapping[str, Array]
) -> ExtentFormula | None:
    """The formula with a quotient that is rounded down, as windows with strides make, which has these values.

    ``domain`` has the sizes at all points for which it must be right. None if there is none of the kind;
    Undecided if there are several, which differ at a point.
    """
    found: Array | None = None
    first: ExtentFormula | None = None
    for formula, last in _families(values, points):
        least, most = (each.at(domain) for each in (formula, replace(formula, offset=last)))
        if (least != most).any():
            raise Undecided(_between(formula, last, domain))
        if found is not None and (least != found).any():
            raise Undecided(int(np.flatnonzero(least != found)[0]))
        if found is None:
            found, first = least, formula
    return first


def _families(values: Sequence[int], points: Sequence[Point]) -> Iterator[tuple[ExtentFormula, int]]:
    """Formulas with these values: one with the least offset, and the largest that it can have instead."""
    for names in _products(sorted(points[0])):
        pairs = [(value, prod(p[name] for name in names)) for value, p in zip(values, points, strict=True)]
        for divisor in range(2, _LARGEST_DIVISOR + 1):
            for factor in range(1, _LARGEST_FACTOR + 1):
                if gcd(factor, divisor) == 1:
                    least = max(value * divisor - factor * product for value, product in pairs)
                    most = min((value + 1) * divisor - 1 - factor * product for value, product in pairs)
                    if least <= most:
                        yield ExtentFormula(factor, names, least, divisor), most


def _between(formula: ExtentFormula, last: int, domain: Mapping[str, Array]) -> int:
    """A point at which the smaller ones of the possible offsets give another value than the larger ones."""
    offsets = sorted(
        range(formula.offset + 1, last + 1), key=lambda each: abs(2 * each - formula.offset - last)
    )
    for offset in offsets:
        below, here = (replace(formula, offset=each).at(domain) for each in (offset - 1, offset))
        if (below != here).any():
            return int(np.flatnonzero(below != here)[0])
    raise ValueError("the offsets make no difference")
