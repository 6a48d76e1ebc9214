"""Element-wise operators: activations and arithmetic with broadcasting."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np

from compiler.graph import FLOATS, Array, GraphError, Shape
from compiler.operators.record import (
    Attribute,
    Call,
    Input,
    Operator,
    Output,
    Reference,
    Types,
    register,
    rule,
)
from compiler.operators.types import FLOAT, NUMERIC, broadcast_shapes, same_shape

_SIGNED = Types("T", (*FLOATS, "int8", "int32", "int64"))


def erf(x: Array) -> Array:
    """Error function in binary64; NumPy has none, so the C library's, element by element."""
    values = np.fromiter(map(math.erf, x.ravel().tolist()), np.float64, count=x.size)
    return values.reshape(x.shape)


def sigmoid(x: Array) -> Array:
    """1 / (1 + exp(-x)) without overflow: the exponential is always of a negative number."""
    decayed = np.exp(-np.abs(x))
    return np.asarray(np.where(x >= 0, 1.0, decayed) / (1.0 + decayed))


def _gelu(call: Call, x: Array) -> tuple[Array, ...]:
    if call.string("approximate") == "tanh":
        return (0.5 * x * (1.0 + np.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3))),)
    return (0.5 * x * (1.0 + erf(x / math.sqrt(2.0))),)


def _leaky_relu(call: Call, x: Array) -> tuple[Array, ...]:
    return (np.where(x < 0, call.number("alpha") * x, x),)


def _pointwise(function: Callable[[Array], Array]) -> Reference:
    def reference(call: Call, x: Array) -> tuple[Array, ...]:
        return (function(x),)

    return reference


def _activation(
    name: str,
    since: int,
    summary: str,
    reference: Reference,
    types: Types = FLOAT,
    attributes: tuple[Attribute, ...] = (),
) -> Operator:
    return register(
        Operator(
            name=name,
            since=since,
            summary=summary,
            inputs=(Input("X", types),),
            outputs=(Output("Y", types),),
            attributes=attributes,
            shapes=same_shape,
            reference=reference,
        )
    )


RELU = _activation("Relu", 6, "max(x, 0)", _pointwise(lambda x: np.maximum(x, x.dtype.type(0))), _SIGNED)
LEAKY_RELU = _activation(
    "LeakyRelu", 6, "x, or alpha*x below zero", _leaky_relu, attributes=(Attribute("alpha", "float", 0.01),)
)
SIGMOID = _activation("Sigmoid", 6, "1 / (1 + exp(-x))", _pointwise(sigmoid))
TANH = _activation("Tanh", 6, "Hyperbolic tangent", _pointwise(np.tanh))
EXP = _activation("Exp", 6, "Exponential function", _pointwise(np.exp))
SQRT = _activation("Sqrt", 6, "Square root; NaN below zero", _pointwise(np.sqrt))
ERF = _activation("Erf", 9, "Error function", _pointwise(erf))
GELU = _activation(
    "Gelu",
    20,
    "x * Phi(x), Phi being the normal distribution function, or its tanh approximation",
    _gelu,
    attributes=(Attribute("approximate", "string", "none", allowed=("none", "tanh")),),
)


@rule
def operands_broadcast(call: Call) -> str | None:
    """The shapes of the operands must broadcast to a common shape, aligned at the last axis"""
    shapes = [tensor.shape for tensor in call.inputs if tensor is not None]
    if broadcast_shapes(*shapes) is not None:
        return None
    return " and ".join(str(list(shape)) for shape in shapes)


def broadcast_result(call: Call) -> tuple[Shape, ...]:
    """The shape that all operands broadcast to."""
    shape = broadcast_shapes(*(tensor.shape for tensor in call.inputs if tensor is not None))
    if shape is None:
        raise ValueError("operands do not broadcast; the rule operands_broadcast was not checked")
    return (shape,)


def _divide(call: Call, a: Array, b: Array) -> tuple[Array, ...]:
    """Quotient; of integers rounded toward zero (ONNX Div 14), where zero as a divisor has no meaning."""
    if a.dtype.kind == "f":
        return (a / b,)
    if not np.all(b):
        raise GraphError(["integer division by zero; the divisor must hold no zero"])
    quotient, remainder = np.floor_divide(a, b), np.remainder(a, b)
    inexact_negative = (remainder != 0) & ((a < 0) != (b < 0))
    return ((quotient + inexact_negative).astype(a.dtype),)


def _chain(function: Callable[[Array, Array], Array]) -> Reference:
    def reference(call: Call, *operands: Array) -> tuple[Array, ...]:
        return (functools.reduce(function, operands),)

    return reference


def _arithmetic(name: str, since: int, summary: str, reference: Reference) -> Operator:
    return register(
        Operator(
            name=name,
            since=since,
            summary=summary,
            inputs=(Input("A", NUMERIC), Input("B", NUMERIC)),
            outputs=(Output("C", NUMERIC),),
            rules=(operands_broadcast,),
            shapes=broadcast_result,
            reference=reference,
        )
    )


def _variadic(name: str, summary: str, reference: Reference, types: Types = NUMERIC) -> Operator:
    return register(
        Operator(
            name=name,
            since=8,
            summary=summary,
            inputs=(Input("data_0", types, variadic=True),),
            outputs=(Output(name.lower(), types),),
            rules=(operands_broadcast,),
            shapes=broadcast_result,
            reference=reference,
        )
    )


ADD = _arithmetic("Add", 7, "a + b with broadcasting", _chain(np.add))
SUB = _arithmetic("Sub", 7, "a - b with broadcasting", _chain(np.subtract))
MUL = _arithmetic("Mul", 7, "a * b with broadcasting", _chain(np.multiply))
DIV = _arithmetic("Div", 7, "a / b with broadcasting; integers round toward zero", _divide)
SUM = _variadic("Sum", "Sum of any number of operands, with broadcasting", _chain(np.add), FLOAT)
MAX = _variadic("Max", "Largest of any number of operands, with broadcasting", _chain(np.maximum))
MIN = _variadic("Min", "Smallest of any number of operands, with broadcasting", _chain(np.minimum))
