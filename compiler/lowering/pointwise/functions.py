"""Elementary functions: exponential, trigonometric and error function, powers, rounding, tests of numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence

from compiler.codegen.expr import Value
from compiler.graph import FLOATS
from compiler.operators.record import Call
from tx8isa.numbers.formats import Format

from .record import Operand, SliceVector
from .single import UnaryBody, pointwise_operator, unary_operator


def _define_single_instruction(op: str, instruction: str, long: bool = False) -> None:
    """Define an operator that is one instruction, in any format."""

    @pointwise_operator(op, types=FLOATS, long=long)
    def body(vector: SliceVector, operands: list[Operand], call: Call) -> Value:
        result = vector.result_of(operands[0])
        vector.unary(instruction, result, vector.data(operands[0]))
        return result


_define_single_instruction("Relu", "relu")
_define_single_instruction("Sigmoid", "sigmoid", long=True)
_define_single_instruction("Tanh", "tanh", long=True)
_define_single_instruction("Sqrt", "sqrt")
_define_single_instruction("Abs", "abs")
_define_single_instruction("Neg", "neg")
_define_single_instruction("Reciprocal", "recip")
_define_single_instruction("Log", "ln")
_define_single_instruction("Sin", "sin")
_define_single_instruction("Cos", "cos")
_define_single_instruction("Softplus", "softplus", long=True)


@pointwise_operator("Exp", types=FLOATS)
def _exponential(vector: SliceVector, operands: list[Operand], call: Call) -> Value:
    """``exp_lp`` for 16 bits: its relative error, |x| 6e-8, is below their rounding, its time a tenth."""
    result = vector.result_of(operands[0])
    quick = vector.fmt in (Format.FP16, Format.BF16)
    vector.unary("exp_lp" if quick else "exp", result, vector.data(operands[0]))
    return result


_ERF = (
    1.41852908e-7,
    -5.66848752e-6,
    8.76373997e-5,
    -6.19784848e-4,
    -1.91830596e-4,
    1.02769056e-1,
    1.12837927,
)
"""The coefficients of P in erf(x) = tanh(x P(x^2)), the highest power first (minimax)."""
_ERF_SATURATED = 16.0
"""The square beyond which P stays constant: tanh is 1 in FP32."""


def odd_polynomial(
    vector: SliceVector, dst: Value, x: Value, coefficients: Sequence[float], bound: float
) -> None:
    """dst = x P(min(x^2, bound)), which keeps NaN and infinities; the highest power of P comes first.

    Uses the temporary ``square``. ``dst`` is not ``x``.
    """
    square = vector.temporary("square")
    vector.vv("mul", square, x, x)
    vector.vs("min", square, square, bound)
    vector.vs("mul", dst, square, coefficients[0])
    for coefficient in coefficients[1:-1]:
        vector.vs("add", dst, dst, coefficient)
        vector.vv("mul", dst, dst, square)
    vector.vs("add", dst, dst, coefficients[-1])
    vector.vv("mul", dst, dst, x)


@pointwise_operator("Erf", temporaries=2, wide=True, types=FLOATS, long=True)
def _error_function(vector: SliceVector, operands: list[Operand], call: Call) -> Value:
    """The error function of each element."""
    return error_function(vector, vector.data(operands[0]))


def error_function(vector: SliceVector, x: Value) -> Value:
    """Returns the address of erf(x), a new buffer; its relative error is below 2^-21 (FP32)."""
    result = vector.temporary("result")
    odd_polynomial(vector, result, x, _ERF, _ERF_SATURATED)
    vector.unary("tanh", result, result)
    return result


def _rounded(rounding: str) -> UnaryBody:
    def body(vector: SliceVector, x: Value, call: Call) -> Value:
        vector.round_to_integer(x, rounding)
        return x

    return body


unary_operator("Ceil", temporaries=2)(_rounded("rup"))
unary_operator("Floor", temporaries=2)(_rounded("rdn"))
unary_operator("Round", temporaries=2)(_rounded("rne"))


@unary_operator("IsNaN")
def _not_a_number(vector: SliceVector, x: Value, call: Call) -> Value:
    vector.vv("ne", x, x, x)
    return x


@unary_operator("IsInf")
def _infinite(vector: SliceVector, x: Value, call: Call) -> Value:
    """1 for infinities of the signs that the attributes name; numbers with other signs become 0 first."""
    if not call.integer("detect_negative"):
        vector.vs("max", x, x, 0.0)
    if not call.integer("detect_positive"):
        vector.vs("min", x, x, 0.0)
    vector.unary("abs", x, x)
    vector.vs("eq", x, x, math.inf)
    return x


@unary_operator("Tan", temporaries=1)
def _tan(vector: SliceVector, x: Value, call: Call) -> Value:
    cosine = vector.temporary("cosine")
    vector.unary("cos", cosine, x)
    vector.unary("sin", x, x)
    vector.vv("div", x, x, cosine)
    return x


def _hyperbolic_cosine(vector: SliceVector, dst: Value, x: Value) -> None:
    """dst = g + 1 / (4 g) with g = exp(|x| / 2)^2 / 2; g is infinite only where the result is."""
    half = vector.temporary("half")
    vector.unary("abs", dst, x)
    vector.vs("mul", dst, dst, 0.5)
    vector.unary("exp", dst, dst)
    vector.vs("mul", half, dst, 0.5)
    vector.vv("mul", dst, dst, half)
    vector.unary("recip", half, dst)
    vector.vs("mul", half, half, 0.25)
    vector.vv("add", dst, dst, half)


@unary_operator("Cosh", temporaries=1)
def _cosh(vector: SliceVector, x: Value, call: Call) -> Value:
    _hyperbolic_cosine(vector, x, x)
    return x


@unary_operator("Sinh", temporaries=2)
def _sinh(vector: SliceVector, x: Value, call: Call) -> Value:
    """tanh(x) cosh(x), because a difference of exponentials would lose the digits of small numbers."""
    cosine = vector.temporary("cosine")
    _hyperbolic_cosine(vector, cosine, x)
    vector.unary("tanh", x, x)
    vector.vv("mul", x, x, cosine)
    return x


@unary_operator("Sign", temporaries=2)
def _sign(vector: SliceVector, x: Value, call: Call) -> Value:
    """(x > 0) - (x < 0); NaN stays."""
    below, sign = vector.temporary("below"), vector.temporary("sign")
    vector.vs("lt", below, x, 0.0)
    vector.vs("gt", sign, x, 0.0)
    vector.vv("sub", sign, sign, below)
    vector.vv("eq", below, x, x)
    vector.choose(x, below, sign)
    return x


@pointwise_operator("FloatPow", temporaries=8, wide=True)
def _power(vector: SliceVector, operands: list[Operand], call: Call) -> Value:
    """|x|**y as exp(y ln |x|). For finite x < 0 only whole powers have a value, and odd ones a sign."""
    x, y = (vector.data(operand) for operand in operands)
    result, mask, half = vector.temporary("result"), vector.temporary("mask"), vector.temporary("half")
    vector.unary("abs", result, x)
    vector.unary("log2", result, result)
    vector.vv("mul", result, result, y)
    vector.unary("pow2", result, result)
    vector.copy(half, y)
    vector.round_to_integer(half, "rdn")
    vector.vv("ne", mask, half, y)
    _where_negative(vector, mask, x, half)
    vector.vs("ne", half, x, -math.inf)
    vector.vv("mul", mask, mask, half)
    vector.fill(half, math.nan)
    vector.choose(result, mask, half)
    vector.vs("mul", half, y, 0.5)
    vector.round_to_integer(half, "rdn")
    vector.vs("mul", half, half, 2.0)
    vector.vv("sub", half, y, half)
    vector.vs("eq", mask, half, 1.0)
    _where_negative(vector, mask, x, half)
    vector.unary("neg", half, result)
    vector.choose(result, mask, half)
    vector.vs("eq", mask, y, 0.0)
    vector.fill(half, 1.0)
    vector.choose(result, mask, half)
    return result


def _where_negative(vector: SliceVector, mask: Value, x: Value, scratch: Value) -> None:
    """mask = mask and x < 0; ``scratch`` is overwritten."""
    vector.vs("lt", scratch, x, 0.0)
    vector.vv("mul", mask, mask, scratch)
