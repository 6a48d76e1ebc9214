"""Element-wise operators with broadcasting.

The result is cut into slabs. An operand of the slab's shape is loaded as it is; one that repeats with a
period of at most 64 elements is the unit of a vuv instruction; any other is spread by the strides of the
DMA, 0 where it broadcasts. Formulas of several steps run in FP32 and are rounded once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from compiler.codegen.expr import Value
from compiler.codegen.kernel import Kernel
from compiler.codegen.tensors import (
    Slab,
    Space,
    View,
    broadcast_view,
    collapse,
    load_slab,
    plan_slabs,
    slabs,
    store_slab,
    whole,
)
from compiler.codegen.vector import WIDE, Vector, narrowed, widened
from compiler.graph import FLOATS, INTEGERS
from compiler.lowering import core
from compiler.lowering.record import Order, Work, lowering
from tx8isa.formats import Format

Formula = Callable[[Vector, Value, Callable[[str], Value]], None]
"""Computes in place: vector, data, and a function that makes a temporary buffer of the same size."""

_LARGEST_UNIT = 64
_FP32_MAX = 3.0e38


def _pointwise(k: Kernel, work: Work, formula: Formula, wide: bool, temporaries: int) -> None:
    """A formula of one operand over all its elements; ``wide``: in FP32."""
    fmt = work.output.fmt
    computed = Format.FP32 if wide else fmt
    space = collapse((work.output.size,), (View(work.input(0), (1,)), View(work.output, (1,))))
    narrow_bytes = 0 if fmt in WIDE or not wide else 2 * work.output.bytes_each
    each = computed.bits // 8 * (1 + temporaries) + narrow_bytes + work.output.bytes_each
    plan = plan_slabs(space.sizes, k.budget // each, k.target.tiles)
    with slabs(k, space, plan) as slab:
        n = slab.elements
        data: Value = k.buffer("x", plan.elements * work.output.bytes_each)
        load_slab(k, space.views[0], slab, data)
        if wide:
            data = widened(k, data, n, plan.elements, fmt)
        formula(Vector(k, computed, n), data, lambda name: k.buffer(name, 4 * plan.elements))
        if wide:
            data = narrowed(k, data, n, plan.elements, fmt)
        store_slab(k, space.views[1], slab, data)


def _native(op: str, instruction: str) -> None:
    """An operator that is one instruction."""

    @lowering(op, order=Order.FOLLOW)
    def lower(k: Kernel, work: Work) -> None:
        def formula(v: Vector, x: Value, temporary: Callable[[str], Value]) -> None:
            v.unary(instruction, x, x)

        _pointwise(k, work, formula, wide=False, temporaries=0)


for _op, _instruction in (
    ("Relu", "relu"),
    ("Sigmoid", "sigmoid"),
    ("Tanh", "tanh"),
    ("Exp", "exp"),
    ("Sqrt", "sqrt"),
):
    _native(_op, _instruction)


@lowering("LeakyRelu", order=Order.FOLLOW)
def leaky_relu(k: Kernel, work: Work) -> None:
    """max(x, 0) + alpha * min(x, 0): one of the terms is zero, so the sum adds no rounding."""
    alpha = work.spec.number("alpha")

    def formula(v: Vector, x: Value, temporary: Callable[[str], Value]) -> None:
        below = temporary("below")
        v.vs("min", below, x, 0.0)
        v.vs("mul", below, below, alpha)
        v.vs("max", x, x, 0.0)
        v.vv("add", x, x, below)

    _pointwise(k, work, formula, wide=True, temporaries=1)


# Abramowitz & Stegun, Handbook of Mathematical Functions, 7.1.26: |error| <= 1.5e-7.
_ERF_P = 0.3275911
_ERF_A = (0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429)


def _erf(v: Vector, x: Value, t: Value, e: Value) -> None:
    """e = erf(x) = sign(x) (1 - (a1 t + ... + a5 t^5) exp(-x^2)), t = 1 / (1 + p |x|); t is overwritten."""
    v.unary("abs", t, x)
    v.vs("mul", t, t, _ERF_P)
    v.vs("add", t, t, 1.0)
    v.unary("recip", t, t)
    v.vs("mul", e, t, _ERF_A[-1])
    for coefficient in reversed(_ERF_A[:-1]):
        v.vs("add", e, e, coefficient)
        v.vv("mul", e, e, t)
    v.unary("square", t, x)
    v.unary("neg", t, t)
    v.unary("exp", t, t)
    v.vv("mul", e, e, t)
    v.unary("neg", e, e)
    v.vs("add", e, e, 1.0)
    _sign(v, t, x)
    v.vv("mul", e, e, t)


def _sign(v: Vector, dst: Value, x: Value) -> None:
    """-1 or 1; between them only where |x| is below the smallest normal number, and 0 at 0."""
    v.vs("mul", dst, x, _FP32_MAX)
    v.vs("min", dst, dst, 1.0)
    v.vs("max", dst, dst, -1.0)


@lowering("Erf", order=Order.FOLLOW)
def erf(k: Kernel, work: Work) -> None:
    """Error function by a rational approximation in FP32."""

    def formula(v: Vector, x: Value, temporary: Callable[[str], Value]) -> None:
        t, e = temporary("t"), temporary("e")
        _erf(v, x, t, e)
        v.vs("mul", x, e, 1.0)

    _pointwise(k, work, formula, wide=True, temporaries=2)


@lowering("Gelu", order=Order.FOLLOW)
def gelu(k: Kernel, work: Work) -> None:
    """x/2 (1 + erf(x / sqrt 2)), or its approximation with tanh."""
    by_tanh = work.spec.string("approximate") == "tanh"

    def exact(v: Vector, x: Value, temporary: Callable[[str], Value]) -> None:
        scaled, t, e = temporary("scaled"), temporary("t"), temporary("e")
        v.vs("mul", scaled, x, math.sqrt(0.5))
        _erf(v, scaled, t, e)
        _half_of_one_plus(v, x, e)

    def approximate(v: Vector, x: Value, temporary: Callable[[str], Value]) -> None:
        e = temporary("e")
        v.unary("square", e, x)
        v.vs("mul", e, e, 0.044715)
        v.vs("add", e, e, 1.0)
        v.vv("mul", e, e, x)
        v.vs("mul", e, e, math.sqrt(2.0 / math.pi))
        v.unary("tanh", e, e)
        _half_of_one_plus(v, x, e)

    _pointwise(k, work, approximate if by_tanh else exact, wide=True, temporaries=1 if by_tanh else 3)


def _half_of_one_plus(v: Vector, x: Value, e: Value) -> None:
    """x = x/2 (1 + e)."""
    v.vs("add", e, e, 1.0)
    v.vs("mul", x, x, 0.5)
    v.vv("mul", x, x, e)


_BINARY = {"Add": "add", "Sum": "add", "Sub": "sub", "Mul": "mul", "Div": "div", "Max": "max", "Min": "min"}
_COMMUTATIVE = ("Add", "Sum", "Mul", "Max", "Min")


@dataclass(frozen=True)
class _Operand:
    """An operand in a slab: a known number, a unit that repeats, or as many elements as the slab has."""

    number: float | None = None
    view: View | None = None
    unit: int = 0


@lowering(*_BINARY, order=Order.FOLLOW, types=(*FLOATS, *INTEGERS))
def arithmetic(k: Kernel, work: Work) -> None:
    """A chain of a binary instruction over all operands; integers are left to the kernel core."""
    if not work.output.fmt.is_float:
        core.arithmetic(k, work)
        return
    tensors = [tensor for tensor in work.inputs if tensor is not None]
    views = [broadcast_view(tensor, work.output.shape) for tensor in tensors]
    space = collapse(work.output.shape, (*views, whole(work.output)))
    numbers = [_number(tensor.value) for tensor in tensors]
    buffers = 1 + sum(number is None for number in numbers)
    capacity = k.budget // (buffers * work.output.bytes_each) - 512
    plan = plan_slabs(space.sizes, max(capacity, 1), k.target.tiles)
    depth = plan.depth
    operands = [
        _operand(space, view, depth, number) for view, number in zip(space.views[:-1], numbers, strict=True)
    ]
    if work.op in _COMMUTATIVE:
        operands.sort(key=lambda operand: operand.view is None or operand.unit > 0)
    with slabs(k, space, plan) as slab:
        result = _loaded(k, work, operands[0], slab, plan.elements)
        for operand in operands[1:]:
            _apply(k, work, result, operand, slab, plan.elements)
        store_slab(k, space.views[-1], slab, result)


def _number(value: object) -> float | None:
    """The value of a constant operand of one element."""
    size = getattr(value, "size", 0)
    return float(value.reshape(())) if size == 1 else None  # type: ignore[attr-defined]


def _operand(space: Space, view: View, depth: int, number: float | None) -> _Operand:
    if number is not None:
        return _Operand(number=number)
    strides, inner = view.strides[-depth:], space.sizes[-1]
    if not any(strides):
        return _Operand(view=view, unit=1)
    if depth > 1 and not any(strides[:-1]) and strides[-1] == 1 and inner <= _LARGEST_UNIT:
        return _Operand(view=view, unit=inner)
    return _Operand(view=view)


def _loaded(k: Kernel, work: Work, operand: _Operand, slab: Slab, room: int) -> Value:
    """An operand spread over the whole slab."""
    data = k.buffer("a", room * work.output.bytes_each)
    if operand.view is None:
        zero = Vector(k, work.output.fmt, slab.elements)
        k.emit(f"td.memset.{work.output.fmt.token}", dst=data, value=float(operand.number or 0.0), n=zero.n)
    else:
        load_slab(k, operand.view, slab, data)
    return data


def _apply(k: Kernel, work: Work, result: Value, operand: _Operand, slab: Slab, room: int) -> None:
    """result = result op operand."""
    name, v = _BINARY[work.op], Vector(k, work.output.fmt, slab.elements)
    if operand.number is not None:
        v.vs(name, result, result, operand.number)
        return
    view = operand.view
    assert view is not None
    if not operand.unit:
        other = k.buffer("b", room * work.output.bytes_each)
        load_slab(k, view, slab, other)
        v.vv(name, result, result, other)
        return
    unit = k.buffer("unit", operand.unit * work.output.bytes_each)
    tensor = view.tensor
    k.emit(f"rdma.{tensor.fmt.token}", dst=unit, src=tensor.at(slab.first(view)), n=operand.unit)
    v.vuv(name, result, result, unit, operand.unit)
