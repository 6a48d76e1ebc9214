"""Element-wise formulas in FP32: functions of one operand, relations, logic, choice.

Integers are left to the kernel core (core.py), which registers the operators that take both.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from compiler.codegen.expr import Value
from compiler.operators.record import Call

from .chain import operator
from .pointwise import Formula, Operand, Pointwise, define


def formula(op: str, temporaries: int, body: Callable[[Formula, Value, Call], Value]) -> None:
    """Register an operator of one operand, which the body may overwrite."""

    def apply(f: Formula, operands: list[Operand], call: Call) -> Value:
        return body(f, f.own(operands[0]), call)

    operator(Pointwise(op, apply, temporaries, wide=True))


def _not(f: Formula, x: Value, call: Call) -> Value:
    f.v.unary("not", x, x)
    return x


formula("Not", 0, _not)


def _rounded(rounding: str) -> Callable[[Formula, Value, Call], Value]:
    def body(f: Formula, x: Value, call: Call) -> Value:
        f.whole_numbers(x, rounding)
        return x

    return body


formula("Ceil", 2, _rounded("rup"))
formula("Floor", 2, _rounded("rdn"))
formula("Round", 2, _rounded("rne"))


def _not_a_number(f: Formula, x: Value, call: Call) -> Value:
    f.v.vv("ne", x, x, x)
    return x


def _infinite(f: Formula, x: Value, call: Call) -> Value:
    """Only the signs asked for: the others are cut to 0 first."""
    if not call.integer("detect_negative"):
        f.v.vs("max", x, x, 0.0)
    if not call.integer("detect_positive"):
        f.v.vs("min", x, x, 0.0)
    f.v.unary("abs", x, x)
    f.v.vs("eq", x, x, math.inf)
    return x


formula("IsNaN", 0, _not_a_number)
formula("IsInf", 0, _infinite)


def _exponential_below(f: Formula, x: Value, inner: float, outer: float) -> Value:
    """outer * (exp(min(x, 0) / inner) - 1) in a new buffer.

    The quick exponential is off by |x| e**x 6e-8, far below the rounding of the difference.
    """
    below = f.temporary("below")
    f.v.vs("min", below, x, 0.0)
    if inner != 1.0:
        f.v.vs("mul", below, below, 1.0 / inner)
    f.v.unary("exp_lp", below, below)
    f.v.vs("sub", below, below, 1.0)
    f.v.vs("mul", below, below, outer)
    return below


def _elu(f: Formula, x: Value, call: Call) -> Value:
    below = _exponential_below(f, x, 1.0, call.number("alpha"))
    f.v.vs("max", x, x, 0.0)
    f.v.vv("add", x, x, below)
    return x


def _celu(f: Formula, x: Value, call: Call) -> Value:
    below = _exponential_below(f, x, call.number("alpha"), call.number("alpha"))
    f.v.vs("max", x, x, 0.0)
    f.v.vv("add", x, x, below)
    return x


def _selu(f: Formula, x: Value, call: Call) -> Value:
    x = _elu(f, x, call)
    f.v.vs("mul", x, x, call.number("gamma"))
    return x


formula("Elu", 1, _elu)
formula("Celu", 1, _celu)
formula("Selu", 1, _selu)


def _clipped_line(f: Formula, dst: Value, x: Value, slope: float, shift: float) -> None:
    """dst = slope x + shift between 0 and 1."""
    f.v.vs("mul", dst, x, slope)
    f.v.vs("add", dst, dst, shift)
    f.v.vs("max", dst, dst, 0.0)
    f.v.vs("min", dst, dst, 1.0)


def _hard_sigmoid(f: Formula, x: Value, call: Call) -> Value:
    _clipped_line(f, x, x, call.number("alpha"), call.number("beta"))
    return x


def _hard_swish(f: Formula, x: Value, call: Call) -> Value:
    gate = f.temporary("gate")
    _clipped_line(f, gate, x, 1.0 / 6.0, 0.5)
    f.v.vv("mul", x, x, gate)
    return x


def _swish(f: Formula, x: Value, call: Call) -> Value:
    gate = f.temporary("gate")
    f.v.vs("mul", gate, x, call.number("alpha"))
    f.v.unary("sigmoid", gate, gate)
    f.v.vv("mul", x, x, gate)
    return x


def _mish(f: Formula, x: Value, call: Call) -> Value:
    gate = f.temporary("gate")
    f.v.unary("softplus", gate, x)
    f.v.unary("tanh", gate, gate)
    f.v.vv("mul", x, x, gate)
    return x


def _softsign(f: Formula, x: Value, call: Call) -> Value:
    size = f.temporary("size")
    f.v.unary("abs", size, x)
    f.v.vs("add", size, size, 1.0)
    f.v.vv("div", x, x, size)
    return x


def _thresholded_relu(f: Formula, x: Value, call: Call) -> Value:
    mask = f.temporary("mask")
    f.v.vs("gt", mask, x, call.number("alpha"))
    f.v.vv("mul", x, x, mask)
    return x


def _shrink(f: Formula, x: Value, call: Call) -> Value:
    result, mask, moved = f.temporary("result"), f.temporary("mask"), f.temporary("moved")
    bound, bias = call.number("lambd"), call.number("bias")
    f.fill(result, 0.0)
    f.v.vs("lt", mask, x, -bound)
    f.v.vs("add", moved, x, bias)
    f.choose(result, mask, moved)
    f.v.vs("gt", mask, x, bound)
    f.v.vs("sub", moved, x, bias)
    f.choose(result, mask, moved)
    return result


formula("HardSigmoid", 0, _hard_sigmoid)
formula("HardSwish", 1, _hard_swish)
formula("Swish", 1, _swish)
formula("Mish", 1, _mish)
formula("Softsign", 1, _softsign)
formula("ThresholdedRelu", 1, _thresholded_relu)
formula("Shrink", 3, _shrink)


def _tan(f: Formula, x: Value, call: Call) -> Value:
    cosine = f.temporary("cosine")
    f.v.unary("cos", cosine, x)
    f.v.unary("sin", x, x)
    f.v.vv("div", x, x, cosine)
    return x


def _hyperbolic(sign: str) -> Callable[[Formula, Value, Call], Value]:
    def body(f: Formula, x: Value, call: Call) -> Value:
        """(exp(x) -+ exp(-x)) / 2."""
        other = f.temporary("other")
        f.v.unary("neg", other, x)
        f.v.unary("exp", other, other)
        f.v.unary("exp", x, x)
        f.v.vv(sign, x, x, other)
        f.v.vs("mul", x, x, 0.5)
        return x

    return body


def _sign(f: Formula, x: Value, call: Call) -> Value:
    below = f.temporary("below")
    f.v.vs("lt", below, x, 0.0)
    f.v.vs("gt", x, x, 0.0)
    f.v.vv("sub", x, x, below)
    return x


formula("Tan", 1, _tan)
formula("Sinh", 1, _hyperbolic("sub"))
formula("Cosh", 1, _hyperbolic("add"))
formula("Sign", 1, _sign)

RELATIONS = {
    "Equal": "eq",
    "Greater": "gt",
    "GreaterOrEqual": "ge",
    "Less": "lt",
    "LessOrEqual": "le",
    "And": "and",
    "Or": "or",
    "Xor": "xor",
}


def _relation(op: str, name: str) -> None:
    """A relation of floats or the logic of truth values."""

    def body(f: Formula, operands: list[Operand], call: Call) -> Value:
        a, b = operands
        result = f.place(a, b)
        f.v.vv(name, result, f.data(a), f.data(b))
        return result

    define(Pointwise(op, body, wide=True))


for _op, _name in RELATIONS.items():
    _relation(_op, _name)


def _where(f: Formula, operands: list[Operand], call: Call) -> Value:
    """The third operand, replaced by the second where the condition holds."""
    condition, chosen, otherwise = operands
    result = f.own(otherwise)
    f.choose(result, f.data(condition), f.data(chosen))
    return result


define(Pointwise("Where", _where, wide=True))


def _power(f: Formula, operands: list[Operand], call: Call) -> Value:
    """|x|**y as exp(y ln |x|); below zero only whole exponents have a value, and odd ones a sign."""
    (x, y), v = (f.data(operand) for operand in operands), f.v
    result, mask, half = f.temporary("result"), f.temporary("mask"), f.temporary("half")
    v.unary("abs", result, x)
    v.unary("log2", result, result)
    v.vv("mul", result, result, y)
    v.unary("pow2", result, result)
    f.copy(half, y)
    f.whole_numbers(half, "rdn")
    v.vv("ne", mask, half, y)
    _where_negative(f, mask, x, half)
    f.fill(half, math.nan)
    f.choose(result, mask, half)
    v.vs("mul", half, y, 0.5)
    f.whole_numbers(half, "rdn")
    v.vs("mul", half, half, 2.0)
    v.vv("sub", half, y, half)
    v.vs("eq", mask, half, 1.0)
    _where_negative(f, mask, x, half)
    v.unary("neg", half, result)
    f.choose(result, mask, half)
    v.vs("eq", mask, y, 0.0)
    f.fill(half, 1.0)
    f.choose(result, mask, half)
    return result


def _where_negative(f: Formula, mask: Value, x: Value, scratch: Value) -> None:
    """mask = mask and x < 0; ``scratch`` is overwritten."""
    f.v.vs("lt", scratch, x, 0.0)
    f.v.vv("mul", mask, mask, scratch)


operator(Pointwise("FloatPow", _power, 8, wide=True))


def _remainder(f: Formula, operands: list[Operand], call: Call) -> Value:
    """Mod: with fmod the sign is that of the dividend, else that of the divisor."""
    (x, y), v, fmod = (f.own(operand) for operand in operands), f.v, bool(call.integer("fmod"))
    down, below, mask, other = (f.temporary(name) for name in ("down", "below", "mask", "other"))
    v.vs("lt", down, x, 0.0)
    v.vs("lt", below, y, 0.0)
    v.unary("abs", x, x)
    v.unary("abs", y, y)
    _magnitude_left(f, x, y, mask, other)
    if not fmod:
        v.vv("ne", down, down, below)
        v.vs("ne", mask, x, 0.0)
        v.vv("mul", mask, mask, down)
        v.vv("sub", other, y, x)
        f.choose(x, mask, other)
    v.unary("neg", other, x)
    f.choose(x, down if fmod else below, other)
    return x


def _magnitude_left(f: Formula, x: Value, y: Value, mask: Value, other: Value) -> None:
    """x = what is left of x >= 0 after whole multiples of y >= 0; all of it if only y is infinite."""
    v, quotient = f.v, f.temporary("quotient")
    f.copy(other, x)
    v.vv("div", quotient, x, y)
    f.whole_numbers(quotient, "rtz")
    v.vv("mul", quotient, quotient, y)
    v.vv("sub", x, x, quotient)
    v.vs("eq", mask, y, math.inf)
    v.vs("ne", quotient, other, math.inf)
    v.vv("mul", mask, mask, quotient)
    f.choose(x, mask, other)
    v.vs("lt", mask, x, 0.0)  # the quotient was rounded up
    v.vv("add", other, x, y)
    f.choose(x, mask, other)


define(Pointwise("Mod", _remainder, 9, wide=True))
