"""Pass ``const_norm``: order and format of constants are changed when compiling, not by the program."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp
from xdsl.rewriter import InsertPoint, Rewriter

from compiler.dialect.channel_norm import ChannelNormOp
from compiler.dialect.ops import CastOp, LoadConstOp
from compiler.passes.base import Context, operations


class ConstNormPass:
    """Replaces every channel_norm and cast of a constant by a constant of the result's type.

    The data of a constant keeps the shape and the precision that it has in the graph; its type says how it is
    stored.
    """

    name = "const_norm"

    def run(self, context: Context, module: ModuleOp) -> None:
        for operation in operations(module):
            if not isinstance(operation, ChannelNormOp | CastOp):
                continue
            source = operation.operands[0].owner
            if isinstance(source, LoadConstOp):
                _fold(operation, source)


def _fold(change: ChannelNormOp | CastOp, source: LoadConstOp) -> None:
    kind = change.results[0].type
    made = LoadConstOp.create(result_types=[kind], attributes={"node": source.node})
    Rewriter().insert_op(made, InsertPoint.after(source))
    change.results[0].replace_all_uses_with(made.results[0])
    Rewriter.erase_op(change)
    if not source.results[0].uses:
        Rewriter.erase_op(source)
