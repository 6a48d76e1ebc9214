"""Pointwise operators by themselves: a chain of one node."""

from __future__ import annotations

from collections.abc import Callable

from compiler.codegen.expr import Value
from compiler.codegen.kernel import Kernel
from compiler.dialect.orders import Order
from compiler.lowering.record import ChainNode, Engine, Work, lowering
from compiler.operators.record import Call

from .chain import FLOATS_AND_BOOL, Chain
from .chain_code import compute
from .record import Body, Operand, Pointwise, SliceVector, define


def lower_single(kernel: Kernel, work: Work) -> None:
    """The code of a pointwise operator that belongs to no chain."""
    # The first part of a tensor has the tensor's symbol, so the shape counts too.
    inputs = {(tensor.symbol, tensor.shape): tensor for tensor in work.inputs if tensor is not None}
    numbers = {key: number for number, key in enumerate(inputs)}
    operands = tuple(None if t is None else numbers[t.symbol, t.shape] for t in work.inputs)
    node = ChainNode(work.op, work.call, operands, work.output.fmt)
    compute(kernel, Chain(tuple(inputs.values()), (node,), work.output))


def pointwise_operator(
    op: str,
    *,
    temporaries: int = 0,
    wide: bool = False,
    repeating: tuple[int, ...] = (),
    types: tuple[str, ...] = FLOATS_AND_BOOL,
    long: bool = False,
) -> Callable[[Body], Body]:
    """Decorator: the function is the body of a pointwise operator, which needs no lowering but this.

    The parameters are those of :class:`Pointwise`; ``types`` are the element types it takes.
    """

    def register(body: Body) -> Body:
        define(Pointwise(op, body, temporaries, wide, repeating=repeating, long=long))
        lowering(op, order=Order.FOLLOW, types=types, engines=(Engine.VECTOR,))(lower_single)
        return body

    return register


UnaryBody = Callable[[SliceVector, Value, Call], Value]
"""Emits a function of one operand in FP32, whose buffer it may overwrite; returns the result's address."""


def unary_operator(op: str, temporaries: int = 0, long: bool = False) -> Callable[[UnaryBody], UnaryBody]:
    """Decorator: the function is the body of an operator of one operand; see :class:`Pointwise`."""

    def register(body: UnaryBody) -> UnaryBody:
        def apply(vector: SliceVector, operands: list[Operand], call: Call) -> Value:
            return body(vector, vector.writable(operands[0]), call)

        pointwise_operator(op, temporaries=temporaries, wide=True, long=long)(apply)
        return body

    return register
