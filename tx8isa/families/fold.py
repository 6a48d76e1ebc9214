"""The folds that reductions and pools share."""

from __future__ import annotations

from tx8isa.numbers.formats import sum_error
from tx8isa.numbers.primitives import divide, f32
from tx8isa.records.meaning import Reduction


def _add(total: float, x: float) -> float:
    return total + x


def _larger(best: float, x: float) -> float:
    """A NaN element never replaces a number; a NaN as start value is replaced by any number."""
    return x if x > best or best != best else best


def _smaller(best: float, x: float) -> float:
    return x if x < best or best != best else best


def _mean(total: float, elements: float) -> float:
    return divide(total, elements)


def _divides(total: float, elements: float) -> bool:
    """The product of 24 bits and the number of elements is exact in binary64."""
    return f32(divide(total, elements)) * elements == total


_NAN = float("nan")

SUM = Reduction(0.0, _add, None, sum_error)
MEAN = Reduction(0.0, _add, _mean, sum_error, _divides)
MAXIMUM = Reduction(_NAN, _larger)
MINIMUM = Reduction(_NAN, _smaller)
