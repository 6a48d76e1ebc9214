"""Operators on the kernel core: integer arithmetic and casts of integers.

Slow beside the engines; the last resort for what they cannot do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from compiler.codegen.kernel import Kernel
from compiler.codegen.slices.scalar import ScalarCode, element_of, offset_of
from compiler.codegen.slices.tensors import (
    DdrTensor,
    View,
    broadcast_view,
    collapse,
    copy_views,
    unravel,
    whole,
)
from compiler.dialect.orders import Order
from compiler.graph import FLOATS, INTEGERS
from compiler.lowering.movement.movement import cast as cast_floats
from compiler.lowering.record import EVERY_TYPE, Work, lowering
from tx8isa.numbers.formats import Format

from . import formulas
from .chain import lower_single

NUMERIC_TYPES = (*FLOATS, *INTEGERS)
Step = Callable[[ScalarCode, list[str]], str]
"""Integer code over one element of every operand; says which register has the result."""


def evaluate(kernel: Kernel, operands: list[DdrTensor], target: DdrTensor, step: Step) -> None:
    """Integer code over every element of ``target``, to which the operands broadcast."""
    core = ScalarCode(kernel)
    views = [broadcast_view(tensor, target.shape) for tensor in operands]
    space = collapse(target.shape, (*views, whole(target)))
    with core.elements(target.size) as number:
        values = [core.load(view.tensor, element_of(view, space, number)) for view in space.views[:-1]]
        core.store(target, element_of(space.views[-1], space, number), step(core, values))


def _simple(mnemonic: str) -> Step:
    def step(core: ScalarCode, values: list[str]) -> str:
        core.emit(mnemonic, values[0], values[0], values[1])
        return values[0]

    return step


def _extremum(branch: str) -> Step:
    def step(core: ScalarCode, values: list[str]) -> str:
        core.emit(branch, values[0], values[1], "1f")
        core.emit("mv", values[0], values[1])
        core.kernel.out.label("1")
        return values[0]

    return step


def _python_modulus(core: ScalarCode, values: list[str]) -> str:
    """The remainder with the sign of the divisor."""
    core.emit("rem", values[0], values[0], values[1])
    core.emit("beqz", values[0], "1f")
    sign = core.register()
    core.emit("xor", sign, values[0], values[1])
    core.emit("bgez", sign, "1f")
    core.emit("add", values[0], values[0], values[1])
    core.kernel.out.label("1")
    return values[0]


ARITHMETIC: dict[str, Step] = {
    "Add": _simple("add"),
    "Sum": _simple("add"),
    "Sub": _simple("sub"),
    "Mul": _simple("mul"),
    "Div": _simple("div"),
    "Max": _extremum("bge"),
    "Min": _extremum("ble"),
    "BitwiseAnd": _simple("and"),
    "BitwiseOr": _simple("or"),
    "BitwiseXor": _simple("xor"),
}


_AT_ONCE = 6
"""Operands that have registers at the same time."""


def arithmetic(kernel: Kernel, work: Work) -> None:
    """A chain of an integer instruction over all operands, some at a time; results wrap."""

    def chain(core: ScalarCode, values: list[str]) -> str:
        for other in values[1:]:
            ARITHMETIC[work.op](core, [values[0], other])
        return values[0]

    operands = [tensor for tensor in work.inputs if tensor is not None]
    evaluate(kernel, operands[:_AT_ONCE], work.output, chain)
    for at in range(_AT_ONCE, len(operands), _AT_ONCE):  # each tile goes on with its own elements
        evaluate(kernel, [work.output, *operands[at : at + _AT_ONCE]], work.output, chain)


@lowering("BitwiseAnd", "BitwiseOr", "BitwiseXor", order=Order.FOLLOW, types=INTEGERS)
def bitwise(kernel: Kernel, work: Work) -> None:
    """Bit by bit."""
    arithmetic(kernel, work)


@lowering("BitwiseNot", order=Order.FOLLOW, types=INTEGERS)
def bitwise_not(kernel: Kernel, work: Work) -> None:
    """Every bit inverted."""

    def step(core: ScalarCode, values: list[str]) -> str:
        core.emit("not", values[0], values[0])
        return values[0]

    evaluate(kernel, [work.input(0)], work.output, step)


@lowering("BitShift", order=Order.FOLLOW, types=INTEGERS)
def bit_shift(kernel: Kernel, work: Work) -> None:
    """Shift by as many bits as the second operand says; outside the width only signs are left."""
    left = work.spec.string("direction") == "LEFT"

    def step(core: ScalarCode, values: list[str]) -> str:
        x, count = values
        core.emit("bltu", count, core.number(work.output.fmt.bits), "1f")  # as unsigned, negatives are large
        core.emit("li", *((x, "0") if left else (count, "63")))
        core.kernel.out.label("1")
        core.emit("sll" if left else "sra", x, x, count)
        return x

    evaluate(kernel, [work.input(0), work.input(1)], work.output, step)


@lowering("BitCast", order=Order.FOLLOW, types=EVERY_TYPE)
def bit_cast(kernel: Kernel, work: Work) -> None:
    """The bytes as they are; floats in their own format, whatever they are computed in."""
    from compiler.dialect.types import DTYPE_FORMATS

    source, target = work.input(0), work.output
    before = DTYPE_FORMATS[work.spec.tensor(0).dtype]
    after = DTYPE_FORMATS[_dtype_after(work)]
    bits = source if source.fmt is before else DdrTensor(_room(kernel, source, before), before, source.shape)
    if bits is not source:
        cast_floats(kernel, Work("", "tx8be.cast", None, (source,), bits))
        kernel.synchronize()
    result = target if target.fmt is after else DdrTensor(_room(kernel, target, after), after, target.shape)
    shared = replace(bits, fmt=after)
    copy_views(kernel, (target.size,), View(shared, (1,)), View(result, (1,)))
    if result is not target:
        kernel.synchronize()
        cast_floats(kernel, Work("", "tx8be.cast", None, (result,), target))


def _room(kernel: Kernel, like: DdrTensor, fmt: Format) -> str:
    return kernel.scratch("bits", like.size * fmt.bits // 8).symbol


@lowering("Mod", order=Order.FOLLOW, types=NUMERIC_TYPES)
def modulus(kernel: Kernel, work: Work) -> None:
    """fmod = 1: the sign of the dividend, else that of the divisor."""
    if work.output.fmt.is_float:
        lower_single(kernel, work)
        return
    step = _simple("rem") if work.spec.integer("fmod") else _python_modulus
    evaluate(kernel, [work.input(0), work.input(1)], work.output, step)


def _relation(op: str) -> Step:
    swapped, negated = op in ("Greater", "LessOrEqual"), op in ("GreaterOrEqual", "LessOrEqual", "Equal")

    def step(core: ScalarCode, values: list[str]) -> str:
        a, b = reversed(values) if swapped else values
        core.emit("xor" if op == "Equal" else "slt", a, a, b)
        if op == "Equal":
            core.emit("snez", a, a)
        if negated:
            core.emit("xori", a, a, "1")
        return a

    return step


@lowering(*formulas.RELATIONS, order=Order.FOLLOW, types=EVERY_TYPE)
def relation(kernel: Kernel, work: Work) -> None:
    """Floats and truth values on the vector engine, integers on the core."""
    tensor = work.spec.tensor(0)
    if tensor.dtype in INTEGERS:
        evaluate(kernel, [work.input(0), work.input(1)], work.output, _relation(work.op))
    else:
        lower_single(kernel, work)


@lowering("Where", order=Order.FOLLOW, types=EVERY_TYPE)
def where(kernel: Kernel, work: Work) -> None:
    """Floats by a masked move, anything else by the core."""
    if work.output.fmt.is_float:
        lower_single(kernel, work)
        return

    def step(core: ScalarCode, values: list[str]) -> str:
        core.emit("bnez", values[0], "1f")
        core.emit("mv", values[1], values[2])
        core.kernel.out.label("1")
        return values[1]

    evaluate(kernel, [work.input(0), work.input(1), work.input(2)], work.output, step)


@lowering("IntegerPow", order=Order.FOLLOW, types=INTEGERS)
def integer_pow(kernel: Kernel, work: Work) -> None:
    """Repeated products."""

    def step(core: ScalarCode, values: list[str]) -> str:
        product = core.number(1)
        core.kernel.out.label("2")
        core.emit("blez", values[1], "1f")
        core.emit("mul", product, product, values[0])
        core.emit("addi", values[1], values[1], "-1")
        core.emit("j", "2b")
        core.kernel.out.label("1")
        return product

    evaluate(kernel, [work.input(0), work.input(1)], work.output, step)


@lowering("Cast", order=Order.FOLLOW, types=EVERY_TYPE)
def cast(kernel: Kernel, work: Work) -> None:
    """Floats by the vector engine; to and from integers by way of FP32 and the core."""
    source, target = work.input(0), work.output
    before, after = work.spec.tensor(0).dtype, _dtype_after(work)
    if before == after or (source.fmt.is_float and target.fmt.is_float):
        cast_floats(kernel, work)
    elif after == "bool":
        _truth(kernel, source, target)
    elif source.fmt.is_float:
        single = source if source.fmt in (Format.FP32, Format.TF32) else words_like(kernel, source)
        if single is not source:
            cast_floats(kernel, Work("", "tx8be.cast", None, (source,), single))
            kernel.synchronize()
        evaluate(kernel, [single], target, _to_integer)
    elif target.fmt.is_float:
        single = target if target.fmt is Format.FP32 else words_like(kernel, target)
        evaluate(kernel, [source], single, _to_float)
        if single is not target:
            kernel.synchronize()
            cast_floats(kernel, Work("", "tx8be.cast", None, (single,), target))
    else:
        evaluate(kernel, [source], target, lambda core, values: values[0])


def _dtype_after(work: Work) -> str:
    from compiler.operators.elements.casting import cast_dtype

    return cast_dtype(work.spec)


def words_like(kernel: Kernel, like: DdrTensor) -> DdrTensor:
    """Room for a tensor of the same shape in FP32."""
    return DdrTensor(kernel.scratch("single", 4 * like.size).symbol, Format.FP32, like.shape)


def _truth(kernel: Kernel, source: DdrTensor, target: DdrTensor) -> None:
    if source.fmt.is_float:
        lower_single(kernel, Work("", "Cast", None, (source,), target))
        return

    def step(core: ScalarCode, values: list[str]) -> str:
        core.emit("snez", values[0], values[0])
        return values[0]

    evaluate(kernel, [source], target, step)


def _to_integer(core: ScalarCode, values: list[str]) -> str:
    """Toward zero, as ONNX says; what does not fit wraps, as in NumPy."""
    core.emit("fmv.w.x", "ft0", values[0])
    core.emit("fcvt.l.s", values[0], "ft0", "rtz")
    return values[0]


def _to_float(core: ScalarCode, values: list[str]) -> str:
    core.emit("fcvt.s.l", "ft0", values[0])
    core.emit("fmv.x.w", values[0], "ft0")
    return values[0]


@lowering("Expand", types=EVERY_TYPE)
def expand(kernel: Kernel, work: Work) -> None:
    """Reads with stride 0 where the operand broadcasts."""
    copy_views(
        kernel, work.output.shape, broadcast_view(work.input(0), work.output.shape), whole(work.output)
    )


def matmul(kernel: Kernel, work: Work) -> None:
    """A product of integer matrices, element by element."""
    a, b, target, core = work.input(0), work.input(1), work.output, ScalarCode(kernel)
    left = a.viewed(1, *a.shape) if len(a.shape) == 1 else a
    right = b.viewed(*b.shape, 1) if len(b.shape) == 1 else b
    batches = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    shape = (*batches, left.shape[-2], right.shape[-1])
    steps = [broadcast_view(tensor, (*batches, *tensor.shape[-2:])).strides for tensor in (left, right)]
    with core.elements(target.size) as number:
        index = unravel(number, shape)
        first = (
            kernel.let(offset_of([*index[:-1], 0], steps[0])),
            kernel.let(offset_of([*index[:-2], 0, index[-1]], steps[1])),
        )
        total = core.number(0)
        with kernel.loop(left.shape[-1]) as at:
            x = core.load(left, first[0] + at * steps[0][-1])
            y = core.load(right, first[1] + at * steps[1][-2])
            core.emit("mul", x, x, y)
            core.emit("add", total, total, x)
        core.store(target, number, total)
