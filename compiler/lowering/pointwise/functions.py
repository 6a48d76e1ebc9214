"""Elementary functions: exponential, trigonometric and error function, powers, rounding, tests of numbers."""

from __future__ import annotations

import math

from compiler.codegen.expr import Value
from compiler.graph import FLOATS
from compiler.operators.record import Call
from tx8isa.numbers.formats import Format

from .record import Operand, SliceVector
from .single import UnaryBody, pointwise_operator, unary_operator

_FP32_MAX = 3.0e38


_SINGLE_INSTRUCTIONS = {
    "Relu": "relu",
    "Sigmoid": "sigmoid",
    "Tanh": "tanh",
    "Sqrt": "sqrt",
    "Abs": "abs",
    "Neg": "neg",
    "Reciprocal": "recip",
    "Log": "ln",
    "Sin": "sin",
    "Cos": "cos",
    "Softplus": "softplus",
}


def _define_single_instruction(op: str, instruction: str) -> None:
    """Define an operator that is one instruction, in any format."""

    @pointwise_operator(op, types=FLOATS)
    def body(vector: SliceVector, operands: list[Operand], call: Call) -> Value:
        result = vector.result_of(operands[0])
        vector.unary(instruction, result, vector.data(operands[0]))
        return result


for _op, _instruction in _SINGLE_INSTRUCTIONS.items():
    _define_single_instruction(_op, _instruction)


@pointwise_operator("Exp", types=FLOATS)
def _exponential(vector: SliceVector, operands: list[Operand], call: Call) -> Value:
    """``exp_lp`` for 16 bits: its relative error, |x| 6e-8, is below their rounding, its time a tenth."""
    result = vector.result_of(operands[0])
    quick = vector.fmt in (Format.FP16, Format.BF16)
    vector.unary("exp_lp" if quick else "exp", result, vector.data(operands[0]))
    return result


# Abramowitz & Stegun, Handbook of Mathematical Functions, 7.1.26: |error| <= 1.5e-7.
_ERF_P = 0.3275911
_ERF_A = (0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429)


def erf_complement(vector: SliceVector, x: Value, t: Value, result: Value, scale: float) -> None:
    """result = 1 - erf(scale x) for x >= 0: (a1 t + ... + a5 t^5) exp(-(scale x)^2), t = 1 / (1 + p scale x).

    ``t`` is a buffer that is overwritten. The exponential is a power of 2, which takes a tenth of its time.
    """
    vector.vs("mul", t, x, _ERF_P * scale)
    vector.vs("add", t, t, 1.0)
    vector.unary("recip", t, t)
    vector.vs("mul", result, t, _ERF_A[-1])
    for coefficient in reversed(_ERF_A[:-1]):
        vector.vs("add", result, result, coefficient)
        vector.vv("mul", result, result, t)
    vector.unary("square", t, x)
    vector.vs("mul", t, t, -scale * scale * math.log2(math.e))
    vector.unary("pow2", t, t)
    vector.vv("mul", result, result, t)


def _sign_factor(vector: SliceVector, dst: Value, x: Value) -> None:
    """dst = the sign of x, -1 or 1; less where |x| is below the smallest normal number, and 0 at 0."""
    vector.vs("mul", dst, x, _FP32_MAX)
    vector.vs("min", dst, dst, 1.0)
    vector.vs("max", dst, dst, -1.0)


@pointwise_operator("Erf", temporaries=3, wide=True, types=FLOATS)
def _error_function(vector: SliceVector, operands: list[Operand], call: Call) -> Value:
    """The error function of each element."""
    return error_function(vector, vector.data(operands[0]), vector.result_of(operands[0]))


def error_function(vector: SliceVector, x: Value, size: Value) -> Value:
    """The address of sign(x) (1 - (1 - erf |x|)); ``size`` is a buffer that is overwritten, maybe ``x``."""
    t, e = vector.temporary("t"), vector.temporary("e")
    sign = vector.temporary("sign")
    _sign_factor(vector, sign, x)
    vector.unary("abs", size, x)
    erf_complement(vector, size, t, e, 1.0)
    vector.unary("neg", e, e)
    vector.vs("add", e, e, 1.0)
    vector.vv("mul", e, e, sign)
    return e


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
    """1 for infinities of the signs that the attributes name; numbers of other signs become 0 first."""
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


def _hyperbolic(instruction: str) -> UnaryBody:
    """(exp(x) - exp(-x)) / 2 or (exp(x) + exp(-x)) / 2."""

    def body(vector: SliceVector, x: Value, call: Call) -> Value:
        other = vector.temporary("other")
        vector.unary("neg", other, x)
        vector.unary("exp", other, other)
        vector.unary("exp", x, x)
        vector.vv(instruction, x, x, other)
        vector.vs("mul", x, x, 0.5)
        return x

    return body


unary_operator("Sinh", temporaries=1)(_hyperbolic("sub"))
unary_operator("Cosh", temporaries=1)(_hyperbolic("add"))


@unary_operator("Sign", temporaries=1)
def _sign(vector: SliceVector, x: Value, call: Call) -> Value:
    below = vector.temporary("below")
    vector.vs("lt", below, x, 0.0)
    vector.vs("gt", x, x, 0.0)
    vector.vv("sub", x, x, below)
    return x


@pointwise_operator("FloatPow", temporaries=8, wide=True)
def _power(vector: SliceVector, operands: list[Operand], call: Call) -> Value:
    """|x|**y as exp(y ln |x|); for negative x only whole exponents have a value, and odd ones a sign."""
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
