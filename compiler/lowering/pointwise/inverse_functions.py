"""Inverse circular and hyperbolic functions, from polynomials and logarithms in FP32."""

from __future__ import annotations

import math

from compiler.codegen.expr import Value
from compiler.operators.record import Call

from .record import SliceVector
from .single import unary_operator

# Abramowitz & Stegun, Handbook of Mathematical Functions, 4.4.49: |error| <= 2e-8 for |x| <= 1.
_ATAN = (
    0.0028662257,
    -0.0161657367,
    0.0429096138,
    -0.0752896400,
    0.1065626393,
    -0.1420889944,
    0.1999355085,
    -0.3333314528,
    1.0,
)
_LARGE = 2.0**60
"""From this number on, 1 is lost in the sum with a square."""
_FP32_MAX = 3.4028234663852886e38


def _arc_tangent(vector: SliceVector, x: Value) -> Value:
    """sign(x) (pi/2 - atan(1/|x|)) beyond 1, a polynomial below."""
    size, large, t, total, sign = (vector.temporary(name) for name in ("size", "large", "t", "total", "sign"))
    vector.unary("abs", size, x)
    vector.vs("gt", large, size, 1.0)
    vector.unary("recip", t, size)
    vector.vv("min", t, t, size)
    vector.vv("mul", size, t, t)
    vector.vs("mul", total, size, _ATAN[0])
    for coefficient in _ATAN[1:-1]:
        vector.vs("add", total, total, coefficient)
        vector.vv("mul", total, total, size)
    vector.vs("add", total, total, _ATAN[-1])
    vector.vv("mul", total, total, t)
    vector.unary("neg", t, total)
    vector.vs("add", t, t, math.pi / 2)
    vector.choose(total, large, t)
    vector.vs("lt", sign, x, 0.0)
    vector.unary("neg", t, total)
    vector.choose(total, sign, t)
    return total


@unary_operator("Atan", temporaries=5)
def _atan(vector: SliceVector, x: Value, call: Call) -> Value:
    return _arc_tangent(vector, x)


@unary_operator("Asin", temporaries=7)
def _asin(vector: SliceVector, x: Value, call: Call) -> Value:
    """atan(x / sqrt((1 - x) (1 + x))); at 1 the quotient is infinite, and its arc pi/2."""
    root, other = vector.temporary("root"), vector.temporary("other")
    vector.vs("add", root, x, 1.0)
    vector.unary("neg", other, x)
    vector.vs("add", other, other, 1.0)
    vector.vv("mul", root, root, other)
    vector.unary("sqrt", root, root)
    vector.vv("div", x, x, root)
    return _arc_tangent(vector, x)


@unary_operator("Acos", temporaries=6)
def _acos(vector: SliceVector, x: Value, call: Call) -> Value:
    """2 atan(sqrt((1 - x) / (1 + x))), which has all digits near 1."""
    other = vector.temporary("other")
    vector.unary("neg", other, x)
    vector.vs("add", other, other, 1.0)
    vector.vs("add", x, x, 1.0)
    vector.vv("div", x, other, x)
    vector.unary("sqrt", x, x)
    arc = _arc_tangent(vector, x)
    vector.vs("mul", arc, arc, 2.0)
    return arc


def _log_of_one_plus(vector: SliceVector, x: Value) -> Value:
    """The address of ln(1 + x): ln(u) + (x - (u - 1)) / u with the rounded sum u = 1 + x. x is overwritten.

    The second term is the part that the rounding of the sum loses, all of x where u is 1; it is 0 for an
    infinite x.
    """
    total, rest = vector.temporary("total"), vector.temporary("rest")
    vector.vs("add", total, x, 1.0)
    vector.vs("sub", rest, total, 1.0)
    vector.vs("min", rest, rest, _FP32_MAX)
    vector.vs("min", x, x, _FP32_MAX)
    vector.vv("sub", rest, x, rest)
    vector.vv("div", rest, rest, total)
    vector.unary("ln", total, total)
    vector.vv("add", total, total, rest)
    return total


def _log_of_twice(vector: SliceVector, result: Value, x: Value, scratch: Value) -> None:
    """result = ln(2 x) = ln(x) + ln(2) where x is large; x and scratch are overwritten."""
    vector.vs("gt", scratch, x, _LARGE)
    vector.unary("ln", x, x)
    vector.vs("add", x, x, math.log(2.0))
    vector.choose(result, scratch, x)


def _with_sign_of(vector: SliceVector, result: Value, x: Value, scratch: Value) -> None:
    """result = -result where x < 0; x and scratch are overwritten."""
    vector.unary("neg", scratch, result)
    vector.vs("lt", x, x, 0.0)
    vector.choose(result, x, scratch)


@unary_operator("Asinh", temporaries=4)
def _asinh(vector: SliceVector, x: Value, call: Call) -> Value:
    """sign(x) ln(1 + a + a^2 / (1 + sqrt(1 + a^2))) with a = |x|."""
    size, more = vector.temporary("size"), vector.temporary("more")
    vector.unary("abs", size, x)
    vector.vv("mul", more, size, size)
    vector.vs("add", more, more, 1.0)
    vector.unary("sqrt", more, more)
    vector.vs("add", more, more, 1.0)
    vector.vv("div", more, size, more)
    vector.vv("mul", more, more, size)
    vector.vv("add", more, more, size)
    result = _log_of_one_plus(vector, more)
    _log_of_twice(vector, result, size, more)
    _with_sign_of(vector, result, x, more)
    return result


@unary_operator("Acosh", temporaries=5)
def _acosh(vector: SliceVector, x: Value, call: Call) -> Value:
    """ln(1 + t + sqrt(t) sqrt(x + 1)) with t = x - 1."""
    root, more = vector.temporary("root"), vector.temporary("more")
    vector.vs("sub", more, x, 1.0)
    vector.unary("sqrt", root, more)
    total = vector.temporary("total")
    vector.vs("add", total, x, 1.0)
    vector.unary("sqrt", total, total)
    vector.vv("mul", root, root, total)
    vector.vv("add", more, more, root)
    result = _log_of_one_plus(vector, more)
    _log_of_twice(vector, result, x, root)
    return result


@unary_operator("Atanh", temporaries=4)
def _atanh(vector: SliceVector, x: Value, call: Call) -> Value:
    """sign(x) ln(1 + 2 a / (1 - a)) / 2 with a = |x|."""
    size, other = vector.temporary("size"), vector.temporary("other")
    vector.unary("abs", size, x)
    vector.unary("neg", other, size)
    vector.vs("add", other, other, 1.0)
    vector.vv("div", size, size, other)
    vector.vs("mul", size, size, 2.0)
    result = _log_of_one_plus(vector, size)
    vector.vs("mul", result, result, 0.5)
    _with_sign_of(vector, result, x, other)
    return result
