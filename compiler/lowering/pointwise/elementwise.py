"""Element-wise activations and arithmetic with broadcasting."""

from __future__ import annotations

import math

from compiler.codegen.expr import Value
from compiler.codegen.kernel import Kernel
from compiler.codegen.slices.vector import Vector
from compiler.dialect.orders import Order
from compiler.graph import FLOATS, INTEGERS
from compiler.lowering.record import Work, lowering
from compiler.operators.record import Call
from tx8isa.numbers.formats import Format

from . import integers as core
from .chain import lower_single, operator
from .pointwise import Formula, Operand, Pointwise, define

_FP32_MAX = 3.0e38

_INSTRUCTIONS = {
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


def _native(op: str, instruction: str) -> None:
    """An operator that is one instruction, in any format."""

    def body(f: Formula, operands: list[Operand], call: Call) -> Value:
        result = f.place(operands[0])
        f.v.unary(instruction, result, f.data(operands[0]))
        return result

    operator(Pointwise(op, body), types=FLOATS)


for _op, _instruction in _INSTRUCTIONS.items():
    _native(_op, _instruction)


def _exponential(f: Formula, operands: list[Operand], call: Call) -> Value:
    """The quick form is off by |x| 6e-8 of the result: nothing in 16 bits, where it takes a tenth."""
    result = f.place(operands[0])
    quick = f.v.fmt in (Format.FP16, Format.BF16)
    f.v.unary("exp_lp" if quick else "exp", result, f.data(operands[0]))
    return result


operator(Pointwise("Exp", _exponential), types=FLOATS)


def _leaky_relu(f: Formula, operands: list[Operand], call: Call) -> Value:
    """max(x, 0) + alpha * min(x, 0): one of the terms is zero, so the sum adds no rounding."""
    x, below = f.data(operands[0]), f.temporary("below")
    result = f.place(operands[0])
    f.v.vs("min", below, x, 0.0)
    f.v.vs("mul", below, below, call.number("alpha"))
    f.v.vs("max", result, x, 0.0)
    f.v.vv("add", result, result, below)
    return result


operator(Pointwise("LeakyRelu", _leaky_relu, 1, wide=True), types=FLOATS)


def _sloped(f: Formula, operands: list[Operand], call: Call) -> Value:
    """max(x, 0) + slope * min(x, 0): one of the terms is zero, so only the product is rounded."""
    x, below = f.data(operands[0]), f.temporary("below")
    result = f.place(operands[0])
    f.v.vs("min", below, x, 0.0)
    f.apply("mul", below, below, operands[1])
    f.v.vs("max", result, x, 0.0)
    f.v.vv("add", result, result, below)
    return result


operator(Pointwise("PRelu", _sloped, 1, repeating=(1,)), types=FLOATS)

# Abramowitz & Stegun, Handbook of Mathematical Functions, 7.1.26: |error| <= 1.5e-7.
_ERF_P = 0.3275911
_ERF_A = (0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429)
_FAR = 100.0
"""Beyond it the complement of the error function is 0 in FP32."""


def _erf_complement(v: Vector, size: Value, t: Value, e: Value, scale: float) -> None:
    """e = 1 - erf(scale x) for x >= 0 in ``size``: (a1 t + ... + a5 t^5) exp(-(scale x)^2).

    t = 1 / (1 + p scale x); its buffer is overwritten. The power of 2 costs a tenth of the exponential.
    """
    v.vs("mul", t, size, _ERF_P * scale)
    v.vs("add", t, t, 1.0)
    v.unary("recip", t, t)
    v.vs("mul", e, t, _ERF_A[-1])
    for coefficient in reversed(_ERF_A[:-1]):
        v.vs("add", e, e, coefficient)
        v.vv("mul", e, e, t)
    v.unary("square", t, size)
    v.vs("mul", t, t, -scale * scale * math.log2(math.e))
    v.unary("pow2", t, t)
    v.vv("mul", e, e, t)


def _sign(v: Vector, dst: Value, x: Value) -> None:
    """-1 or 1; between them only where |x| is below the smallest normal number, and 0 at 0."""
    v.vs("mul", dst, x, _FP32_MAX)
    v.vs("min", dst, dst, 1.0)
    v.vs("max", dst, dst, -1.0)


def _error_function(f: Formula, operands: list[Operand], call: Call) -> Value:
    """sign(x) (1 - (1 - erf |x|))."""
    x, v, t, e = f.data(operands[0]), f.v, f.temporary("t"), f.temporary("e")
    size = f.place(operands[0])
    sign = f.temporary("sign")
    _sign(v, sign, x)
    v.unary("abs", size, x)
    _erf_complement(v, size, t, e, 1.0)
    v.unary("neg", e, e)
    v.vs("add", e, e, 1.0)
    v.vv("mul", e, e, sign)
    return e


operator(Pointwise("Erf", _error_function, 3, wide=True), types=FLOATS)


def _gelu(f: Formula, operands: list[Operand], call: Call) -> Value:
    """x/2 (1 + erf(x / sqrt 2)), or its approximation with tanh."""
    x = f.own(operands[0])
    if call.string("approximate") == "tanh":
        _gelu_by_tanh(f.v, x, f.temporary("e"))
    else:
        _gelu_by_erf(f.v, x, f.temporary("size"), f.temporary("t"), f.temporary("e"))
    return x


def _gelu_by_erf(v: Vector, x: Value, size: Value, t: Value, e: Value) -> None:
    """(x + |x| - |x| (1 - erf(|x| / sqrt 2))) / 2: no difference of nearly equal numbers below zero."""
    v.unary("abs", size, x)
    v.vv("add", x, x, size)
    v.vs("min", size, size, _FAR)
    _erf_complement(v, size, t, e, math.sqrt(0.5))
    v.vv("mul", e, e, size)
    v.vv("sub", x, x, e)
    v.vs("mul", x, x, 0.5)


def _gelu_by_tanh(v: Vector, x: Value, e: Value) -> None:
    """x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))."""
    v.unary("square", e, x)
    v.vs("mul", e, e, 0.044715)
    v.vs("add", e, e, 1.0)
    v.vv("mul", e, e, x)
    v.vs("mul", e, e, math.sqrt(2.0 / math.pi))
    v.unary("tanh", e, e)
    v.vs("add", e, e, 1.0)
    v.vs("mul", x, x, 0.5)
    v.vv("mul", x, x, e)


operator(Pointwise("Gelu", _gelu, 3, wide=True), types=FLOATS)


def _chain(f: Formula, operands: list[Operand], name: str, commutative: bool) -> Value:
    """((a name b) name c) ...; where the order does not matter, from an operand that has data."""
    ordered = sorted(operands, key=lambda operand: operand.data is None) if commutative else operands
    first, *others = ordered
    if not others:
        return f.own(first)
    current = f.data(first)
    # Only with two operands is the second one not needed again once the result is begun.
    result = f.place(first, *others[:1]) if len(others) == 1 else f.place(first)
    for operand in others:
        f.apply(name, result, current, operand)
        current = result
    return result


_ARITHMETIC = {
    "Add": "add",
    "Sum": "add",
    "Sub": "sub",
    "Mul": "mul",
    "Div": "div",
    "Max": "max",
    "Min": "min",
}


def _arithmetic(op: str, name: str) -> None:
    def body(f: Formula, operands: list[Operand], call: Call) -> Value:
        return _chain(f, operands, name, entry.commutative)

    entry = define(Pointwise(op, body, chain=name))


for _op, _name in _ARITHMETIC.items():
    _arithmetic(_op, _name)


@lowering(*_ARITHMETIC, order=Order.FOLLOW, types=(*FLOATS, *INTEGERS))
def arithmetic(kernel: Kernel, work: Work) -> None:
    """Floats on the vector engine; integers are left to the kernel core."""
    if work.output.fmt.is_float:
        lower_single(kernel, work)
    else:
        core.arithmetic(kernel, work)
