"""Conv on the matrix engine, with the pointwise operators after it.

A tile has a share of the images, of the output rows and of the maps (output channels). The weights and the
bias of its first maps are loaded while other tiles finish earlier work. A bias and a residual tensor are the
initial sums (partial sums of the matrix engine), so that the engine can round to the format of the result.
Where a part of a row of all input channels does not fit, blocks of channels are accumulated in FP32.

Small groups are merged: their weights become one block-diagonal matrix, so that the engine sees up to 64
input channels at a time. (0 times an infinite input of another group is then NaN.)
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from compiler.codegen.expr import Value, minimum
from compiler.codegen.kernel import Kernel
from compiler.codegen.slices.aligned import Aligned, channel_vector
from compiler.codegen.slices.shards import Shard, coordinates, sharded_blocks
from compiler.codegen.slices.windows import RowBlock, unsupported_window
from compiler.codegen.spm import SpmOverflow
from compiler.codegen.teams.team import TileGrid
from compiler.dialect.orders import Order
from compiler.graph import FLOATS
from compiler.lowering.fallback import run_on_compact_copies
from compiler.lowering.record import Engine, Work, lowering
from compiler.operators.record import Call
from compiler.operators.windows.conv import conv_window
from tx8isa.numbers.limits import LARGEST_CHANNELS

from .cuts import conv_cuts, first_plan, plan_for
from .layer import ConvLayer, epilogue_of, layer_of, stays_in_planes
from .maps import MapsOfTile
from .plan import OWN, ConvPlan, layer_for
from .quantised.int8 import requantisation_of
from .slice import ConvProblem, SliceUse, compute_slice, load_image, tile_shards
from .team_loads import Early, load_by_teams, only_slice


def _check(call: Call) -> str | None:
    window = conv_window(call)
    if max(call.shape(1)[:2]) > LARGEST_CHANNELS:
        return f"at most {LARGEST_CHANNELS} channels; found W {list(call.shape(1))}"
    for begin, end, extent in zip(window.pads_begin, window.pads_end, window.extents, strict=True):
        if max(begin, end) >= extent:
            return f"pads smaller than the dilated kernel; found {begin} and {end} with {extent}"
    return unsupported_window(window)


@lowering(
    "Conv",
    order=Order.CHANNELS_LAST,
    stage=True,
    check=_check,
    cuts=conv_cuts,
    anchor=True,
    blocked=True,
    prefetch=True,
    engines=(Engine.MATRIX,),
)
def convolution(kernel: Kernel, work: Work) -> None:
    """Slices of output rows of an image and of the maps of a group."""
    layer = layer_of(work)
    plan = plan_for(layer, work.cut) if work.cut is not None else _best(kernel, layer, stays_in_planes(work))
    if plan is None:
        run_on_compact_copies(kernel, work, convolution)
        return
    convolve(kernel, work, layer_for(layer, plan), plan)


def convolve(
    kernel: Kernel, work: Work, layer: ConvLayer, plan: ConvPlan, use: SliceUse | None = None
) -> None:
    """Write the code of a convolution by a plan; ``layer`` is the one that the plan needs (``layer_for``).

    ``use`` receives the slices of the result, which are then not stored.
    """
    places = coordinates(kernel, plan.grid)
    shards = tile_shards(layer, plan, places)
    quantised = requantisation_of(kernel, work)
    problem = ConvProblem(work, layer, plan, epilogue_of(work), *shards, quantised, use)
    chained = quantised is not None and quantised.chain is not None
    has_bias = work.has(2) and not chained
    bias = channel_vector(kernel, "bias_data", work.input(2)) if has_bias else None
    if any(tensor is not None and tensor.value is None for tensor in work.inputs[1:]):
        kernel.await_earlier_phases()
    blocks = sharded_blocks(layer.groups.maps, plan.maps, plan.map_parts, places[-1], layer.groups.count)
    jobs = [MapsOfTile(kernel, problem, stretch, own, bias) for stretch, own in blocks]
    grid = TileGrid(plan.grid, tuple(places))
    addend = problem.addend_is_early(kernel)
    early = only_slice(kernel, problem) if addend or plan.team_loads != OWN else Early()
    if addend and early.block is not None:
        for job in jobs:
            job.load_addend(early.image, early.block)
    if plan.team_loads != OWN:
        early = load_by_teams(kernel, problem, jobs, grid, early)
    kernel.await_earlier_phases()
    if problem.single and (plan.keep == "rows" or early.data is not None):
        with _row_slices(kernel, problem, early) as (image, block):
            _maps_of_rows(kernel, problem, image, block, jobs, early.data)
    else:
        for job in jobs:
            with job.maps() as own, _row_slices(kernel, problem, early) as (image, block):
                compute_slice(kernel, problem, image, block, own, None)


def _best(kernel: Kernel, layer: ConvLayer, in_planes: bool) -> ConvPlan | None:
    """The best plan by estimate; None where none fits with slices of whole planes of blocked tensors."""
    found = first_plan(layer, kernel.target, kernel.budget) if in_planes or not layer.blocked else None
    if found is None and not layer.blocked:
        need = layer.geometry.input_rows(1)
        raise SpmOverflow(f"one row of output and {need} of input do not fit the SPM")
    return found


@contextmanager
def _row_slices(kernel: Kernel, problem: ConvProblem, early: Early) -> Iterator[tuple[Value, RowBlock]]:
    """The tile's slices: image, and rows of it."""
    if early.block is not None:
        with _if_any(kernel, problem.images), _if_any(kernel, problem.rows), _if_any(kernel, problem.columns):
            yield early.image, early.block
        return
    with problem.blocks(kernel) as found:
        yield found


def _if_any(kernel: Kernel, own: Shard) -> AbstractContextManager[Value]:
    """Execute the body once, unless the share is empty."""
    return kernel.loop(minimum(own.length, 1))


def _maps_of_rows(
    kernel: Kernel,
    problem: ConvProblem,
    image: Value,
    block: RowBlock,
    jobs: list[MapsOfTile],
    data: list[Aligned] | None,
) -> None:
    """All maps of a slice of rows, which is loaded once."""
    if data is None and problem.layer.groups.count == 1 and not problem.layer.channelwise:
        data = load_image(kernel, problem, image, block, 0, problem.layer.groups.channels)
    for job in jobs:
        with job.maps() as own:
            compute_slice(kernel, problem, image, block, own, data)


def _check_int8(call: Call) -> str | None:
    if any(call.has(at) and call.values[at] is None for at in (1, 2, 3)):
        return "weights, bias and scales that are known when compiling"
    return _check(call)


lowering(
    "Int8Conv",
    order=Order.CHANNELS_LAST,
    stage=True,
    check=_check_int8,
    types=("int8", "int32", *FLOATS),
    cuts=conv_cuts,
    anchor=True,
    blocked=True,
    prefetch=True,
    takes_fp32=True,
    engines=(Engine.MATRIX, Engine.VECTOR),
)(convolution)
