"""CT transcendental functions, opcodes 98..104 (semantics.md 6): within 1 ulp of the format."""

from __future__ import annotations

from .. import elementary
from ..vector import unary

_EVIDENCE = "spec; special values proposed"


@unary(98, _EVIDENCE)
def log2(x: float) -> float:
    """Logarithm to base 2; -inf at zero, NaN below it."""
    return elementary.log2(x)


@unary(99, _EVIDENCE)
def ln(x: float) -> float:
    """Natural logarithm; -inf at zero, NaN below it."""
    return elementary.ln(x)


@unary(100, _EVIDENCE)
def pow2(x: float) -> float:
    """2 to the power x."""
    return elementary.pow2(x)


@unary(101, _EVIDENCE)
def exp(x: float) -> float:
    """e to the power x, the accurate form."""
    return elementary.exp(x)


@unary(102, _EVIDENCE + "; accuracy on the board")
def exp_lp(x: float) -> float:
    """e to the power x as pow2 of one FP32 product x * log2(e)."""
    return elementary.exp_low_precision(x)


@unary(103, _EVIDENCE)
def sin(x: float) -> float:
    """Sine of x radians, exact range reduction."""
    return elementary.sin(x)


@unary(104, _EVIDENCE)
def cos(x: float) -> float:
    """Cosine of x radians, exact range reduction."""
    return elementary.cos(x)
