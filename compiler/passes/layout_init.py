"""Pass ``layout_init``: every value gets the order that the lowering of its operation prefers.

``layout_str`` of an operation says which, and ``follow`` where it is that of the operands.
"""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp, StringAttr

from compiler.lowering import Order
from compiler.passes.base import Context, operations
from compiler.passes.layout_rules import policy, set_order


class LayoutInitPass:
    """Gives every result its encoding and writes layout_str."""

    name = "layout_init"

    def run(self, context: Context, module: ModuleOp) -> None:
        for operation in operations(module):
            if operation.results:
                order = policy(operation)
                set_order(operation, Order.PLAIN if order is Order.FOLLOW else order)
                operation.attributes["layout_str"] = StringAttr(order.value)
