"""Tests of operands at which an elementary function has an exact value in binary floating point.

Each test takes a finite binary32 number in the function's domain; poles count as exact. A value that a format
cannot hold becomes inexact when it is stored. (exp, ln, sin ... of an algebraic number other than the
trivial one are transcendental: Lindemann.)
"""

from __future__ import annotations

from .primitives import bits64, f32, sqrt

_FRACTION64 = (1 << 52) - 1


def nowhere(x: float) -> bool:
    """softplus."""
    return False


def at_zero(x: float) -> bool:
    """exp, sin, cos, tanh, sigmoid."""
    return x == 0.0


def at_one(x: float) -> bool:
    """ln; 0 is its pole."""
    return x == 1.0 or x == 0.0


def where_hundredth(x: float) -> bool:
    """leakyrelu: exact for numbers from 0 up, and for multiples of a hundred below 0."""
    return x >= 0.0 or f32(0.01 * x) * 100.0 == x


def at_integers(x: float) -> bool:
    """pow2; beyond these bounds it leaves the range of binary32."""
    return x >= -149.0 and x <= 127.0 and float(int(x)) == x


def at_powers_of_two(x: float) -> bool:
    """recip and log2; 0 is a pole of both."""
    return bits64(x) & _FRACTION64 == 0


def at_powers_of_four(x: float) -> bool:
    """rsqrt; 0 is its pole."""
    return x == 0.0 or (at_powers_of_two(x) and bits64(x) >> 52 & 1 == 1)


def at_squares(x: float) -> bool:
    """sqrt: the square of 24 bits is exact in binary64."""
    root = f32(sqrt(x))
    return root * root == x
