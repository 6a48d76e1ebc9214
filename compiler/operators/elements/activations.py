"""Activation functions, element by element."""

from __future__ import annotations

import math

import numpy as np

from compiler.graph import FLOATS, Array
from compiler.operators.boxes.forms import elementwise
from compiler.operators.expansion.builder import Builder
from compiler.operators.expansion.composite import composite
from compiler.operators.record import Attribute, Call, Input, Law, Operator, Output, Types, register, rule
from compiler.operators.types import FLOAT, SIGNED, broadcast_shapes, operands_broadcast, same_shape

from .elementwise import plain, unary
from .functions import erf


def _alpha(default: float) -> Attribute:
    return Attribute("alpha", "float", default)


# --- rectifiers ------------------------------------------------------------------------------------------


def _expand_relu(build: Builder, call: Call) -> tuple[str, ...] | None:
    """Expand for integers; the lowering takes floats."""
    if call.tensor(0).is_float:
        return None
    return (build("Max", call.name(0), build.like(call.name(0), 0)),)


def _leaky_relu(call: Call, x: Array) -> Array:
    return np.where(x < 0, call.number("alpha") * x, x)


def _thresholded_relu(call: Call, x: Array) -> Array:
    return np.asarray(np.where(x > call.number("alpha"), x, 0.0))


def _elu(call: Call, x: Array) -> Array:
    return np.asarray(np.where(x > 0, x, call.number("alpha") * np.expm1(np.minimum(x, 0))))


def _celu(call: Call, x: Array) -> Array:
    alpha = call.number("alpha")
    return np.asarray(np.maximum(x, 0) + np.minimum(alpha * np.expm1(x / alpha), 0))


def _selu(call: Call, x: Array) -> Array:
    return np.asarray(call.number("gamma") * _elu(call, x))


def _shrink(call: Call, x: Array) -> Array:
    bound, bias = call.number("lambd"), call.number("bias")
    return np.asarray(np.where(x < -bound, x + bias, np.where(x > bound, x - bias, 0.0)))


unary(
    "Relu",
    6,
    "max(x, 0)",
    plain(lambda x: np.maximum(x, x.dtype.type(0))),
    types=SIGNED,
    expansion=_expand_relu,
    laws=Law.EXACT | Law.RISING | Law.HOMOGENEOUS,
)
unary(
    "LeakyRelu", 6, "x, or alpha*x below zero", _leaky_relu, attributes=(_alpha(0.01),), laws=Law.HOMOGENEOUS
)
unary("ThresholdedRelu", 10, "x above alpha, else 0", _thresholded_relu, attributes=(_alpha(1.0),))
unary("Elu", 6, "x, or alpha (exp(x) - 1) below zero", _elu, attributes=(_alpha(1.0),))
unary("Celu", 12, "max(x, 0) + min(alpha (exp(x/alpha) - 1), 0)", _celu, attributes=(_alpha(1.0),))
unary(
    "Selu",
    6,
    "gamma times Elu",
    _selu,
    attributes=(_alpha(1.67326319217681884765625), Attribute("gamma", "float", 1.05070102214813232421875)),
)
unary(
    "Shrink",
    9,
    "x moved towards zero by bias, and 0 between -lambd and lambd",
    _shrink,
    attributes=(Attribute("lambd", "float", 0.5), Attribute("bias", "float", 0.0)),
    types=Types("T", ("float32", "float16")),
)


def _expand_prelu(build: Builder, call: Call) -> tuple[str, ...] | None:
    """Expand for integers; the lowering takes floats."""
    if call.tensor(0).is_float:
        return None
    x = call.name(0)
    zero = build.like(x, 0)
    return (build("Add", build("Max", x, zero), build("Mul", build("Min", x, zero), call.name(1))),)


@rule
def slope_broadcasts(call: Call) -> str | None:
    """slope must broadcast to the shape of X"""
    fits = broadcast_shapes(call.shape(0), call.shape(1)) == call.shape(0)
    return None if fits else f"{list(call.shape(1))} to {list(call.shape(0))}"


def _prelu(call: Call, x: Array, slope: Array) -> tuple[Array, ...]:
    return (np.where(x < 0, slope * x, x),)


_SLOPED = Types("T", (*FLOATS, "int32", "int64"))
register(
    Operator(
        name="PRelu",
        since=7,
        summary="x, or slope x below zero",
        inputs=(Input("X", _SLOPED), Input("slope", _SLOPED)),
        outputs=(Output("Y", _SLOPED),),
        rules=(slope_broadcasts,),
        shapes=same_shape,
        reference=_prelu,
        expansion=_expand_prelu,
        needs=elementwise,
    )
)

# --- sigmoids and gates ----------------------------------------------------------------------------------


def sigmoid(x: Array) -> Array:
    """Return 1 / (1 + exp(-x)) without overflow: the exponential is always of a negative number."""
    decayed = np.exp(-np.abs(x))
    return np.asarray(np.where(x >= 0, 1.0, decayed) / (1.0 + decayed))


def softplus(x: Array) -> Array:
    """Return ln(1 + exp(x)) without overflow."""
    return np.asarray(np.logaddexp(0.0, x))


def _hard_sigmoid(call: Call, x: Array) -> Array:
    return np.asarray(np.clip(call.number("alpha") * x + call.number("beta"), 0, 1))


def _swish(call: Call, x: Array) -> Array:
    return np.asarray(x * sigmoid(call.number("alpha") * x))


def _gelu(call: Call, x: Array) -> Array:
    if call.string("approximate") == "tanh":
        return 0.5 * x * (1.0 + np.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3)))
    return 0.5 * x * (1.0 + erf(x / math.sqrt(2.0)))


unary("Sigmoid", 6, "1 / (1 + exp(-x))", plain(sigmoid))
unary("Tanh", 6, "Hyperbolic tangent", plain(np.tanh))
unary("Softplus", 1, "ln(1 + exp(x))", plain(softplus))
unary("Softsign", 1, "x / (1 + |x|)", plain(lambda x: x / (1 + np.abs(x))))
unary(
    "HardSigmoid",
    6,
    "alpha x + beta, cut to 0 .. 1",
    _hard_sigmoid,
    attributes=(_alpha(0.2), Attribute("beta", "float", 0.5)),
)
unary("HardSwish", 14, "x times x/6 + 1/2, cut to 0 .. 1", plain(lambda x: x * np.clip(x / 6 + 0.5, 0, 1)))
unary("Swish", 24, "x / (1 + exp(-alpha x))", _swish, attributes=(_alpha(1.0),))
unary("Mish", 18, "x tanh(softplus(x))", plain(lambda x: x * np.tanh(softplus(x))))
unary(
    "Gelu",
    20,
    "x * Phi(x), Phi being the normal distribution function, or its tanh approximation",
    _gelu,
    attributes=(Attribute("approximate", "string", "none", allowed=("none", "tanh")),),
)


def _swiglu(build: Builder, call: Call) -> tuple[str, ...]:
    return (build("Mul", build("Swish", call.name(0), alpha=call.number("alpha")), call.name(1)),)


composite(
    name="SwiGLU",
    since=28,
    summary="A / (1 + exp(-alpha A)) times B",
    inputs=(Input("A", FLOAT), Input("B", FLOAT)),
    outputs=(Output("Y", FLOAT),),
    expansion=_swiglu,
    attributes=(_alpha(1.0),),
    rules=(operands_broadcast,),
)
