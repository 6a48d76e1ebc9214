"""Extents as formulas of dimensions, found from their values at several points."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations, combinations_with_replacement, pairwise
from math import gcd, prod
from typing import Any

import numpy as np

from compiler.graph import Array

Point = Mapping[str, int]
"""A size for each dimension, by name."""

_DEGREE = 3
"""Dimensions that a product may have."""
_DEGREE_OF_SUM = 2
"""Dimensions that a product in a sum may have."""
_LARGEST_DIVISOR = 64
"""The largest divisor that is tried: the product of the strides of all windows along a dimension."""
_LARGEST_FACTOR = 8
"""The largest factor of a dimension before it is divided, as of images that are enlarged first."""


@dataclass(frozen=True)
class ExtentFormula:
    """``(factor * product + offset) / divisor``, rounded down where it is no integer.

    The product is of dimensions, by their names, and of other formulas; ``other`` is an added formula.
    """

    factor: int
    names: tuple[str | ExtentFormula, ...]
    offset: int = 0
    divisor: int = 1
    other: ExtentFormula | None = None

    def __str__(self) -> str:
        if not self.names:
            return str(self.offset)
        text = "*".join([*([str(self.factor)] if self.factor != 1 else []), *self._factors()])
        for sign, more in ((self.other is not None, self.other), (self.offset, abs(self.offset))):
            if sign:
                text += f" {'-' if sign < 0 else '+'} {more}"
        if self.divisor == 1:
            return text
        return f"({text})/{self.divisor}" if self.offset else f"{text}/{self.divisor}"

    def _factors(self) -> Iterator[str]:
        """The dimensions, sums and other formulas as they are written in the product."""
        alone = len(self.names) == self.factor == self.divisor == 1 and not self.offset
        for name in map(str, self.names):
            yield name if alone or name.isidentifier() else f"({name})"

    @property
    def dimensions(self) -> frozenset[str]:
        """The dimensions and sums in the formula."""
        parts = (*self.names, self.other) if self.other is not None else self.names
        apart = ({name} if isinstance(name, str) else name.dimensions for name in parts)
        return frozenset[str]().union(*apart)

    @property
    def follows(self) -> bool:
        """True if it is more than a multiple of a product, so that other formulas may contain it."""
        return bool(self.names) and (self.offset != 0 or self.divisor > 1 or self.other is not None)

    @property
    def fixed(self) -> bool:
        """True if it is the same number everywhere."""
        return not self.names

    def at(self, sizes: Mapping[str, Any]) -> Any:
        """The value for sizes: numbers, arrays of them, or other objects with the arithmetic of integers."""
        if not self.names:
            return self.offset
        value: Any = self.factor
        for name in self.names:
            value = (sizes[name] if isinstance(name, str) else name.at(sizes)) * value
        value = value + self.other.at(sizes) if self.other is not None else value
        value = value + self.offset if self.offset else value
        return value // self.divisor if self.divisor > 1 else value


Factors = tuple[str | ExtentFormula, ...]
"""The factors of a product."""


def fitted(values: Sequence[int], points: Sequence[Point]) -> ExtentFormula | None:
    """The simplest formula of dimensions that has these values at the points; None if there is none.

    It needs no rounding at these points.
    """
    return next(_exact(values, points, _products(sorted(points[0]))), None)


def _exact(
    values: Sequence[int], points: Sequence[Point], products: Iterable[Factors]
) -> Iterator[ExtentFormula]:
    """The formulas of some products with these values: first multiples of one, then those with an addend."""
    if all(value == values[0] for value in values):
        yield ExtentFormula(0, (), values[0])
        return
    lines: list[ExtentFormula] = []
    for names in products:
        amounts = [_product(names, point) for point in points]
        ratio = Fraction(values[0], amounts[0]) if amounts[0] else Fraction(0)
        if all(value == ratio * amount for value, amount in zip(values, amounts, strict=True)):
            yield ExtentFormula(ratio.numerator, names, 0, ratio.denominator)
        elif (found := _line(values, amounts, names)) is not None:
            lines.append(found)
    yield from lines


def _product(names: Factors, point: Point) -> int:
    return prod(point[name] if isinstance(name, str) else name.at(point) for name in names)


def _products(names: Sequence[str], formulas: Sequence[ExtentFormula] = ()) -> Iterator[Factors]:
    """Yield products of dimensions; with ``formulas`` each has at least one of them as a factor."""
    for degree in range(1, _DEGREE + 1):
        of: Factors = (*formulas, *names)
        for factors in combinations_with_replacement(of, degree):
            if not formulas or not isinstance(factors[0], str):
                yield factors


def _line(values: Sequence[int], products: Sequence[int], names: Factors) -> ExtentFormula | None:
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
    """Raised if several formulas have the known values; they differ at the point ``number``."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def found_formula(
    values: Sequence[int],
    points: Sequence[Point],
    domain: Mapping[str, Array],
    parts: Sequence[ExtentFormula] = (),
) -> ExtentFormula | None:
    """The simplest formula with these values at the points, possibly with a rounded quotient.

    ``domain`` has the sizes at all points for which it must be right. ``parts``: formulas that it may
    contain, like an extent that follows from another one. None if there is none. Undecided if several, with a
    quotient or with parts, differ at a point.
    """
    found = fitted(values, points)
    if found is not None and found.fixed:
        return found
    made = [each for each in _exact(values, points, _products(sorted(points[0]), parts)) if parts]
    whole = [each for each in (found, *made) if each is not None and each.divisor == 1]
    if found is None or found.divisor > 1:
        rounded = rounded_formula(values, points, domain)
        whole += [rounded] if rounded is not None else []
    for other in whole[1:]:
        _check_alike(whole[0].at(domain), other.at(domain))
    if whole or found is not None:
        return whole[0] if whole else found
    if parts and (quotient := rounded_formula(values, points, domain, parts)) is not None:
        return quotient
    return _sum(values, points, domain, parts)


