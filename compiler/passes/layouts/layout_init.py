"""Pass ``layout_init``: every value gets the order that the lowering of its operation prefers.

An operation that follows its operands is left in the plain order. Identities, which expansions leave, are
erased because they would influence the choice of orders.
"""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp
from xdsl.rewriter import Rewriter

from compiler.dialect.orders import Order
from compiler.passes.base import Context, operations

from .layout_rules import policy, set_order


class LayoutInitPass:
    """Sets the encoding of every result's type."""

    name = "layout_init"

    def run(self, context: Context, module: ModuleOp) -> None:
        for operation in operations(module):
            if operation.op == "Identity":
                operation.results[0].replace_all_uses_with(operation.operands[0])
                Rewriter.erase_op(operation)
            elif operation.results:
                order = policy(operation)
                set_order(operation, Order.PLAIN if order is Order.FOLLOW else order)
