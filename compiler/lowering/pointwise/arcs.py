"""Inverse circular and hyperbolic functions, from polynomials and logarithms in FP32."""

from __future__ import annotations

import math

from compiler.codegen.expr import Value
from compiler.operators.record import Call

from .formulas import formula
from .pointwise import Formula

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


def _arc_tangent(f: Formula, x: Value) -> Value:
    """sign(x) (pi/2 - atan(1/|x|)) beyond 1, a polynomial below."""
    v = f.v
    size, large, t, total, sign = (f.temporary(name) for name in ("size", "large", "t", "total", "sign"))
    v.unary("abs", size, x)
    v.vs("gt", large, size, 1.0)
    v.vs("max", t, size, _TINY)
    v.unary("recip", t, t)
    v.vv("min", t, t, size)
    v.unary("square", size, t)
    v.vs("mul", total, size, _ATAN[0])
    for coefficient in _ATAN[1:-1]:
        v.vs("add", total, total, coefficient)
        v.vv("mul", total, total, size)
    v.vs("add", total, total, _ATAN[-1])
    v.vv("mul", total, total, t)
    v.unary("neg", t, total)
    v.vs("add", t, t, math.pi / 2)
    f.choose(total, large, t)
    v.vs("lt", sign, x, 0.0)
    v.unary("neg", t, total)
    f.choose(total, sign, t)
    return total


def _atan(f: Formula, x: Value, call: Call) -> Value:
    return _arc_tangent(f, x)


def _asin(f: Formula, x: Value, call: Call) -> Value:
    """atan(x / sqrt((1 - x) (1 + x))); at 1 the quotient is infinite, and its arc pi/2."""
    root, other = f.temporary("root"), f.temporary("other")
    f.v.vs("add", root, x, 1.0)
    f.v.unary("neg", other, x)
    f.v.vs("add", other, other, 1.0)
    f.v.vv("mul", root, root, other)
    f.v.unary("sqrt", root, root)
    f.v.vv("div", x, x, root)
    return _arc_tangent(f, x)


def _acos(f: Formula, x: Value, call: Call) -> Value:
    arc = _asin(f, x, call)
    f.v.unary("neg", arc, arc)
    f.v.vs("add", arc, arc, math.pi / 2)
    return arc


def _asinh(f: Formula, x: Value, call: Call) -> Value:
    """sign(x) ln(|x| + sqrt(x^2 + 1))."""
    size, sign = f.temporary("size"), f.temporary("sign")
    f.v.unary("square", size, x)
    f.v.vs("add", size, size, 1.0)
    f.v.unary("sqrt", size, size)
    f.v.unary("abs", sign, x)
    f.v.vv("add", size, size, sign)
    f.v.unary("ln", size, size)
    f.v.unary("neg", sign, size)
    f.v.vs("lt", x, x, 0.0)
    f.choose(size, x, sign)
    return size


def _acosh(f: Formula, x: Value, call: Call) -> Value:
    """ln(x + sqrt((x - 1) (x + 1)))."""
    root, other = f.temporary("root"), f.temporary("other")
    f.v.vs("sub", root, x, 1.0)
    f.v.vs("add", other, x, 1.0)
    f.v.vv("mul", root, root, other)
    f.v.unary("sqrt", root, root)
    f.v.vv("add", x, x, root)
    f.v.unary("ln", x, x)
    return x


def _atanh(f: Formula, x: Value, call: Call) -> Value:
    """ln((1 + x) / (1 - x)) / 2."""
    other = f.temporary("other")
    f.v.unary("neg", other, x)
    f.v.vs("add", other, other, 1.0)
    f.v.vs("add", x, x, 1.0)
    f.v.vv("div", x, x, other)
    f.v.unary("ln", x, x)
    f.v.vs("mul", x, x, 0.5)
    return x


formula("Atan", 5, _atan)
formula("Asin", 7, _asin)
formula("Acos", 7, _acos)
formula("Asinh", 2, _asinh)
formula("Acosh", 2, _acosh)
formula("Atanh", 1, _atanh)
