"""Stacks of convolutions and pools in one phase: intermediate values stay in the scratchpad.

A tile has a share of the images and of the rows of the result. For each block of rows it loads the inputs of
the first stages, computes the rows of each stage in turn (``stages``), and stores the result. The weights of
all stages are one run of bytes, which the tiles read once together or each by itself, before the first block.
"""

from __future__ import annotations

from compiler.codegen.expr import maximum, minimum
from compiler.codegen.kernel import Kernel
from compiler.codegen.slices.shards import Shard, coordinates, shard_of, slices, within
from compiler.codegen.spm import SpmOverflow
from compiler.codegen.teams.gather import Gather, enter, meet_all
from compiler.codegen.teams.team import TileGrid, sending_to
from compiler.dialect.orders import Order
from compiler.evaluation.sizes import ever
from compiler.lowering.conv.plan import WEIGHTS
from compiler.lowering.record import Engine, SequenceWork, lowering
from tx8isa.numbers.division import ceil_div

from .constants import StackWeights, biases_of, weights_run
from .cuts import BETWEEN, HALO, gathered_cut, plans, stack_cuts, stack_details, stack_plan
from .gathered import gathered_stack
from .halo import halo_stack
from .rows import RowPhase
from .stages import stages_of
from .values import StackBlock


@lowering(
    "Stack",
    order=Order.CHANNELS_LAST,
    cuts=stack_cuts,
    details=stack_details,
    blocked=True,
    prefetch=True,
    engines=(Engine.MATRIX, Engine.VECTOR),
)
def stack(kernel: Kernel, work: SequenceWork) -> None:
    """Compute blocks of rows of the result, each through all stages of the work."""
    stages = stages_of(work)
    if work.cut is not None and work.cut == gathered_cut(kernel.target):
        gathered_stack(kernel, work, stages)
        return
    if work.cut is not None and work.cut.choice(BETWEEN, "") == HALO:
        halo_stack(kernel, work, stages)
        return
    plan = stack_plan(work.cut) if work.cut is not None else next(plans(kernel.target, stages), None)
    if plan is None:
        raise SpmOverflow("not even one row of the stack's result fits the SPM with all its weights")
    image, row = coordinates(kernel, (plan.images, plan.row_parts))
    layer = stages.last.layer
    bands = ceil_div(layer.geometry.rows, ceil_div(layer.geometry.rows, plan.row_parts))
    kernel.busiest = (bands - 1) // 2  # it also computes rows of the bands on both sides
    images = shard_of(layer.batch, plan.images, image, 1)
    rows = shard_of(layer.geometry.rows, plan.row_parts, row, plan.rows)
    phase = RowPhase(kernel, work, stages, biases_of(kernel, stages.order, plan.rows))
    weights = weights_run(kernel, stages.order)
    early = _single_block(kernel, images, rows)
    if weights is None:
        kernel.await_earlier_phases()
    elif plan.team_loads == WEIGHTS:
        _share_weights(kernel, phase, weights, early, bands if plan.images == 1 else kernel.target.tiles)
    else:
        with kernel.unless_zero(minimum(images.length, rows.length)):
            weights.load(kernel)
        kernel.await_earlier_phases()
        if early is not None:
            phase.load(early)
    if weights is not None:
        phase.weights = weights.addresses
    if early is not None and phase.held:
        with kernel.loop(minimum(images.length, 1)), kernel.loop(minimum(rows.length, 1)):
            phase.compute(early)
        return
    with slices(kernel, images) as (n, _), slices(kernel, rows) as (begin, count):
        block = StackBlock(n, begin, count, rows.size)
        phase.load(block)
        phase.compute(block)


def _single_block(kernel: Kernel, images: Shard, rows: Shard) -> StackBlock | None:
    """The block of a tile that has one, or some block for a tile that has none."""
    if ever(rows.slice_count > 1) or ever(images.slice_count > 1):
        return None
    count = rows.size if rows.uniform else kernel.let(within(maximum(rows.length, 1), 1, rows.size))
    return StackBlock(kernel.let(images.clamped_begin), kernel.let(rows.clamped_begin), count, rows.size)


def _share_weights(
    kernel: Kernel, phase: RowPhase, weights: StackWeights, block: StackBlock | None, busy: int
) -> None:
    """Let every tile read a part of the weights and send it to the first ``busy`` tiles, which have work;
    meanwhile load for a block.
    """
    with kernel.registers.scope():
        team = sending_to(TileGrid((kernel.target.tiles,), (kernel.tile,)).team(kernel, 0), busy)
        gather = Gather.loaded(kernel, team, (weights.run, 0, weights.run.size), weights.base)
        enter(kernel, weights.base)
        if block is not None:
            phase.load(block)
        gather.send()
        meet_all(kernel, [gather])
