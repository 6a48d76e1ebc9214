"""Operations that compute each element by itself: arithmetic, comparisons, choices, conversions."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
from onnx import helper

from compiler.frontend.onnx.partial import Unsupported
from compiler.frontend.stablehlo.attributes import numpy_type
from compiler.frontend.stablehlo.site import Rewriter, Site, Value
from compiler.graph import FLOATS

_TRUTH = {"add": "Or", "multiply": "And", "maximum": "Or", "minimum": "And"}
"""Logical operators that replace arithmetic on truth values."""

_BOUNDS = {"maximum": -math.inf, "minimum": math.inf}
"""The operands that change nothing."""

_COMPARISONS = {"EQ": "Equal", "LT": "Less", "LE": "LessOrEqual", "GT": "Greater", "GE": "GreaterOrEqual"}


def _unary(op: str, site: Site) -> Value:
    return site.pointwise(op, site.operand(0))


def _binary(op: str, kind: str, site: Site) -> Value:
    """Add an operator of two operands, or its logical form for truth values."""
    a, b = site.operand(0), site.operand(1)
    for x, bound in ((a, b), (b, a)):
        if kind in _BOUNDS and _is_number(site, bound, _BOUNDS[kind]):
            return x  # the maximum with the neutral element, which a softmax of JAX takes of its maxima
        if kind == "maximum" and _is_number(site, bound, 0):
            return site.pointwise("Relu", x)
    truth = site.type_of(a) == "bool" and kind in _TRUTH
    return site.pointwise(_TRUTH[kind] if truth else op, a, b)


def _is_number(site: Site, value: Value, number: float) -> bool:
    """Return True if a value is a float constant held as one element, equal to this number."""
    array = site.graph.value(value.name)
    return array is not None and array.ndim == 0 and array.dtype.name in FLOATS and float(array) == number


def _bitwise(op: str, site: Site) -> Value:
    truth = site.type_of(site.operand(0)) == "bool"
    return site.pointwise(op if truth else f"Bitwise{op}", *site.operands)


def _sign(site: Site) -> Value:
    x = site.operand(0)
    if site.type_of(x) in FLOATS:
        return site.pointwise("Sign", x)
    return site.pointwise("Clip", x, site.number(-1, x), site.number(1, x))


def _rsqrt(site: Site) -> Value:
    return site.pointwise("Reciprocal", site.pointwise("Sqrt", site.operand(0)))


def _cbrt(site: Site) -> Value:
    x = site.operand(0)
    root = site.pointwise("Pow", site.pointwise("Abs", x), site.number(1 / 3, x))
    return site.pointwise("Mul", site.pointwise("Sign", x), root)


def _expm1(site: Site) -> Value:
    """tanh(x/2) (exp(x) + 1), which has no difference of near numbers."""
    x = site.operand(0)
    half = site.pointwise("Tanh", site.pointwise("Mul", x, site.number(0.5, x)))
    return site.pointwise("Mul", half, site.pointwise("Add", site.pointwise("Exp", x), site.number(1, x)))


def _log1p(site: Site) -> Value:
    """Compute 2 atanh(x / (x + 2)) up to 1, which avoids the sum with 1, and log(x + 1) above."""
    x, one, two = site.operand(0), site.number(1, site.operand(0)), site.number(2, site.operand(0))
    ratio = site.pointwise("Div", x, site.pointwise("Add", x, two))
    near = site.pointwise("Mul", two, site.pointwise("Atanh", ratio))
    far = site.pointwise("Log", site.pointwise("Add", x, one))
    return site.pointwise("Where", site.pointwise("Less", x, one), near, far)


def _round_away(site: Site) -> Value:
    """The nearest integer, halves away from zero."""
    x = site.operand(0)
    whole = site.pointwise("Floor", site.pointwise("Abs", x))
    rest = site.pointwise("Sub", site.pointwise("Abs", x), whole)
    up = site.pointwise("GreaterOrEqual", rest, site.number(0.5, x))
    above = site.pointwise("Add", whole, site.number(1, x))
    return site.pointwise("Mul", site.pointwise("Sign", x), site.pointwise("Where", up, above, whole))


def _is_finite(site: Site) -> Value:
    x = site.operand(0)
    return site.pointwise("Not", site.pointwise("Or", site.pointwise("IsInf", x), site.pointwise("IsNaN", x)))


def _is_infinite(positive: int, negative: int, site: Site) -> Value:
    return site.pointwise("IsInf", site.operand(0), detect_positive=positive, detect_negative=negative)


def _erfc(site: Site) -> Value:
    x = site.operand(0)
    return site.pointwise("Sub", site.number(1, x), site.pointwise("Erf", x))


def _square(site: Site) -> Value:
    return site.pointwise("Mul", site.operand(0), site.operand(0))


def _atan2(site: Site) -> Value:
    """Return the angle of the point (x, y): that of y / x, plus half a turn on the left; -0 counts as 0."""
    y, x = site.operand(0), site.operand(1)
    zero = site.number(0, x)
    angle = site.pointwise("Atan", site.pointwise("Div", y, x))
    below = site.pointwise("Less", y, zero)
    turn = site.pointwise("Where", below, site.number(-math.pi, x), site.number(math.pi, x))
    left = site.pointwise("Add", angle, turn)
    upright = site.pointwise("Mul", site.pointwise("Sign", y), site.number(math.pi / 2, x))
    beside = site.pointwise("Where", site.pointwise("Less", x, zero), left, upright)
    return site.pointwise("Where", site.pointwise("Greater", x, zero), angle, beside)


def _remainder(site: Site) -> Value:
    return site.pointwise("Mod", site.operand(0), site.operand(1), fmod=1)


def _shift(direction: str, site: Site) -> Value:
    return site.pointwise("BitShift", site.operand(0), site.operand(1), direction=direction)


def _shift_logical(site: Site) -> Value:
    """Shift right and fill with zeros; signed integers by a known number."""
    x, by = site.operand(0), site.operand(1)
    dtype = numpy_type(site.type_of(x))
    if dtype.kind == "u":
        return _shift("RIGHT", site)
    count, width = site.known(by), 8 * dtype.itemsize
    if count is None or np.any(count < 0):
        raise Unsupported("shifts signed integers by numbers that are not known to be 0 or more")
    bits = np.vectorize(lambda by: (1 << max(width - int(by), 0)) - 1, otypes=[np.uint64])(count)
    kept = site.constant(bits.astype(f"uint{width}").view(dtype))
    return site.pointwise("BitwiseAnd", _shift("RIGHT", site), kept)


def _compare(site: Site) -> Value:
    """Compare numbers; in StableHLO's total order, too, with -0 before 0 and places for NaN."""
    a, b = site.operand(0), site.operand(1)
    if site.type_of(a) == "bool":
        a, b = site.cast(a, "int32"), site.cast(b, "int32")
    direction = site.word("comparison_direction")
    if direction == "NE":
        return site.pointwise("Not", site.pointwise("Equal", a, b))
    if direction not in _COMPARISONS:
        raise Unsupported(f"compares by {direction or 'nothing'}; known are NE, {', '.join(_COMPARISONS)}")
    return site.pointwise(_COMPARISONS[direction], a, b)


