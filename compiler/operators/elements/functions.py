"""Mathematical functions and tests of one operand, element by element."""

from __future__ import annotations

import math

import numpy as np

from compiler.graph import FLOATS, INTEGERS, Array
from compiler.operators.expansion.builder import Builder
from compiler.operators.record import Attribute, Call, Law, Types
from compiler.operators.types import BOOL, SIGNED

from .elementwise import plain, unary

_TESTED = Types("T1", FLOATS)
_TRUTH = Types("T2", ("bool",))
_FLAG = (0, 1)


def erf(x: Array) -> Array:
    """Return the error function in binary64, from the C library for each element, as NumPy has none."""
    values = np.fromiter(map(math.erf, x.ravel().tolist()), np.float64, count=x.size)
    return values.reshape(x.shape)


def _infinite(call: Call, x: Array) -> Array:
    below = np.isneginf(x) & bool(call.integer("detect_negative"))
    return np.asarray(below | (np.isposinf(x) & bool(call.integer("detect_positive"))))


def _expand_abs(build: Builder, call: Call) -> tuple[str, ...] | None:
    """Expand the magnitude of integers to max(x, 0 - x); the lowering takes floats."""
    if call.tensor(0).is_float:
        return None
    x = call.name(0)
    return (build("Max", x, build("Sub", build.like(x, 0), x)),)


def _expand_neg(build: Builder, call: Call) -> tuple[str, ...] | None:
    """Expand the negation of an integer to 0 - x; the lowering takes floats."""
    if call.tensor(0).is_float:
        return None
    return (build("Sub", build.like(call.name(0), 0), call.name(0)),)


_OF_SIGNS = Law.EXACT | Law.HOMOGENEOUS
unary("Abs", 6, "Magnitude", plain(np.abs), types=SIGNED, expansion=_expand_abs, laws=_OF_SIGNS)
unary("Neg", 6, "-x", plain(np.negative), types=SIGNED, expansion=_expand_neg, laws=_OF_SIGNS)
unary("Sign", 9, "-1, 0 or 1", plain(np.sign))
unary("Reciprocal", 6, "1 / x", plain(np.reciprocal))
unary("Sqrt", 6, "Square root; NaN below zero", plain(np.sqrt))
unary("Exp", 6, "Exponential function", plain(np.exp))
unary("Log", 6, "Natural logarithm", plain(np.log))
unary("Erf", 9, "Error function", plain(erf))
unary("Sin", 7, "Sine of an angle in radians", plain(np.sin))
unary("Cos", 7, "Cosine of an angle in radians", plain(np.cos))
unary("Tan", 7, "Tangent of an angle in radians", plain(np.tan))
unary("Asin", 7, "Arc sine", plain(np.arcsin))
unary("Acos", 7, "Arc cosine", plain(np.arccos))
unary("Atan", 7, "Arc tangent", plain(np.arctan))
unary("Sinh", 9, "Hyperbolic sine", plain(np.sinh))
unary("Cosh", 9, "Hyperbolic cosine", plain(np.cosh))
unary("Asinh", 9, "Inverse of the hyperbolic sine", plain(np.arcsinh))
unary("Acosh", 9, "Inverse of the hyperbolic cosine", plain(np.arccosh))
unary("Atanh", 9, "Inverse of the hyperbolic tangent", plain(np.arctanh))
unary("Ceil", 6, "The next integer above", plain(np.ceil))
unary("Floor", 6, "The next integer below", plain(np.floor))
unary("Round", 11, "The nearest integer, of two the even one", plain(np.rint))
unary("Not", 1, "Logical negation", plain(np.logical_not), types=BOOL)
unary("BitwiseNot", 18, "Every bit inverted", plain(np.invert), types=Types("T", INTEGERS))
unary("IsNaN", 9, "True where an element is not a number", plain(np.isnan), types=_TESTED, result=_TRUTH)
unary(
    "IsInf",
    10,
    "Whether an element is infinite",
    _infinite,
    attributes=(
        Attribute("detect_negative", "int", 1, allowed=_FLAG),
        Attribute("detect_positive", "int", 1, allowed=_FLAG),
    ),
    types=_TESTED,
    result=_TRUTH,
)
