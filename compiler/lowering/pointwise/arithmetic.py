"""Arithmetic with broadcasting: floats on the vector engine, integers on the kernel core."""

from __future__ import annotations

import math

from compiler.codegen.expr import Value
from compiler.codegen.kernel import Kernel
from compiler.dialect.orders import Order
from compiler.graph import FLOATS, INTEGERS
from compiler.lowering.record import Engine, Work, lowering, of_integers
from compiler.operators.record import Call

from .integers import ElementCode, compute_elements, extremum, fold_operands, python_modulus, two_operands
from .record import Operand, Pointwise, SliceVector, define
from .single import lower_single

_NUMERIC_TYPES = (*FLOATS, *INTEGERS)


def _fold(vector: SliceVector, operands: list[Operand], instruction: str, commutative: bool) -> Value:
    """((a instruction b) instruction c) ...; if the order is free, an operand that has data comes first."""
    ordered = sorted(operands, key=lambda operand: operand.data is None) if commutative else operands
    first, *others = ordered
    if not others:
        return vector.writable(first)
    current = vector.data(first)
    # With more than two operands, the first instruction writes its result while the other operands are still
    # needed.
    result = vector.result_of(first, *others[:1]) if len(others) == 1 else vector.result_of(first)
    for operand in others:
        vector.apply(instruction, result, current, operand)
        current = result
    return result


def _define_arithmetic(op: str, instruction: str, code: ElementCode) -> None:
    """Define a fold of operands: floats on the vector engine, integers on the kernel core."""

    def body(vector: SliceVector, operands: list[Operand], call: Call) -> Value:
        return _fold(vector, operands, instruction, entry.commutative)

    entry = define(Pointwise(op, body, instruction=instruction))

    def arithmetic(kernel: Kernel, work: Work) -> None:
        if work.output.fmt.is_float:
            lower_single(kernel, work)
        else:
            fold_operands(kernel, work, code)

    lowering(op, order=Order.FOLLOW, types=_NUMERIC_TYPES, engines=(Engine.VECTOR,), on_core=of_integers)(
        arithmetic
    )


_define_arithmetic("Add", "add", two_operands("add"))
_define_arithmetic("Sum", "add", two_operands("add"))
_define_arithmetic("Sub", "sub", two_operands("sub"))
_define_arithmetic("Mul", "mul", two_operands("mul"))
_define_arithmetic("Div", "div", two_operands("div"))
_define_arithmetic("Max", "max", extremum("bge"))
_define_arithmetic("Min", "min", extremum("ble"))


def _float_modulus(vector: SliceVector, operands: list[Operand], call: Call) -> Value:
    """The remainder: with fmod its sign is that of the dividend, else that of the divisor."""
    x, y = (vector.writable(operand) for operand in operands)
    fmod = bool(call.integer("fmod"))
    down, below, mask, other = (vector.temporary(name) for name in ("down", "below", "mask", "other"))
    vector.vs("lt", down, x, 0.0)
    vector.vs("lt", below, y, 0.0)
    vector.unary("abs", x, x)
    vector.unary("abs", y, y)
    _magnitude_modulus(vector, x, y, mask, other)
    if not fmod:
        vector.vv("ne", down, down, below)
        vector.vs("ne", mask, x, 0.0)
        vector.vv("mul", mask, mask, down)
        vector.vv("sub", other, y, x)
        vector.choose(x, mask, other)
    vector.unary("neg", other, x)
    vector.choose(x, down if fmod else below, other)
    return x


def _magnitude_modulus(vector: SliceVector, x: Value, y: Value, mask: Value, other: Value) -> None:
    """x = x modulo y for x, y >= 0, which is x if only y is infinite; ``mask``, ``other`` are overwritten."""
    quotient = vector.temporary("quotient")
    vector.copy(other, x)
    vector.vv("div", quotient, x, y)
    vector.round_to_integer(quotient, "rtz")
    vector.vv("mul", quotient, quotient, y)
    vector.vv("sub", x, x, quotient)
    vector.vs("eq", mask, y, math.inf)
    vector.vs("ne", quotient, other, math.inf)
    vector.vv("mul", mask, mask, quotient)
    vector.choose(x, mask, other)
    vector.vs("lt", mask, x, 0.0)  # the quotient was rounded up
    vector.vv("add", other, x, y)
    vector.choose(x, mask, other)


define(Pointwise("Mod", _float_modulus, 9, wide=True))


@lowering("Mod", order=Order.FOLLOW, types=_NUMERIC_TYPES, engines=(Engine.VECTOR,), on_core=of_integers)
def modulus(kernel: Kernel, work: Work) -> None:
    """Remainder: with fmod = 1 it has the sign of the dividend, else that of the divisor."""
    if work.output.fmt.is_float:
        lower_single(kernel, work)
        return
    code = two_operands("rem") if work.spec.integer("fmod") else python_modulus
    compute_elements(kernel, [work.input(0), work.input(1)], work.output, code)
