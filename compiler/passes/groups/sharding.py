"""Pass ``sharding``: every operation is marked with the number of tiles and chips that it may use.

Today the pass decides nothing: the numbers are all tiles of the program, and one chip. How the work is
divided among the tiles is the cut that ``group_cost`` chooses, or the rule of the lowering.
"""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64

from compiler.dialect.ops import InputOp, LoadConstOp, OutputOp
from compiler.passes.base import Context, is_alias, operations


class ShardingPass:
    """Writes the attribute tile_parallel."""

    name = "sharding"

    def run(self, context: Context, module: ModuleOp) -> None:
        for operation in operations(module):
            if isinstance(operation, InputOp | LoadConstOp | OutputOp) or is_alias(operation):
                continue
            operation.attributes["tile_parallel"] = IntegerAttr(context.tiles, i64)
