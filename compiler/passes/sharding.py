"""Pass ``sharding``: how many tiles share each operation's work.

All of them may: which share of the work each of them has is the cut that ``group_cost`` decides, or the rule
of the lowering. Another rule implements ``Sharding`` and is given to the pass.
"""

from __future__ import annotations

from typing import Protocol

from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64

from compiler.dialect.ops import InputOp, LoadConstOp, OutputOp, TensorOperation
from compiler.passes.base import Context, is_alias, operations


class Sharding(Protocol):
    """Decides how many tiles an operation's items are dealt to."""

    def tiles(self, context: Context, operation: TensorOperation) -> int: ...


class RoundRobin:
    """All tiles of the program share every operation."""

    def tiles(self, context: Context, operation: TensorOperation) -> int:
        return context.tiles


class ShardingPass:
    """Writes tile_parallel and chip_parallel."""

    name = "sharding"

    def __init__(self, rule: Sharding | None = None) -> None:
        self.rule = rule if rule is not None else RoundRobin()

    def run(self, context: Context, module: ModuleOp) -> None:
        for operation in operations(module):
            if isinstance(operation, InputOp | LoadConstOp | OutputOp) or is_alias(operation):
                continue
            operation.attributes["tile_parallel"] = IntegerAttr(self.rule.tiles(context, operation), i64)
            operation.attributes["chip_parallel"] = IntegerAttr(1, i64)
