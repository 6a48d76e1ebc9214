"""Extents as formulas of dimensions, found from their values at several points."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations_with_replacement, pairwise
from math import prod
from typing import Any

Point = Mapping[str, int]
"""A size for each dimension, by name."""

_DEGREE = 3
"""Dimensions that a product may have."""


@dataclass(frozen=True)
class ExtentFormula:
    """``(factor * product of dimensions + offset) / divisor``, which is an integer at every point."""

    factor: int
    names: tuple[str, ...]
    offset: int = 0
    divisor: int = 1

    def __str__(self) -> str:
        if not self.names:
            return str(self.offset)
        text = "*".join([*([str(self.factor)] if self.factor != 1 else []), *self.names])
        if self.offset:
            text += f" {'-' if self.offset < 0 else '+'} {abs(self.offset)}"
        if self.divisor == 1:
            return text
        return f"({text})/{self.divisor}" if self.offset else f"{text}/{self.divisor}"

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
