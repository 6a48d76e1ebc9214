"""Pass ``layout_align``: a channel_norm is inserted where a value is not in the order that its user needs.

Each value and order has one channel_norm, after the operation that computes the value.
"""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from compiler.dialect.channel_norm import ChannelNormOp
from compiler.dialect.ops import LoadConstOp, OutputOp, TensorOperation
from compiler.dialect.orders import Order
from compiler.dialect.types import format_of, order_of, shape_of, tensor_type
from compiler.passes.base import Context, operations

from .layout_rules import full_shape, in_order, wanted


class LayoutAlignPass:
    """Inserts the changes of order that operands need."""

    name = "layout_align"

    def run(self, context: Context, module: ModuleOp) -> None:
        aligner = _Aligner(context)
        for operation in operations(module):
            for index in range(len(operation.operands)):
                aligner.align(operation, index)


class _Aligner:
    def __init__(self, context: Context) -> None:
        self.context = context
        self.made: dict[tuple[SSAValue, Order, int], SSAValue] = {}

    def align(self, operation: TensorOperation, index: int) -> None:
        value = operation.operands[index]
        if isinstance(operation, OutputOp):
            order: Order | None = Order.PLAIN
        else:
            order = wanted(operation, index, order_of(operation.results[0].type))
        if order is None or order_of(value.type) is order:
            return
        rank = len(shape_of(value.type))
        if isinstance(value.owner, LoadConstOp) and operation.results:
            rank = len(shape_of(operation.results[0].type))
        key = (value, order, rank)
        if key not in self.made:
            self.made[key] = self._normed(self._of_rank(value, rank), order)
        operation.operands[index] = self.made[key]

    def _of_rank(self, value: SSAValue, rank: int) -> SSAValue:
        """A value; a constant gets leading axes of 1 until it has ``rank`` axes."""
        if rank == len(shape_of(value.type)):
            return value
        assert isinstance(value.owner, LoadConstOp)
        name, shape = f"{value.owner.node.data}.rank{rank}", full_shape(value, rank)
        self.context.constants[name] = self.context.constants[value.owner.node.data].reshape(shape)
        made = LoadConstOp.create(
            result_types=[tensor_type(format_of(value.type), shape)], attributes={"node": StringAttr(name)}
        )
        Rewriter().insert_op(made, InsertPoint.after(value.owner))
        return made.results[0]

    def _normed(self, value: SSAValue, order: Order) -> SSAValue:
        owner = value.owner
        assert isinstance(owner, TensorOperation)
        made = ChannelNormOp.create(
            operands=[value],
            result_types=[in_order(value.type, order)],
            attributes={"node": StringAttr(owner.node.data)},
        )
        Rewriter().insert_op(made, InsertPoint.after(owner))
        return made.results[0]
