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
_TINY = 1e-30


def _arc_tangent(vector: SliceVector, x: Value) -> Value:
    """sign(x) (pi/2 - atan(1/|x|)) beyond 1, a polynomial below."""
    size, large, t, total, sign = (vector.temporary(name) for name in ("size", "large", "t", "total", "sign"))
    vector.unary("abs", size, x)
    vector.vs("gt", large, size, 1.0)
    vector.vs("max", t, size, _TINY)
    vector.unary("recip", t, t)
    vector.vv("min", t, t, size)
    vector.unary("square", size, t)
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


@unary_operator("Acos", temporaries=7)
def _acos(vector: SliceVector, x: Value, call: Call) -> Value:
    arc = _asin(vector, x, call)
    vector.unary("neg", arc, arc)
    vector.vs("add", arc, arc, math.pi / 2)
    return arc


@unary_operator("Asinh", temporaries=2)
def _asinh(vector: SliceVector, x: Value, call: Call) -> Value:
    """sign(x) ln(|x| + sqrt(x^2 + 1))."""
    size, sign = vector.temporary("size"), vector.temporary("sign")
    vector.unary("square", size, x)
    vector.vs("add", size, size, 1.0)
    vector.unary("sqrt", size, size)
    vector.unary("abs", sign, x)
    vector.vv("add", size, size, sign)
    vector.unary("ln", size, size)
    vector.unary("neg", sign, size)
    vector.vs("lt", x, x, 0.0)
    vector.choose(size, x, sign)
    return size


@unary_operator("Acosh", temporaries=2)
def _acosh(vector: SliceVector, x: Value, call: Call) -> Value:
    """ln(x + sqrt((x - 1) (x + 1)))."""
    root, other = vector.temporary("root"), vector.temporary("other")
    vector.vs("sub", root, x, 1.0)
    vector.vs("add", other, x, 1.0)
    vector.vv("mul", root, root, other)
    vector.unary("sqrt", root, root)
    vector.vv("add", x, x, root)
    vector.unary("ln", x, x)
    return x


@unary_operator("Atanh", temporaries=1)
def _atanh(vector: SliceVector, x: Value, call: Call) -> Value:
    """ln((1 + x) / (1 - x)) / 2."""
    other = vector.temporary("other")
    vector.unary("neg", other, x)
    vector.vs("add", other, other, 1.0)
    vector.vs("add", x, x, 1.0)
    vector.vv("div", x, x, other)
    vector.unary("ln", x, x)
    vector.vs("mul", x, x, 0.5)
    return x
