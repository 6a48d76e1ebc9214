"""The rules that the layout passes share: the orders in which operations take operands and give results."""

from __future__ import annotations

import math

from xdsl.ir import Attribute, SSAValue
from xdsl.rewriter import Rewriter

from compiler.dialect.attributes import decoded
from compiler.dialect.ops import CastOp, LoadConstOp, NodeOperation, TensorOperation
from compiler.dialect.orders import Order
from compiler.dialect.sizes import open_axes
from compiler.dialect.types import (
    blockable,
    format_of,
    integers_blockable,
    order_of,
    readable_as,
    shape_of,
    tensor_type,
)
from compiler.lowering import LOWERINGS
from compiler.lowering.pointwise.chain import CASTS
from compiler.lowering.pointwise.record import POINTWISE
from compiler.operators import OPERATORS

ORDERS = (Order.BLOCKED, Order.CHANNELS_LAST, Order.PLAIN)
"""The orders of an operation that follows its operands, the best one for the engines first."""

_QUANTISE, _CHANNEL_NORM = "QuantiseInt8", "tx8be.channel_norm"

_WIDEST = 32
"""Bits of the widest elements that a change of order moves."""

_TRANSPOSE, _REPACK = 2, 1
"""Relative cost of a change of order with a transposition, and of one without it or of integers."""


def policy(operation: TensorOperation) -> Order:
    """The order of the result that the lowering of an operation prefers; FOLLOW means the order of its
    operands."""
    if isinstance(operation, CastOp) or _gives_image(operation):
        return Order.FOLLOW
    if not isinstance(operation, NodeOperation) or not operation.operands:
        return Order.PLAIN
    entry, image = LOWERINGS[operation.op], operation.operands[0].type
    if entry.order is not Order.CHANNELS_LAST:
        return entry.order
    if len(shape_of(image)) <= 2:
        return Order.PLAIN
    of_integers = _makes_integers(operation.op) or in_integers(operation.results[0])
    blocked = entry.blocked and (of_integers or (blockable(image) and blockable(operation.results[0].type)))
    return Order.BLOCKED if blocked else Order.CHANNELS_LAST


def fits(operation: TensorOperation, order: Order) -> bool:
    """True if an operation that follows its operands can compute in an order."""
    result = operation.results[0].type
    if order is Order.PLAIN:
        return True
    if len(shape_of(result)) <= 2 or format_of(result).bits > _WIDEST:
        return False
    if operation.op == "Transpose":
        return order is Order.CHANNELS_LAST
    if order is Order.CHANNELS_LAST:
        rank = len(shape_of(result))
        return all(_is_flexible(value) or _rank(value) == rank for value in operation.operands)
    if not blockable(result) and not in_integers(operation.results[0]):
        return False
    if operation.op == "Concat":
        return _joins_channels(operation)
    if operation.op == "Slice":
        return _in_planes(operation.operands[0])
    pointwise = operation.op in POINTWISE or operation.op in CASTS
    return pointwise and all(_fits_blocked(value, result) for value in operation.operands)


def _moves(operation: TensorOperation) -> bool:
    """True if an operation follows its operands although their shapes differ from the result's."""
    return operation.op in OPERATORS and OPERATORS[operation.op].moves


def _joins_channels(operation: TensorOperation) -> bool:
    """True if a Concat joins channels of tensors that can all be blocked."""
    axis, rank = _attribute(operation, "axis"), _rank(operation.results[0])
    return axis in (1, 1 - rank) and all(map(_in_planes, operation.operands))


def _in_planes(value: SSAValue) -> bool:
    """True if a value can be stored in planes of channels."""
    return blockable(value.type) or in_integers(value)


def _gives_image(operation: TensorOperation) -> bool:
    """True if an operation is a Transpose of the last axis to axis 1: its result has the same bytes, channels
    last.
    """
    rank = _rank(operation.results[0]) if operation.op == "Transpose" else 0
    return rank > 2 and _attribute(operation, "perm") == (0, rank - 1, *range(1, rank - 1))


