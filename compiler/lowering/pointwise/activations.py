"""Activations that take several instructions."""

from __future__ import annotations

import math

from compiler.codegen.expr import Value
from compiler.graph import FLOATS
from compiler.operators.record import Call
from tx8isa.numbers.formats import Format

from .functions import odd_polynomial
from .record import Operand, SliceVector
from .single import pointwise_operator, unary_operator

_GELU_16_BITS = (-0.000790309791, 0.0746801222, 1.59411245)
"""The coefficients of P in gelu(x) = x sigmoid(x P(x^2)) for results of 16 bits, the highest power first.

A result above 0.004 is off by at most 4.5e-4 of itself, a smaller one by 1.8e-6 (minimax).
"""
_GELU = (
    3.51251122e-9,
    -2.64533062e-7,
    7.92957432e-6,
    -1.10612895e-4,
    -6.51886034e-5,
    7.26661677e-2,
    1.59576988,
)
"""The same for other results, whose error is at most 2^-25 x (minimax)."""
_GELU_SATURATED_16_BITS, _GELU_SATURATED = 40.0, 30.0
"""Square above which P stays constant, because the polynomial deviates there."""


@pointwise_operator("LeakyRelu", temporaries=2, wide=True, types=FLOATS)
def _leaky_relu(vector: SliceVector, operands: list[Operand], call: Call) -> Value:
    """The larger of x and alpha x, or the smaller one for an alpha above 1; NaN stays."""
    x, alpha = vector.data(operands[0]), call.number("alpha")
    scaled, result = vector.temporary("scaled"), vector.result_of(operands[0])
    vector.vs("mul", scaled, x, alpha)
    vector.vv("max" if alpha <= 1.0 else "min", result, x, scaled)
    return result


@pointwise_operator("PRelu", temporaries=2, repeating=(1,), types=FLOATS)
def _prelu(vector: SliceVector, operands: list[Operand], call: Call) -> Value:
    """x, or slope x where x < 0; NaN stays."""
    x, scaled, below = vector.writable(operands[0]), vector.temporary("scaled"), vector.temporary("below")
    vector.apply("mul", scaled, x, operands[1])
    vector.vs("lt", below, x, 0.0)
    vector.choose(x, below, scaled)
    return x


@pointwise_operator("Gelu", temporaries=2, wide=True, types=FLOATS, long=True)
def _gelu(vector: SliceVector, operands: list[Operand], call: Call) -> Value:
    """x/2 (1 + erf(x / sqrt 2)), or its approximation with tanh."""
    x, factor = vector.writable(operands[0]), vector.temporary("factor")
    if call.string("approximate") == "tanh":
        _gelu_by_tanh(vector, x, factor)
        return x
    if vector.kernel.target.compute.bits == 16:
        odd_polynomial(vector, factor, x, _GELU_16_BITS, _GELU_SATURATED_16_BITS)
    else:
        odd_polynomial(vector, factor, x, _GELU, _GELU_SATURATED)
    vector.unary("sigmoid", factor, factor)
    vector.vv("mul", x, x, factor)
    return x


def _gelu_by_tanh(vector: SliceVector, x: Value, factor: Value) -> None:
    """x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))."""
    vector.vv("mul", factor, x, x)
    vector.vs("mul", factor, factor, 0.044715)
    vector.vs("add", factor, factor, 1.0)
    vector.vv("mul", factor, factor, x)
    vector.vs("mul", factor, factor, math.sqrt(2.0 / math.pi))
    vector.unary("tanh", factor, factor)
    vector.vs("add", factor, factor, 1.0)
    vector.vs("mul", x, x, 0.5)
    vector.vv("mul", x, x, factor)


def _exponential_below_zero(vector: SliceVector, x: Value, inner: float, outer: float) -> Value:
    """x where it is above 0, else outer (exp(x / inner) - 1), in a new buffer; NaN stays.

    In other formats than FP16, exp(x) - 1 loses digits of numbers near 0. There it is computed as 2 t / (1 -
    t) with t = tanh(x / 2).
    """
    result, other = vector.temporary("result"), vector.temporary("other")
    if vector.kernel.target.compute is Format.FP16:
        vector.vs("mul", result, x, 1.0 / inner)
        vector.unary("exp_lp", result, result)
        vector.vs("sub", result, result, 1.0)
        vector.vs("mul", result, result, outer)
    else:
        vector.vs("mul", result, x, 0.5 / inner)
        vector.unary("tanh", result, result)
        vector.vs("sub", other, result, 1.0)
        vector.vv("div", result, result, other)
        vector.vs("mul", result, result, -2.0 * outer)
    vector.vs("gt", other, x, 0.0)
    vector.choose(result, other, x)
    return result


@unary_operator("Elu", temporaries=2, long=True)
def _elu(vector: SliceVector, x: Value, call: Call) -> Value:
    return _exponential_below_zero(vector, x, 1.0, call.number("alpha"))


@unary_operator("Celu", temporaries=2, long=True)
def _celu(vector: SliceVector, x: Value, call: Call) -> Value:
    return _exponential_below_zero(vector, x, call.number("alpha"), call.number("alpha"))


@unary_operator("Selu", temporaries=2, long=True)
def _selu(vector: SliceVector, x: Value, call: Call) -> Value:
    result = _elu(vector, x, call)
    vector.vs("mul", result, result, call.number("gamma"))
    return result


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


@unary_operator("Swish", temporaries=1, long=True)
def _swish(vector: SliceVector, x: Value, call: Call) -> Value:
    gate = vector.temporary("gate")
    vector.vs("mul", gate, x, call.number("alpha"))
    vector.unary("sigmoid", gate, gate)
    vector.vv("mul", x, x, gate)
    return x


@unary_operator("Mish", temporaries=1, long=True)
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


@unary_operator("ThresholdedRelu", temporaries=2)
def _thresholded_relu(vector: SliceVector, x: Value, call: Call) -> Value:
    """x where it is above alpha, else 0: a product with the mask would make infinities NaN."""
    result, mask = vector.temporary("result"), vector.temporary("mask")
    vector.fill(result, 0.0)
    vector.vs("gt", mask, x, call.number("alpha"))
    vector.choose(result, mask, x)
    return result


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
