"""Functions of one operand, element by element."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from compiler.graph import FLOATS, INTEGERS, Array
from compiler.operators.record import Attribute, Call, Input, Operator, Output, Types, register
from compiler.operators.types import FLOAT, same_shape

from .elementwise import sigmoid

BOOL = Types("B", ("bool",))
_TESTED = Types("T1", FLOATS)
_TRUTH = Types("T2", ("bool",))
_SIGNED = Types("T", (*FLOATS, "int8", "int32", "int64"))

Function = Callable[[Call, Array], Array]


def _register(
    name: str,
    since: int,
    summary: str,
    function: Function,
    attributes: tuple[Attribute, ...] = (),
    types: Types = FLOAT,
    result: Types | None = None,
) -> None:
    def reference(call: Call, x: Array) -> tuple[Array, ...]:
        return (function(call, x),)

    register(
        Operator(
            name=name,
            since=since,
            summary=summary,
            inputs=(Input("X", types),),
            outputs=(Output("Y", result or types),),
            attributes=attributes,
            shapes=same_shape,
            reference=reference,
        )
    )


def _plain(function: Callable[[Array], Array]) -> Function:
    return lambda call, x: np.asarray(function(x))


def softplus(x: Array) -> Array:
    """ln(1 + exp(x)) without overflow."""
    return np.asarray(np.logaddexp(0.0, x))


def _elu(call: Call, x: Array) -> Array:
    return np.asarray(np.where(x > 0, x, call.number("alpha") * np.expm1(np.minimum(x, 0))))


def _celu(call: Call, x: Array) -> Array:
    alpha = call.number("alpha")
    return np.asarray(np.maximum(x, 0) + np.minimum(alpha * np.expm1(x / alpha), 0))


def _selu(call: Call, x: Array) -> Array:
    return np.asarray(call.number("gamma") * _elu(call, x))


def _hard_sigmoid(call: Call, x: Array) -> Array:
    return np.asarray(np.clip(call.number("alpha") * x + call.number("beta"), 0, 1))


def _swish(call: Call, x: Array) -> Array:
    return np.asarray(x * sigmoid(call.number("alpha") * x))


def _thresholded(call: Call, x: Array) -> Array:
    return np.asarray(np.where(x > call.number("alpha"), x, 0.0))


def _shrink(call: Call, x: Array) -> Array:
    bound, bias = call.number("lambd"), call.number("bias")
    return np.asarray(np.where(x < -bound, x + bias, np.where(x > bound, x - bias, 0.0)))


def _infinite(call: Call, x: Array) -> Array:
    below = np.isneginf(x) & bool(call.integer("detect_negative"))
    return np.asarray(below | (np.isposinf(x) & bool(call.integer("detect_positive"))))


def _alpha(default: float) -> Attribute:
    return Attribute("alpha", "float", default)


_register("Abs", 6, "Magnitude", _plain(np.abs), types=_SIGNED)
_register("Neg", 6, "-x", _plain(np.negative), types=_SIGNED)
_register("Sign", 9, "-1, 0 or 1", _plain(np.sign))
_register("Reciprocal", 6, "1 / x", _plain(np.reciprocal))
_register("Log", 6, "Natural logarithm", _plain(np.log))
_register("Sin", 7, "Sine of an angle in radians", _plain(np.sin))
_register("Cos", 7, "Cosine of an angle in radians", _plain(np.cos))
_register("Tan", 7, "Tangent of an angle in radians", _plain(np.tan))
_register("Sinh", 9, "Hyperbolic sine", _plain(np.sinh))
_register("Cosh", 9, "Hyperbolic cosine", _plain(np.cosh))
for _name, _since, _summary, _function in (
    ("Asin", 7, "Arc sine", np.arcsin),
    ("Acos", 7, "Arc cosine", np.arccos),
    ("Atan", 7, "Arc tangent", np.arctan),
    ("Asinh", 9, "Inverse of the hyperbolic sine", np.arcsinh),
    ("Acosh", 9, "Inverse of the hyperbolic cosine", np.arccosh),
    ("Atanh", 9, "Inverse of the hyperbolic tangent", np.arctanh),
):
    _register(_name, _since, _summary, _plain(_function))
_register("Ceil", 6, "The next integer above", _plain(np.ceil))
_register("Floor", 6, "The next integer below", _plain(np.floor))
_register("Round", 11, "The nearest integer, of two the even one", _plain(np.rint))
_register("Softplus", 1, "ln(1 + exp(x))", _plain(softplus))
_register("Softsign", 1, "x / (1 + |x|)", _plain(lambda x: x / (1 + np.abs(x))))
_register(
    "HardSwish", 14, "x times x/6 + 1/2, cut to 0 .. 1", _plain(lambda x: x * np.clip(x / 6 + 0.5, 0, 1))
)
_register("Mish", 18, "x tanh(softplus(x))", _plain(lambda x: x * np.tanh(softplus(x))))
_register("Not", 1, "Logical negation", _plain(np.logical_not), types=BOOL)
_register("BitwiseNot", 18, "Every bit inverted", _plain(np.invert), types=Types("T", INTEGERS))
_register("IsNaN", 9, "Whether an element is no number", _plain(np.isnan), types=_TESTED, result=_TRUTH)
_register(
    "IsInf",
    10,
    "Whether an element is infinite",
    _infinite,
    (
        Attribute("detect_negative", "int", 1, allowed=(0, 1)),
        Attribute("detect_positive", "int", 1, allowed=(0, 1)),
    ),
    _TESTED,
    _TRUTH,
)
_register("Elu", 6, "x, or alpha (exp(x) - 1) below zero", _elu, (_alpha(1.0),))
_register("Celu", 12, "max(x, 0) + min(alpha (exp(x/alpha) - 1), 0)", _celu, (_alpha(1.0),))
_register(
    "Selu",
    6,
    "gamma times Elu",
    _selu,
    (_alpha(1.67326319217681884765625), Attribute("gamma", "float", 1.05070102214813232421875)),
)
_register(
    "HardSigmoid",
    6,
    "alpha x + beta, cut to 0 .. 1",
    _hard_sigmoid,
    (_alpha(0.2), Attribute("beta", "float", 0.5)),
)
_register("Swish", 24, "x / (1 + exp(-alpha x))", _swish, (_alpha(1.0),))
_register("ThresholdedRelu", 10, "x above alpha, else 0", _thresholded, (_alpha(1.0),))
_register(
    "Shrink",
    9,
    "x moved towards zero by bias, and 0 between -lambd and lambd",
    _shrink,
    (Attribute("lambd", "float", 0.5), Attribute("bias", "float", 0.0)),
    Types("T", ("float32", "float16")),
)
