"""Pass ``align_opt``: consecutive changes of order and format are merged, and unused ones erased.

Two changes of order become one, or none if the second undoes the first. A cast before or after a change of
order is merged with it, so that a graph input in FP32 is read only once on its way to the engines.
"""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp
from xdsl.rewriter import InsertPoint, Rewriter

from compiler.dialect.channel_norm import ChannelNormOp
from compiler.dialect.ops import CastOp, LoadConstOp
from compiler.dialect.sizes import open_axes
from compiler.dialect.types import format_of, order_of, readable_as
from compiler.passes.base import Context, operations

_Change = ChannelNormOp | CastOp


class AlignOptPass:
    """Merges chains of channel_norm and cast, and erases operations and constants that then have no user."""

    name = "align_opt"

    def run(self, context: Context, module: ModuleOp) -> None:
        for operation in operations(module):
            if isinstance(operation, _Change) and isinstance(operation.operands[0].owner, _Change):
                _merge(operation, operation.operands[0].owner)
        for operation in reversed(list(operations(module))):
            unused = operation.results and not any(result.uses for result in operation.results)
            if unused and isinstance(operation, _Change | LoadConstOp):
                Rewriter.erase_op(operation)


def _merge(second: _Change, first: _Change) -> None:
    """Replace two operations by one if the result is the same and the one moves less data."""
    source, between, result = first.operands[0], first.results[0], second.results[0]
    if _converts(first) and _converts(second):
        return  # rounding twice gives other values than rounding once
    if source.type == result.type:
        result.replace_all_uses_with(source)
        return
    axes = open_axes(source)
    free = readable_as(source.type, between.type, axes) or readable_as(between.type, result.type, axes)
    if free or len(list(between.uses)) > 1:
        return
    kind = CastOp if order_of(source.type) is order_of(result.type) else ChannelNormOp
    made = kind.create(operands=[source], result_types=[result.type], attributes=dict(second.attributes))
    Rewriter().insert_op(made, InsertPoint.before(second))
    result.replace_all_uses_with(made.results[0])


def _converts(change: _Change) -> bool:
    return format_of(change.operands[0].type) is not format_of(change.results[0].type)