def _takes_image(operation: TensorOperation) -> bool:
    """True if an operation is a Transpose of axis 1 to the end: the bytes of the operand, channels last."""
    rank = _rank(operation.results[0]) if operation.op == "Transpose" else 0
    return rank > 2 and _attribute(operation, "perm") == (0, *range(2, rank), 1)


def _attribute(operation: TensorOperation, name: str) -> object:
    """An attribute of the graph node; None when it has none of that name."""
    given = operation.attributes_of_node.data if operation.attributes_of_node is not None else {}
    return decoded(given[name]) if name in given else None


def _fits_blocked(value: SSAValue, result: Attribute) -> bool:
    """True if a pointwise operation on blocked tensors can take an operand, blocked as well or broadcast."""
    if not format_of(value.type).is_float and not in_integers(value):
        return False
    return _is_flexible(value) or _rank(value) == len(shape_of(result))


def in_integers(value: SSAValue) -> bool:
    """True if a value has integers of an operator that can compute them in planes of channels."""
    owner = value.owner
    if not isinstance(owner, TensorOperation) or not integers_blockable(value.type):
        return False
    return _makes_integers(owner.op) or (_moves_integers(owner.op) and in_integers(owner.operands[0]))


def _makes_integers(op: str) -> bool:
    """True if results of an operator are integers that can be in planes of channels."""
    entry = LOWERINGS.get(op)
    stage = entry is not None and entry.stage and "int8" in entry.types
    return op == _QUANTISE or (stage and not OPERATORS[op].keeps_elements)


def _moves_integers(op: str) -> bool:
    """True if an operator moves or selects such integers without changing their places."""
    record, entry = OPERATORS.get(op), LOWERINGS.get(op)
    if record is None or entry is None:
        return op == _CHANNEL_NORM
    return (record.moves or record.keeps_elements) and entry.order is not Order.PLAIN


def full_shape(value: SSAValue, rank: int) -> tuple[int, ...]:
    """The shape of a value with leading ones up to ``rank`` axes, as operators broadcast it."""
    shape = shape_of(value.type)
    return (1,) * (rank - len(shape)) + shape


def wanted(operation: TensorOperation, index: int, order: Order) -> Order | None:
    """The order in which an operation that computes in ``order`` needs an operand; None if it accepts any."""
    value = operation.operands[index]
    if operation.op == "Transpose":
        is_alias = (
            order is Order.PLAIN and order_of(value.type) is not Order.PLAIN and _takes_image(operation)
        )
        return Order.CHANNELS_LAST if is_alias else Order.PLAIN
    if policy(operation) is not Order.FOLLOW:
        return order if index == 0 else Order.PLAIN
    if order is not Order.PLAIN and is_one(value):
        return None
    if order is not Order.BLOCKED or _moves(operation):
        return order
    result = shape_of(operation.results[0].type)
    return order if full_shape(value, len(result)) == result else Order.CHANNELS_LAST


def in_order(kind: Attribute, order: Order) -> Attribute:
    """The tensor type with its axes in another order."""
    return tensor_type(format_of(kind), shape_of(kind), order)


def set_order(operation: TensorOperation, order: Order) -> None:
    """Set the order of an operation's result."""
    result = operation.results[0]
    if order_of(result.type) is not order:
        Rewriter.replace_value_with_new_type(result, in_order(result.type, order))


def price(value: SSAValue, before: Order, after: Order) -> int:
    """The relative cost of bringing a value from one order to another."""
    kind = value.type
    if before is after or readable_as(in_order(kind, before), in_order(kind, after), open_axes(value)):
        return 0
    return _TRANSPOSE if Order.PLAIN in (before, after) and not in_integers(value) else _REPACK


def is_one(value: SSAValue) -> bool:
    """True if a tensor always has a single element, so that all orders are the same."""
    return math.prod(shape_of(value.type)) == 1 and not open_axes(value)


def _is_flexible(value: SSAValue) -> bool:
    """True if a value can have any order without cost."""
    return is_one(value) or _constant(value)


def _constant(value: SSAValue) -> bool:
    return isinstance(value.owner, LoadConstOp)


def _rank(value: SSAValue) -> int:
    return len(shape_of(value.type))