def _sum(
    values: Sequence[int],
    points: Sequence[Point],
    domain: Mapping[str, Array],
    parts: Sequence[ExtentFormula],
) -> ExtentFormula | None:
    """Return the sum of multiples of two products with these values; Undecided if several sums differ."""
    names: list[Factors] = [each for each in _products(sorted(points[0])) if len(each) <= _DEGREE_OF_SUM]
    names += [(part,) for part in parts]
    amounts = np.array([[_product(each, point) for point in points] for each in names], np.float64)
    found: ExtentFormula | None = None
    for one, other in combinations(range(len(names)), 2):
        terms = np.stack([amounts[one], amounts[other], np.ones(len(points))], axis=1)
        solved, _, rank, _ = np.linalg.lstsq(terms, np.array(values, np.float64))
        first, second, offset = (round(each) for each in solved)
        added = ExtentFormula(second, names[other])
        sum_ = ExtentFormula(first, names[one], offset, 1, added)
        if rank < len(solved) or not first or not second or second < 0:
            continue
        if any(sum_.at(point) != value for point, value in zip(points, values, strict=True)):
            continue
        if found is None:
            found = sum_
        _check_alike(sum_.at(domain), found.at(domain))
    return found


def _check_alike(one: Array, other: Array) -> None:
    """Undecided if values of two formulas differ. It names the largest such point, because large graphs have
    one structure."""
    different = np.flatnonzero(one != other)
    if len(different):
        raise Undecided(int(different[-1]))


def rounded_formula(
    values: Sequence[int],
    points: Sequence[Point],
    domain: Mapping[str, Array],
    parts: Sequence[ExtentFormula] = (),
) -> ExtentFormula | None:
    """Return the formula with these values that has a quotient rounded down, as windows with strides have.

    ``domain`` has the sizes at all points for which it must be right. The dividend contains one of ``parts``;
    without them it is a product of dimensions. None if there is no such formula; Undecided if there are
    several, which differ at a point.
    """
    of_parts: list[Factors] = [(part,) for part in parts]
    products = of_parts or _products(sorted(points[0]))
    found: Array | None = None
    first: ExtentFormula | None = None
    for formula, last in _families(values, points, products):
        least, most = (each.at(domain) for each in (formula, replace(formula, offset=last)))
        if (least != most).any():
            raise Undecided(_between(formula, last, domain))
        if found is not None:
            _check_alike(least, found)
        if found is None:
            found, first = least, formula
    return first


def _families(
    values: Sequence[int], points: Sequence[Point], products: Iterable[Factors]
) -> Iterator[tuple[ExtentFormula, int]]:
    """Yield formulas with these values, each with its least possible offset, and the largest possible one."""
    for names in products:
        pairs = [(value, _product(names, point)) for value, point in zip(values, points, strict=True)]
        for divisor in range(2, _LARGEST_DIVISOR + 1):
            for factor in range(1, _LARGEST_FACTOR + 1):
                if gcd(factor, divisor) == 1:
                    least = max(value * divisor - factor * product for value, product in pairs)
                    most = min((value + 1) * divisor - 1 - factor * product for value, product in pairs)
                    if least <= most:
                        yield ExtentFormula(factor, names, least, divisor), most


def _between(formula: ExtentFormula, last: int, domain: Mapping[str, Array]) -> int:
    """Return a point at which small and large possible offsets give different values."""
    offsets = sorted(
        range(formula.offset + 1, last + 1), key=lambda each: abs(2 * each - formula.offset - last)
    )
    for offset in offsets:
        below, here = (replace(formula, offset=each).at(domain) for each in (offset - 1, offset))
        if (below != here).any():
            return int(np.flatnonzero(below != here)[-1])
    raise ValueError("the offsets make no difference")
