"""Element-wise formulas in FP32: functions of one operand, relations, logic, choice.

Every operand is spread over the slab by the strides of the DMA and widened to FP32; a truth value is 1.0 or
0.0 there. The result is rounded once to its own format. Integers are left to the kernel core (core.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from compiler.codegen.expr import Value
from compiler.codegen.kernel import Kernel
from compiler.codegen.tensors import (
    DdrTensor,
    Slab,
    View,
    broadcast_view,
    collapse,
    load_slab,
    plan_slabs,
    slabs,
    store_slab,
    whole,
)
from compiler.codegen.vector import Vector, convert, narrowed, widened
from compiler.graph import FLOATS
from compiler.lowering.record import Order, Work, lowering
from compiler.operators.record import Call
from tx8isa.formats import Format

FLOATS_AND_BOOL = (*FLOATS, "bool")


@dataclass(frozen=True)
class Formula:
    """Emits a formula over FP32 data in place; ``temporary`` makes a buffer of the slab's size."""

    v: Vector
    temporary: Callable[[str], Value]

    def fill(self, dst: Value, value: float) -> None:
        self.v.k.emit("td.memset.fp32", dst=dst, value=value, n=self.v.n)

    def copy(self, dst: Value, src: Value) -> None:
        self.v.vs("max", dst, src, -math.inf)

    def choose(self, dst: Value, mask: Value, src: Value) -> None:
        """dst = src where the mask is 1."""
        self.v.k.emit("ct.maskmove.fp32", dst=dst, src0=src, src1=mask, n=self.v.n)

    def whole_numbers(self, x: Value, rounding: str) -> None:
        """x = x rounded to an integer: 1.5 * 2**23 added and taken away leaves no fraction below 2**22."""
        k, n = self.v.k, self.v.n
        small, result = self.temporary("small"), self.temporary("whole")
        self.v.unary("abs", small, x)
        self.v.vs("lt", small, small, 4194304.0)
        k.emit("ct.add.vs.fp32", dst=result, src0=x, src1=12582912.0, n=n, rnd=rounding)
        self.v.vs("sub", result, result, 12582912.0)
        self.choose(x, small, result)


Body = Callable[[Formula, list[Value]], Value]
"""Computes a result from FP32 operands, which it may overwrite, and says where it is."""