def _select(site: Site) -> Value:
    return site.pointwise("Where", site.operand(0), site.operand(1), site.operand(2))


def _clamp(site: Site) -> Value:
    low, x, high = (site.operand(at) for at in range(3))
    return site.pointwise("Min", site.pointwise("Max", x, low), high)


def _convert(site: Site) -> Value:
    return site.cast(site.operand(0), site.dtype)


def _bitcast(site: Site) -> Value:
    """Take the bits as elements of another type of the same width."""
    x, dtype = site.operand(0), numpy_type(site.dtype)
    if numpy_type(site.type_of(x)).itemsize != dtype.itemsize:
        raise Unsupported(f"gives elements of another width: {site.type_of(x)} as {site.dtype}")
    return site.node("BitCast", x, to=helper.np_dtype_to_tensor_dtype(dtype))


def _reduce_precision(site: Site) -> Value:
    """A number rounded to a shorter format and back."""
    x, bits = site.operand(0), (site.integer("exponent_bits"), site.integer("mantissa_bits"))
    if bits == (8, 23):
        return x
    short = {(8, 7): "bfloat16", (5, 10): "float16"}.get(bits)
    if short is None:
        raise Unsupported(
            f"rounds to {bits[0]} bits of exponent and {bits[1]} of mantissa; "
            "supported are (8, 23), (8, 7) and (5, 10)"
        )
    return site.cast(site.cast(x, short), site.type_of(x))


