"""Pass ``align_opt``: changes of order that another makes unnecessary are erased.

One behind another becomes one, and none if it leads back to where it came from; a cast beside one is done by
it, so that a graph input in FP32 is read once on its way to the engines.
"""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp
from xdsl.rewriter import InsertPoint, Rewriter

from compiler.dialect.channel_norm import ChannelNormOp
from compiler.dialect.ops import CastOp, LoadConstOp
from compiler.dialect.types import format_of, lies_alike, order_of
from compiler.passes.base import Context, operations

_Change = ChannelNormOp | CastOp


class AlignOptPass:
    """Merges chains of channel_norm and cast, and erases what then has no user."""

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
    """Let one operation do what two do, where that is the same and less."""
    source, between, result = first.operands[0], first.results[0], second.results[0]
    if _converts(first) and _converts(second):
        return  # two roundings are not one
    if source.type == result.type:
        result.replace_all_uses_with(source)
        return
    free = lies_alike(source.type, between.type) or lies_alike(between.type, result.type)
    if free or len(list(between.uses)) > 1:
        return
    kind = CastOp if order_of(source.type) is order_of(result.type) else ChannelNormOp
    made = kind.create(operands=[source], result_types=[result.type], attributes=dict(second.attributes))
    Rewriter().insert_op(made, InsertPoint.before(second))
    result.replace_all_uses_with(made.results[0])


def _converts(change: _Change) -> bool:
    return format_of(change.operands[0].type) is not format_of(change.results[0].type)
