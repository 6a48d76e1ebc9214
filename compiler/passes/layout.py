"""Pass ``layout``: in which order of axes every value lies in DDR.

Convolutions, pools and batch normalizations work on channels-last tensors, because the engines' aligned
layout blocks the last axis. Element-wise operators follow their operands; all others use the order of the
specification. Where two orders meet, a transpose is inserted, once per value.
"""

from __future__ import annotations

import math

from xdsl.dialects.builtin import DenseArrayBase, ModuleOp, StringAttr, i64
from xdsl.ir import SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from compiler.dialect.ops import LoadConstOp, OutputOp, ReorderOp, TensorOperation
from compiler.dialect.types import format_of, order_of, shape_of, storage_permutation, tensor_type
from compiler.graph import Shape
from compiler.lowering import LOWERINGS, Order
from compiler.passes.base import Context, operations


class LayoutPass:
    """Gives every type its encoding and inserts transposes."""

    name = "layout"

    def run(self, context: Context, module: ModuleOp) -> None:
        orders = _Orders(context)
        for operation in operations(module):
            entry = LOWERINGS.get(operation.op)
            if isinstance(operation, OutputOp):
                orders.want(operation, 0, Order.PLAIN)
            elif operation.operands and entry is not None:
                orders.settle(operation, entry.order)
            if operation.results:
                operation.attributes["layout_str"] = StringAttr(order_of(operation.results[0].type).value)


class _Orders:
    def __init__(self, context: Context) -> None:
        self.context = context
        self.made: dict[tuple[SSAValue, Order], SSAValue] = {}

    def settle(self, operation: TensorOperation, policy: Order) -> None:
        """Bring the operands of an operation into its order."""
        rank = len(shape_of(operation.operands[0].type))
        order = Order.PLAIN
        if policy is Order.FOLLOW:
            order = self._common(operation)
            for index in range(len(operation.operands)):
                self.want(operation, index, order)
        elif policy is Order.CHANNELS_LAST and rank > 2:
            order = Order.CHANNELS_LAST
            for index in range(len(operation.operands)):
                self.want(operation, index, order if index == 0 else Order.PLAIN)
        else:
            for index in range(len(operation.operands)):
                self.want(operation, index, Order.PLAIN)
        result = operation.results[0]
        kind = tensor_type(format_of(result.type), shape_of(result.type), order)
        Rewriter.replace_value_with_new_type(result, kind)

    def _common(self, operation: TensorOperation) -> Order:
        """Channels last when an operand is, and all others can be brought there."""
        rank = len(shape_of(operation.results[0].type))
        orders = [order_of(value.type) for value in operation.operands]
        fits = all(
            len(shape_of(value.type)) == rank or _is_one(value) or isinstance(value.owner, LoadConstOp)
            for value in operation.operands
        )
        return Order.CHANNELS_LAST if Order.CHANNELS_LAST in orders and fits else Order.PLAIN

    def want(self, operation: TensorOperation, index: int, order: Order) -> None:
        """Make operand ``index`` lie in ``order``."""
        value = operation.operands[index]
        rank = len(shape_of(operation.results[0].type)) if operation.results else 0
        if order_of(value.type) is order or (_is_one(value) and order is Order.CHANNELS_LAST):
            return
        key = (value, order)
        if key not in self.made:
            if isinstance(value.owner, LoadConstOp):
                self.made[key] = self._constant(value, value.owner, order, rank)
            else:
                self.made[key] = _transposed(value, order)
        operation.operands[index] = self.made[key]

    def _constant(self, value: SSAValue, source: LoadConstOp, order: Order, rank: int) -> SSAValue:
        """The same constant with its data in another order, in full rank."""
        array = self.context.constants[source.node.data]
        shape: Shape = (1,) * (rank - array.ndim) + array.shape
        name = f"{source.node.data}.{order.value}"
        self.context.constants[name] = array.reshape(shape)
        made = LoadConstOp.create(
            result_types=[tensor_type(format_of(value.type), shape, order)],
            attributes={"node": StringAttr(name), "layout_str": StringAttr(order.value)},
        )
        Rewriter().insert_op(made, InsertPoint.after(source))
        return made.results[0]


def _transposed(value: SSAValue, order: Order) -> SSAValue:
    shape = shape_of(value.type)
    source = storage_permutation(len(shape), order_of(value.type))
    perm = [source.index(axis) for axis in storage_permutation(len(shape), order)]
    owner = value.owner
    assert isinstance(owner, TensorOperation)
    made = ReorderOp.create(
        operands=[value],
        result_types=[tensor_type(format_of(value.type), shape, order)],
        attributes={
            "node": StringAttr(owner.node.data),
            "perm": DenseArrayBase.from_list(i64, perm),
            "layout_str": StringAttr(order.value),
        },
    )
    Rewriter().insert_op(made, InsertPoint.after(owner))
    return made.results[0]


def _is_one(value: SSAValue) -> bool:
    """Whether a tensor has one element, which lies the same in every order."""
    return math.prod(shape_of(value.type)) == 1
