"""Activations that are more than one instruction."""

from __future__ import annotations

import math

from compiler.codegen.expr import Value
from compiler.graph import FLOATS
from compiler.operators.record import Call

from .functions import erf_complement
from .record import Operand, SliceVector
from .single import pointwise_operator, unary_operator

_SLOPES = (-0.000790309791, 0.0746801222, 1.59411245)
"""The coefficients of p in gelu(x) = x sigmoid(x p(x^2)), the highest power first."""
_STEEP = 40.0
"""The square from which on p stays as it is: the polynomial turns around later."""
_ERF_SATURATED = 100.0
"""From this number on the complement of the error function is 0 in FP32."""


@pointwise_operator("LeakyRelu", temporaries=1, wide=True, types=FLOATS)
def _leaky_relu(vector: SliceVector, operands: list[Operand], call: Call) -> Value:
    """max(x, 0) + alpha * min(x, 0): one of the terms is zero, so the sum adds no rounding."""
    x, below = vector.data(operands[0]), vector.temporary("below")
    result = vector.result_of(operands[0])
    vector.vs("min", below, x, 0.0)
    vector.vs("mul", below, below, call.number("alpha"))
    vector.vs("max", result, x, 0.0)
    vector.vv("add", result, result, below)
    return result


@pointwise_operator("PRelu", temporaries=1, repeating=(1,), types=FLOATS)
def _prelu(vector: SliceVector, operands: list[Operand], call: Call) -> Value:
    """max(x, 0) + slope * min(x, 0): one of the terms is zero, so only the product is rounded."""
    x, below = vector.data(operands[0]), vector.temporary("below")
    result = vector.result_of(operands[0])
    vector.vs("min", below, x, 0.0)
    vector.apply("mul", below, below, operands[1])
    vector.vs("max", result, x, 0.0)
    vector.vv("add", result, result, below)
    return result


@pointwise_operator("Gelu", temporaries=3, wide=True, types=FLOATS)
def _gelu(vector: SliceVector, operands: list[Operand], call: Call) -> Value:
    """x/2 (1 + erf(x / sqrt 2)), or its approximation with tanh."""
    x = vector.writable(operands[0])
    if call.string("approximate") == "tanh":
        _gelu_by_tanh(vector, x, vector.temporary("e"))
    elif vector.kernel.target.compute.bits == 16:
        _gelu_by_sigmoid(vector, x, vector.temporary("square"), vector.temporary("e"))
    else:
        _gelu_by_erf(vector, x, vector.temporary("size"), vector.temporary("t"), vector.temporary("e"))
    return x


def _gelu_by_erf(vector: SliceVector, x: Value, magnitude: Value, t: Value, complement: Value) -> None:
    """(x + |x| - |x| (1 - erf(|x| / sqrt 2))) / 2: no difference of nearly equal numbers below zero."""
    vector.unary("abs", magnitude, x)
    vector.vv("add", x, x, magnitude)
    vector.vs("min", magnitude, magnitude, _ERF_SATURATED)
    erf_complement(vector, magnitude, t, complement, math.sqrt(0.5))
    vector.vv("mul", complement, complement, magnitude)
    vector.vv("sub", x, x, complement)
    vector.vs("mul", x, x, 0.5)


def _gelu_by_sigmoid(vector: SliceVector, x: Value, square: Value, factor: Value) -> None:
    """x sigmoid(x p(x^2)) for results of 16 bits: a result above 0.004 is off by at most 4.5e-4 of itself.

    ``p`` was fitted so that the largest such error is as small as possible; smaller results are off by at
    most 1.8e-6. Beyond ``_STEEP`` the sigmoid is 0 or 1, whatever its slope.
    """
    vector.unary("square", square, x)
    vector.vs("min", square, square, _STEEP)
    vector.vs("mul", factor, square, _SLOPES[0])
    for slope in _SLOPES[1:-1]:
        vector.vs("add", factor, factor, slope)
        vector.vv("mul", factor, factor, square)
    vector.vs("add", factor, factor, _SLOPES[-1])
    vector.vv("mul", factor, factor, x)
    vector.unary("sigmoid", factor, factor)
    vector.vv("mul", x, x, factor)


