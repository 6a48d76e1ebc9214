"""The passes that turn a graph into a program.

``PIPELINE`` has them in the order in which they run. Folders hold the passes of one subject: ``layouts``,
``groups``, ``ddr``.
"""

from __future__ import annotations

from compiler.passes.ddr.barrier_opt import BarrierOptPass
from compiler.passes.ddr.ddr_reorder import DdrReorderPass
from compiler.passes.ddr.group_order import GroupOrderPass
from compiler.passes.ddr.state_update import StateUpdatePass
from compiler.passes.groups.group_cost import GroupCostPass
from compiler.passes.groups.group_load_store import GroupLoadStorePass
from compiler.passes.groups.group_mapping import GroupMappingPass
from compiler.passes.groups.group_opt import GroupOptPass
from compiler.passes.groups.group_pattern import GroupPatternPass
from compiler.passes.groups.group_stack import GroupStackPass
from compiler.passes.layouts.align_opt import AlignOptPass
from compiler.passes.layouts.cast import CastPass
from compiler.passes.layouts.cast_fusion import CastFusionPass
from compiler.passes.layouts.const_norm import ConstNormPass
from compiler.passes.layouts.cse import CsePass
from compiler.passes.layouts.import_graph import ImportPass
from compiler.passes.layouts.layout_align import LayoutAlignPass
from compiler.passes.layouts.layout_init import LayoutInitPass
from compiler.passes.layouts.layout_transmit import LayoutTransmitPass
from compiler.passes.layouts.move_const import MoveConstPass
from compiler.passes.ranges.sizes import SizesPass

from .base import Context, Pass
from .codegen import CodegenPass
from .rewrite import RewritePass

PIPELINE: tuple[Pass, ...] = (
    ImportPass(),
    RewritePass(),
    SizesPass(),
    CastPass(),
    LayoutInitPass(),
    LayoutTransmitPass(),
    LayoutAlignPass(),
    AlignOptPass(),
    CsePass(),
    MoveConstPass(),
    ConstNormPass(),
    CastFusionPass(),
    GroupPatternPass(),
    GroupOptPass(),
    GroupMappingPass(),
    GroupCostPass(),
    GroupStackPass(),
    GroupLoadStorePass(),
    GroupOrderPass(),
    StateUpdatePass(),
    DdrReorderPass(),
    BarrierOptPass(),
    CodegenPass(),
)
"""The passes in the order in which they run."""

__all__ = ["PIPELINE", "Context", "Pass"]
