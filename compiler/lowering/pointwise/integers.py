"""Integer arithmetic on the kernel core, which is slow; the engines compute only floats."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from compiler.codegen.kernel import Kernel
from compiler.codegen.slices.scalar import ScalarCode, element_of, offset_of
from compiler.codegen.slices.tensors import DdrTensor, broadcast_view, collapse, unravel, whole
from compiler.dialect.orders import Order
from compiler.graph import INTEGERS
from compiler.lowering.record import Work, always, lowering

ElementCode = Callable[[ScalarCode, list[str]], str]
"""Emits scalar code over the registers with one element of every operand; returns the result's register."""


def compute_elements(kernel: Kernel, operands: list[DdrTensor], target: DdrTensor, code: ElementCode) -> None:
    """Emit ``code`` in a loop over the elements of ``target``, to which the operands broadcast."""
    core = ScalarCode(kernel)
    views = [broadcast_view(tensor, target.shape) for tensor in operands]
    space = collapse(target.shape, (*views, whole(target)))
    with core.elements(target.size) as number:
        values = [core.load(view.tensor, element_of(view, space, number)) for view in space.views[:-1]]
        core.store(target, element_of(space.views[-1], space, number), code(core, values))


def two_operands(mnemonic: str) -> ElementCode:
    """The code of an instruction with two operands."""

    def code(core: ScalarCode, values: list[str]) -> str:
        core.emit(mnemonic, values[0], values[0], values[1])
        return values[0]

    return code


def extremum(branch: str) -> ElementCode:
    """The first operand where the branch is taken, else the second."""

    def code(core: ScalarCode, values: list[str]) -> str:
        core.emit(branch, values[0], values[1], "1f")
        core.emit("mv", values[0], values[1])
        core.kernel.out.label("1")
        return values[0]

    return code


_MOST_OPERANDS = 6
"""Operands whose elements are in registers at the same time."""


def fold_operands(kernel: Kernel, work: Work, code: ElementCode) -> None:
    """The code for two elements over all operands, from the first to the last; results wrap."""

    def chain(core: ScalarCode, values: list[str]) -> str:
        for other in values[1:]:
            code(core, [values[0], other])
        return values[0]

    operands = [tensor for tensor in work.inputs if tensor is not None]
    compute_elements(kernel, operands[:_MOST_OPERANDS], work.output, chain)
    for at in range(_MOST_OPERANDS, len(operands), _MOST_OPERANDS):  # a tile reads only results of its own
        compute_elements(kernel, [work.output, *operands[at : at + _MOST_OPERANDS]], work.output, chain)


def python_modulus(core: ScalarCode, values: list[str]) -> str:
    """The remainder with the sign of the divisor."""
    core.emit("rem", values[0], values[0], values[1])
    core.emit("beqz", values[0], "1f")
    sign = core.register()
    core.emit("xor", sign, values[0], values[1])
    core.emit("bgez", sign, "1f")
    core.emit("add", values[0], values[0], values[1])
    core.kernel.out.label("1")
    return values[0]


def _define_bitwise(op: str, mnemonic: str) -> None:
    """Define an operator on each bit."""

    def bitwise(kernel: Kernel, work: Work) -> None:
        fold_operands(kernel, work, two_operands(mnemonic))

    lowering(op, order=Order.FOLLOW, types=INTEGERS, on_core=always)(bitwise)


_define_bitwise("BitwiseAnd", "and")
_define_bitwise("BitwiseOr", "or")
_define_bitwise("BitwiseXor", "xor")


@lowering("BitwiseNot", order=Order.FOLLOW, types=INTEGERS, on_core=always)
def bitwise_not(kernel: Kernel, work: Work) -> None:
    """Every bit inverted."""

    def code(core: ScalarCode, values: list[str]) -> str:
        core.emit("not", values[0], values[0])
        return values[0]

    compute_elements(kernel, [work.input(0)], work.output, code)


@lowering("BitShift", order=Order.FOLLOW, types=INTEGERS, on_core=always)
def bit_shift(kernel: Kernel, work: Work) -> None:
    """Shift by the number of bits in the second operand; a shift by the width or more leaves only copies of
    the sign."""
    left = work.spec.string("direction") == "LEFT"

    def code(core: ScalarCode, values: list[str]) -> str:
        x, count = values
        # Compared as an unsigned number, a negative count is large too.
        core.emit("bltu", count, core.number(work.output.fmt.bits), "1f")
        core.emit("li", *((x, "0") if left else (count, "63")))
        core.kernel.out.label("1")
        core.emit("sll" if left else "sra", x, x, count)
        return x

    compute_elements(kernel, [work.input(0), work.input(1)], work.output, code)


@lowering("IntegerPow", order=Order.FOLLOW, types=INTEGERS, on_core=always)
def integer_pow(kernel: Kernel, work: Work) -> None:
    """Repeated multiplication."""

    def code(core: ScalarCode, values: list[str]) -> str:
        product = core.number(1)
        core.kernel.out.label("2")
        core.emit("blez", values[1], "1f")
        core.emit("mul", product, product, values[0])
        core.emit("addi", values[1], values[1], "-1")
        core.emit("j", "2b")
        core.kernel.out.label("1")
        return product

    compute_elements(kernel, [work.input(0), work.input(1)], work.output, code)


def integer_matmul(kernel: Kernel, work: Work) -> None:
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