def _gelu_by_tanh(vector: SliceVector, x: Value, factor: Value) -> None:
    """x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))."""
    vector.unary("square", factor, x)
    vector.vs("mul", factor, factor, 0.044715)
    vector.vs("add", factor, factor, 1.0)
    vector.vv("mul", factor, factor, x)
    vector.vs("mul", factor, factor, math.sqrt(2.0 / math.pi))
    vector.unary("tanh", factor, factor)
    vector.vs("add", factor, factor, 1.0)
    vector.vs("mul", x, x, 0.5)
    vector.vv("mul", x, x, factor)


def _negative_part(vector: SliceVector, x: Value, inner: float, outer: float) -> Value:
    """outer * (exp(min(x, 0) / inner) - 1) in a new buffer.

    The quick exponential is off by |x| e**x 6e-8, far below the rounding of the difference.
    """
    below = vector.temporary("below")
    vector.vs("min", below, x, 0.0)
    if inner != 1.0:
        vector.vs("mul", below, below, 1.0 / inner)
    vector.unary("exp_lp", below, below)
    vector.vs("sub", below, below, 1.0)
    vector.vs("mul", below, below, outer)
    return below


@unary_operator("Elu", temporaries=1)
def _elu(vector: SliceVector, x: Value, call: Call) -> Value:
    below = _negative_part(vector, x, 1.0, call.number("alpha"))
    vector.vs("max", x, x, 0.0)
    vector.vv("add", x, x, below)
    return x


@unary_operator("Celu", temporaries=1)
def _celu(vector: SliceVector, x: Value, call: Call) -> Value:
    below = _negative_part(vector, x, call.number("alpha"), call.number("alpha"))
    vector.vs("max", x, x, 0.0)
    vector.vv("add", x, x, below)
    return x


@unary_operator("Selu", temporaries=1)
def _selu(vector: SliceVector, x: Value, call: Call) -> Value:
    x = _elu(vector, x, call)
    vector.vs("mul", x, x, call.number("gamma"))
    return x


def _clipped_line(vector: SliceVector, dst: Value, x: Value, slope: float, shift: float) -> None:
    """dst = slope x + shift between 0 and 1."""
    vector.vs("mul", dst, x, slope)
    vector.vs("add", dst, dst, shift)
    vector.vs("max", dst, dst, 0.0)
    vector.vs("min", dst, dst, 1.0)


@unary_operator("HardSigmoid")
def _hard_sigmoid(vector: SliceVector, x: Value, call: Call) -> Value:
    _clipped_line(vector, x, x, call.number("alpha"), call.number("beta"))
    return x


@unary_operator("HardSwish", temporaries=1)
def _hard_swish(vector: SliceVector, x: Value, call: Call) -> Value:
    gate = vector.temporary("gate")
    _clipped_line(vector, gate, x, 1.0 / 6.0, 0.5)
    vector.vv("mul", x, x, gate)
    return x


@unary_operator("Swish", temporaries=1)
def _swish(vector: SliceVector, x: Value, call: Call) -> Value:
    gate = vector.temporary("gate")
    vector.vs("mul", gate, x, call.number("alpha"))
    vector.unary("sigmoid", gate, gate)
    vector.vv("mul", x, x, gate)
    return x


@unary_operator("Mish", temporaries=1)
def _mish(vector: SliceVector, x: Value, call: Call) -> Value:
    gate = vector.temporary("gate")
    vector.unary("softplus", gate, x)
    vector.unary("tanh", gate, gate)
    vector.vv("mul", x, x, gate)
    return x


@unary_operator("Softsign", temporaries=1)
def _softsign(vector: SliceVector, x: Value, call: Call) -> Value:
    size = vector.temporary("size")
    vector.unary("abs", size, x)
    vector.vs("add", size, size, 1.0)
    vector.vv("div", x, x, size)
    return x


@unary_operator("ThresholdedRelu", temporaries=1)
def _thresholded_relu(vector: SliceVector, x: Value, call: Call) -> Value:
    mask = vector.temporary("mask")
    vector.vs("gt", mask, x, call.number("alpha"))
    vector.vv("mul", x, x, mask)
    return x


@unary_operator("Shrink", temporaries=3)
def _shrink(vector: SliceVector, x: Value, call: Call) -> Value:
    result, mask, moved = vector.temporary("result"), vector.temporary("mask"), vector.temporary("moved")
    bound, bias = call.number("lambd"), call.number("bias")
    vector.fill(result, 0.0)
    vector.vs("lt", mask, x, -bound)
    vector.vs("add", moved, x, bias)
    vector.choose(result, mask, moved)
    vector.vs("gt", mask, x, bound)
    vector.vs("sub", moved, x, bias)
    vector.choose(result, mask, moved)
    return result
