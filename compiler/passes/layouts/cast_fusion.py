"""Pass ``cast_fusion``: operations that can load and store FP32 take over the casts before and after them.

A cast from FP32 that only such an operation uses, and a cast of its result to FP32, then need no phase.
"""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp
from xdsl.rewriter import Rewriter

from compiler.dialect.ops import CastOp, NodeOperation
from compiler.dialect.types import format_of
from compiler.lowering import LOWERINGS
from compiler.passes.base import Context, operations
from tx8isa.numbers.formats import Format


class CastFusionPass:
    """Erases casts from and to FP32 before and after operations whose lowering ``rounds``."""

    name = "cast_fusion"

    def run(self, context: Context, module: ModuleOp) -> None:
        for operation in list(operations(module)):
            entry = LOWERINGS.get(operation.op)
            if isinstance(operation, NodeOperation) and entry is not None and entry.takes_fp32:
                _fuse_operands(operation)
                _fuse_result(operation)


def _fuse_operands(operation: NodeOperation) -> None:
    for at, value in enumerate(operation.operands):
        cast = value.owner
        alone = {use.operation for use in value.uses} == {operation}
        if isinstance(cast, CastOp) and alone and format_of(cast.operands[0].type) is Format.FP32:
            operation.operands[at] = cast.operands[0]
            if not value.uses:
                Rewriter.erase_op(cast)


def _fuse_result(operation: NodeOperation) -> None:
    result = operation.results[0]
    users = {use.operation for use in result.uses}
    cast = users.pop() if len(users) == 1 else None
    if not isinstance(cast, CastOp) or format_of(cast.results[0].type) is not Format.FP32:
        return
    wide = Rewriter.replace_value_with_new_type(result, cast.results[0].type)
    cast.results[0].replace_all_uses_with(wide)
    Rewriter.erase_op(cast)