_ONE_OPERAND = {
    **{"stablehlo.abs": "Abs", "stablehlo.ceil": "Ceil", "stablehlo.cosine": "Cos", "stablehlo.sine": "Sin"},
    **{"stablehlo.tan": "Tan", "stablehlo.tanh": "Tanh", "stablehlo.exponential": "Exp"},
    **{"stablehlo.floor": "Floor", "stablehlo.log": "Log", "stablehlo.logistic": "Sigmoid"},
    **{"stablehlo.negate": "Neg", "stablehlo.sqrt": "Sqrt", "stablehlo.round_nearest_even": "Round"},
    **{"chlo.acos": "Acos", "chlo.acosh": "Acosh", "chlo.asin": "Asin", "chlo.asinh": "Asinh"},
    **{"chlo.atan": "Atan", "chlo.atanh": "Atanh", "chlo.cosh": "Cosh", "chlo.sinh": "Sinh"},
    **{"chlo.tan": "Tan", "chlo.erf": "Erf"},
}
_TWO_OPERANDS = {
    **{"add": "Add", "subtract": "Sub", "multiply": "Mul", "divide": "Div", "power": "Pow"},
    **{"maximum": "Max", "minimum": "Min"},
}

REWRITES: dict[str, Rewriter] = {
    **{name: partial(_unary, op) for name, op in _ONE_OPERAND.items()},
    **{f"stablehlo.{name}": partial(_binary, op, name) for name, op in _TWO_OPERANDS.items()},
    **{f"stablehlo.{op.lower()}": partial(_bitwise, op) for op in ("And", "Or", "Xor", "Not")},
    "stablehlo.sign": _sign,
    "stablehlo.rsqrt": _rsqrt,
    "stablehlo.cbrt": _cbrt,
    "stablehlo.exponential_minus_one": _expm1,
    "stablehlo.log_plus_one": _log1p,
    "stablehlo.round_nearest_afz": _round_away,
    "stablehlo.is_finite": _is_finite,
    "stablehlo.atan2": _atan2,
    "stablehlo.remainder": _remainder,
    "stablehlo.shift_left": partial(_shift, "LEFT"),
    "stablehlo.shift_right_arithmetic": partial(_shift, "RIGHT"),
    "stablehlo.shift_right_logical": _shift_logical,
    "stablehlo.compare": _compare,
    "stablehlo.select": _select,
    "stablehlo.clamp": _clamp,
    "stablehlo.convert": _convert,
    "stablehlo.bitcast_convert": _bitcast,
    "stablehlo.reduce_precision": _reduce_precision,
    "chlo.is_inf": partial(_is_infinite, 1, 1),
    "chlo.is_pos_inf": partial(_is_infinite, 1, 0),
    "chlo.is_neg_inf": partial(_is_infinite, 0, 1),
    "chlo.erfc": _erfc,
    "chlo.square": _square,
}
"""Functions that add the nodes of an operation, by its name."""
