"""The passes that turn a graph into a program, in the order in which they run."""

from __future__ import annotations

from compiler.passes.base import Context, Pass
from compiler.passes.cast import CastPass
from compiler.passes.codegen import CodegenPass
from compiler.passes.ddr import DdrPass
from compiler.passes.import_graph import ImportPass
from compiler.passes.layout import LayoutPass
from compiler.passes.sharding import ShardingPass

#: Names of the passes, for --print-ir-after.
PIPELINE: tuple[Pass, ...] = (
    ImportPass(),
    CastPass(),
    LayoutPass(),
    ShardingPass(),
    DdrPass(),
    CodegenPass(),
)

__all__ = ["PIPELINE", "Context", "Pass"]