def evaluate(k: Kernel, operands: list[DdrTensor], target: DdrTensor, body: Body, temporaries: int) -> None:
    """The formula over the elements of ``target``, to which the operands broadcast."""
    views = [broadcast_view(tensor, target.shape) for tensor in operands]
    space = collapse(target.shape, (*views, whole(target)))
    each = sum(4 + tensor.bytes_each for tensor in operands) + 4 * temporaries + 4 + target.bytes_each
    plan = plan_slabs(space.sizes, max(k.budget // each - 512, 1), k.target.tiles)
    with slabs(k, space, plan) as slab:
        v = Vector(k, Format.FP32, slab.elements)
        data = [_loaded(k, view, slab, plan.elements) for view in space.views[:-1]]
        formula = Formula(v, lambda name: k.buffer(name, 4 * plan.elements))
        result = body(formula, data)
        store_slab(k, space.views[-1], slab, _stored(k, result, slab, plan.elements, target.fmt))


def _loaded(k: Kernel, view: View, slab: Slab, room: int) -> Value:
    fmt = view.tensor.fmt
    data = k.buffer("x", room * view.tensor.bytes_each)
    load_slab(k, view, slab, data)
    if fmt is not Format.INT8:
        return widened(k, data, slab.elements, room, fmt)
    wide = k.buffer("wide", 4 * room)
    convert(k, wide, data, slab.elements, fmt, Format.FP32)
    return wide


def _stored(k: Kernel, data: Value, slab: Slab, room: int, fmt: Format) -> Value:
    if fmt is not Format.INT8:
        return narrowed(k, data, slab.elements, room, fmt)
    narrow = k.buffer("narrow", room)
    convert(k, narrow, data, slab.elements, Format.FP32, fmt)
    return narrow


def formula(op: str, temporaries: int, body: Callable[[Formula, Value, Call], Value]) -> None:
    """Register an operator of one float operand."""

    @lowering(op, order=Order.FOLLOW, types=FLOATS_AND_BOOL)
    def lower(k: Kernel, work: Work) -> None:
        def apply(f: Formula, data: list[Value]) -> Value:
            return body(f, data[0], work.spec)

        evaluate(k, [work.input(0)], work.output, apply, temporaries)


def _unary(instruction: str) -> Callable[[Formula, Value, Call], Value]:
    def body(f: Formula, x: Value, call: Call) -> Value:
        f.v.unary(instruction, x, x)
        return x

    return body


for _op, _instruction in (
    ("Reciprocal", "recip"),
    ("Log", "ln"),
    ("Sin", "sin"),
    ("Cos", "cos"),
    ("Softplus", "softplus"),
    ("Not", "not"),
):
    formula(_op, 0, _unary(_instruction))


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
    """outer * (exp(min(x, 0) / inner) - 1) in a new buffer."""
    below = f.temporary("below")
    f.v.vs("min", below, x, 0.0)
    if inner != 1.0:
        f.v.vs("mul", below, below, 1.0 / inner)
    f.v.unary("exp", below, below)
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


def _clipped_line(f: Formula, x: Value, slope: float, shift: float) -> None:
    """x = slope x + shift between 0 and 1."""
    f.v.vs("mul", x, x, slope)
    f.v.vs("add", x, x, shift)
    f.v.vs("max", x, x, 0.0)
    f.v.vs("min", x, x, 1.0)


def _hard_sigmoid(f: Formula, x: Value, call: Call) -> Value:
    _clipped_line(f, x, call.number("alpha"), call.number("beta"))
    return x


def _hard_swish(f: Formula, x: Value, call: Call) -> Value:
    gate = f.temporary("gate")
    f.copy(gate, x)
    _clipped_line(f, gate, 1.0 / 6.0, 0.5)
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
formula("Abs", 0, _unary("abs"))
formula("Neg", 0, _unary("neg"))

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


def relation(k: Kernel, work: Work) -> None:
    """A relation of floats or the logic of truth values: 1.0 or 0.0, stored as a byte."""

    def body(f: Formula, data: list[Value]) -> Value:
        f.v.vv(RELATIONS[work.op], data[0], data[0], data[1])
        return data[0]

    evaluate(k, [work.input(0), work.input(1)], work.output, body, 0)


def choice(k: Kernel, work: Work) -> None:
    """Where of floats: the second operand, replaced by the first where the condition holds."""

    def body(f: Formula, data: list[Value]) -> Value:
        f.choose(data[2], data[0], data[1])
        return data[2]

    evaluate(k, [work.input(0), work.input(1), work.input(2)], work.output, body, 0)


def power(k: Kernel, work: Work) -> None:
    """|x|**y as exp(y ln |x|); below zero only whole exponents have a value, and odd ones a sign."""

    def body(f: Formula, data: list[Value]) -> Value:
        (x, y), v = data, f.v
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

    evaluate(k, [work.input(0), work.input(1)], work.output, body, 6)


def _where_negative(f: Formula, mask: Value, x: Value, scratch: Value) -> None:
    """mask = mask and x < 0; ``scratch`` is overwritten."""
    f.v.vs("lt", scratch, x, 0.0)
    f.v.vv("mul", mask, mask, scratch)


def remainder(k: Kernel, work: Work) -> None:
    """Mod of floats with fmod = 1: x - y trunc(x / y), with the sign of x."""

    def body(f: Formula, data: list[Value]) -> Value:
        (x, y), v = data, f.v
        quotient = f.temporary("quotient")
        v.vv("div", quotient, x, y)
        f.whole_numbers(quotient, "rtz")
        v.vv("mul", quotient, quotient, y)
        v.vv("sub", x, x, quotient)
        return x

    evaluate(k, [work.input(0), work.input(1)], work.output, body, 3)
