"""The folds that reductions and pools share."""

from __future__ import annotations

from .meaning import Reduction
from .primitives import divide, f32


def _add(total: float, x: float) -> float:
    """One step of an FP32 running sum."""
    return f32(total + x)


def _larger(best: float, x: float) -> float:
    """A NaN element never replaces a number; a NaN start gives way to any number."""
    return x if x > best or best != best else best


def _smaller(best: float, x: float) -> float:
    return x if x < best or best != best else best


def _as_is(total: float, elements: float) -> float:
    return total


def _mean(total: float, elements: float) -> float:
    return divide(total, elements)


_NAN = float("nan")

SUM = Reduction(0.0, _add, _as_is)
MEAN = Reduction(0.0, _add, _mean)
MAXIMUM = Reduction(_NAN, _larger, _as_is)
MINIMUM = Reduction(_NAN, _smaller, _as_is)
