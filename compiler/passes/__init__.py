"""The passes that turn a graph into a program, in the order in which they run."""

from __future__ import annotations

from compiler.passes.align_opt import AlignOptPass
from compiler.passes.barrier_opt import BarrierOptPass
from compiler.passes.base import Context, Pass
from compiler.passes.cast import CastPass
from compiler.passes.cast_fusion import CastFusionPass
from compiler.passes.codegen import CodegenPass
from compiler.passes.const_norm import ConstNormPass
from compiler.passes.ddr_reorder import DdrReorderPass
from compiler.passes.group_cost import GroupCostPass
from compiler.passes.group_load_store import GroupLoadStorePass
from compiler.passes.group_mapping import GroupMappingPass
from compiler.passes.group_opt import GroupOptPass
from compiler.passes.group_order import GroupOrderPass
from compiler.passes.group_pattern import GroupPatternPass
from compiler.passes.group_stack import GroupStackPass
from compiler.passes.import_graph import ImportPass
from compiler.passes.layout_align import LayoutAlignPass
from compiler.passes.layout_init import LayoutInitPass
from compiler.passes.layout_transmit import LayoutTransmitPass
from compiler.passes.move_const import MoveConstPass
from compiler.passes.rewrite import RewritePass
from compiler.passes.sharding import ShardingPass

#: Names of the passes, for --print-ir-after.
PIPELINE: tuple[Pass, ...] = (
    ImportPass(),
    RewritePass(),
    CastPass(),
    LayoutInitPass(),
    LayoutTransmitPass(),
    LayoutAlignPass(),
    AlignOptPass(),
    MoveConstPass(),
    ConstNormPass(),
    CastFusionPass(),
    GroupPatternPass(),
    GroupOptPass(),
    GroupLoadStorePass(),
    ShardingPass(),
    GroupMappingPass(),
    GroupCostPass(),
    GroupStackPass(),
    GroupOrderPass(),
    DdrReorderPass(),
    BarrierOptPass(),
    CodegenPass(),
)

__all__ = ["PIPELINE", "Context", "Pass"]
