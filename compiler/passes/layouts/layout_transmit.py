"""Pass ``layout_transmit``: operations that follow their operands get an order from their neighbours.

Orders are passed from convolutions and pools to their users, then back to earlier operations if that saves a
change of order. Then each operation takes the order with the cheapest changes around it, until nothing
improves.
"""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from compiler.dialect.ops import LoadConstOp, OutputOp, TensorOperation
from compiler.dialect.orders import Order
from compiler.dialect.types import order_of
from compiler.passes.base import Context, operations

from .layout_rules import ORDERS, fits, is_one, policy, price, set_order, wanted


class LayoutTransmitPass:
    """Gives operations that follow their operands an order."""

    name = "layout_transmit"

    def run(self, context: Context, module: ModuleOp) -> None:
        free = [op for op in operations(module) if op.results and policy(op) is Order.FOLLOW]
        for operation in free:
            set_order(operation, _from_operands(operation))
        for operation in reversed(free):
            if order_of(operation.results[0].type) is Order.PLAIN:
                set_order(operation, _from_users(operation))
        for _ in free:
            if not sum(map(_improve, free)):
                break


def _from_operands(operation: TensorOperation) -> Order:
    """The best order that an operation can compute in, if an operand has an order other than plain."""
    given = {order_of(value.type) for value in operation.operands}
    if given <= {Order.PLAIN} or operation.op == "Transpose":
        return Order.PLAIN
    return next(order for order in ORDERS if fits(operation, order))


def _from_users(operation: TensorOperation) -> Order:
    """The order that all users need, if it costs no more than the plain order."""
    orders = {_want(user, index) for user, index in _users(operation.results[0])} - {None}
    if len(orders) != 1:
        return Order.PLAIN
    (order,) = orders
    assert order is not None
    better = fits(operation, order) and _cost(operation, order) <= _cost(operation, Order.PLAIN)
    return order if better else Order.PLAIN


def _improve(operation: TensorOperation) -> bool:
    """Give an operation the order with the cheapest changes around it; returns True if the order is new."""
    present = order_of(operation.results[0].type)
    possible = [order for order in ORDERS if fits(operation, order)]
    best = min(possible, key=lambda order: _cost(operation, order))
    if _cost(operation, best) >= _cost(operation, present):
        return False
    set_order(operation, best)
    return True


def _cost(operation: TensorOperation, order: Order) -> int:
    """The cost of the changes of order that are needed because an operation computes in ``order``."""
    result = operation.results[0]
    total = 0
    for value in dict.fromkeys(operation.operands):
        if not isinstance(value.owner, LoadConstOp) and not is_one(value):
            others = _wants(use for use in _users(value) if use[0] is not operation)
            mine = {wanted(operation, index, order) for index in _positions(operation, value)}
            total += _changes(value, order_of(value.type), mine - others)
    return total + _changes(result, order, _wants(_users(result)))


def _changes(value: SSAValue, order: Order, orders: Iterable[Order | None]) -> int:
    return sum(price(value, order, other) for other in set(orders) if other is not None)


def _wants(uses: Iterable[tuple[TensorOperation, int]]) -> set[Order | None]:
    return {_want(user, index) for user, index in uses}


def _want(user: TensorOperation, index: int) -> Order | None:
    """The order in which a user needs an operand if it computes in its result's order."""
    if isinstance(user, OutputOp):
        return Order.PLAIN
    return wanted(user, index, order_of(user.results[0].type))


def _positions(operation: TensorOperation, value: SSAValue) -> list[int]:
    return [index for index, operand in enumerate(operation.operands) if operand is value]


def _users(value: SSAValue) -> list[tuple[TensorOperation, int]]:
    return [(use.operation, use.index) for use in value.uses if isinstance(use.operation, TensorOperation)]
