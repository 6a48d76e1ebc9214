"""One slice of a convolution: rows of the image, the sums, the steps after them, and its place in the
result."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from compiler.codegen.expr import Value, maximum
from compiler.codegen.kernel import Argument, Kernel
from compiler.codegen.slices.aligned import (
    Aligned,
    Grid,
    Place,
    load_slice,
    narrowed_slice,
    per_channel,
    slice_buffer,
    spread,
    store_slice,
    widened_slice,
)
from compiler.codegen.slices.precision import engine_format
from compiler.codegen.slices.shards import Shard, shard_of, slices, within
from compiler.codegen.slices.tensors import stretches
from compiler.codegen.slices.windows import RowBlock, block_of_columns, row_block
from compiler.evaluation.sizes import always
from compiler.lowering.pointwise.epilogue import AlignedResult, apply_steps
from compiler.lowering.record import Work
from tx8isa.numbers.formats import Format

from .layer import ConvEpilogue, ConvLayer, Kind
from .plan import ConvPlan
from .product import multiply_slice
from .quantised.engine_chain import ChainVectors, fits_instruction
from .quantised.int8 import Requantisation, engine_parts
from .weights import Volume, Weights

SliceUse = Callable[[Kernel, Aligned, Place], None]
"""Emits the code that receives a finished slice and its place in the result."""


@dataclass(frozen=True)
class ConvProblem:
    """A convolution, its plan, and the share of this tile."""

    work: Work
    layer: ConvLayer
    plan: ConvPlan
    epilogue: ConvEpilogue
    images: Shard
    rows: Shard
    columns: Shard
    requantisation: Requantisation | None = None
    use: SliceUse | None = None
    """Takes each finished slice of the result; None stores the slices in DDR."""

    @property
    def single(self) -> bool:
        """True if all input channels of a group are taken together."""
        return self.layer.channelwise or self.plan.channels == self.layer.groups.channels

    @property
    def zero_operands(self) -> dict[str, Argument]:
        """Operands of the matrix engine that only products of bytes have."""
        return {} if self.requantisation is None else self.requantisation.operands

    def last_operands(self, own: SliceMaps) -> dict[str, Argument] | None:
        """Operands by which an instruction over all input channels turns its sums into bytes. None if another
        instruction must do that.
        """
        chain = None if self.requantisation is None else self.requantisation.chain
        if chain is None or not isinstance(own.scales, ChainVectors):
            return None
        fits = fits_instruction(chain.steps, self.layer.kind is Kind.GEMM, own.count)
        return chain.steps.operands(own.scales) if fits else None

    def addend_is_early(self, kernel: Kernel) -> bool:
        """True if there is a residual tensor that earlier phases have written before the last barrier."""
        return self.epilogue.residual is not None and self.epilogue.residual.symbol in kernel.settled

    @property
    def grid(self) -> Grid | None:
        """The positions of the result in each of the tile's slices, at least 1; None if slices differ."""
        height, columns = _length(self.rows), _length(self.columns)
        if height is None or columns is None:
            return None
        whole = self.columns.size == self.layer.geometry.columns
        return Grid(height, self.columns.size, self.rows.size, None if whole else columns)

    @contextmanager
    def blocks(self, kernel: Kernel) -> Iterator[tuple[Value, RowBlock]]:
        """The tile's slices: image, and rows of it."""
        with (
            slices(kernel, self.images) as (image, _),
            slices(kernel, self.rows) as rows,
            slices(kernel, self.columns) as part,
        ):
            yield image, self.block(kernel, rows, part)

    def block(self, kernel: Kernel, rows: tuple[Value, Value], columns: tuple[Value, Value]) -> RowBlock:
        """The slice with these output rows and columns: the first, and how many."""
        geometry = self.layer.geometry
        block = row_block(kernel, geometry, *rows, self.rows.size)
        if self.columns.size == geometry.columns:
            return block
        return block_of_columns(kernel, geometry, block, *columns, self.columns.size)


def tile_shards(layer: ConvLayer, plan: ConvPlan, places: Sequence[Value]) -> tuple[Shard, Shard, Shard]:
    """A tile's images, rows and columns, from its places along the axes of the plan's grid."""
    geometry = layer.geometry
    if plan.columns:
        columns = shard_of(geometry.columns, plan.column_parts, places[2], plan.columns)
    else:
        columns = shard_of(geometry.columns, 1, 0, geometry.columns)
    return (
        shard_of(layer.batch, plan.images, places[0], 1),
        shard_of(geometry.rows, plan.row_parts, places[1], plan.rows),
        columns,
    )


def _length(own: Shard) -> Value | None:
    """The common length of all slices of a share, at least 1; None if they differ."""
    if own.uniform:
        return own.size
    return within(maximum(own.length, 1), 1, own.size) if always(own.slice_count == 1) else None


@dataclass(frozen=True)
class SliceMaps:
    """The maps of a slice from ``first``, with their bias, and with weights that are loaded only once.

    ``start``: the initial sums of all its slices, if known in advance; ``addend``: the loaded tensor that is
    added to its only slice.
    """

    group: Value
    block: Value
    first: Value
    count: int
    load: Weights
    weights: list[Value] | None
    bias: Value | None
    start: Aligned | None
    addend: Aligned | None = None
    scales: Value | ChainVectors | None = None
    """Factors of the sums of bytes if each map has one, or vectors of the engine's steps."""


def spread_bias(kernel: Kernel, grid: Grid, maps: int, bias: Value, fmt: Format) -> Aligned:
    """The bias at every position of a slice, in a format of four bytes."""
    start = slice_buffer(kernel, "start", fmt, grid, maps)
    spread(kernel, start, bias)
    return start


def load_image(
    kernel: Kernel, problem: ConvProblem, image: Value, block: RowBlock, lane: Value, channels: int
) -> list[Aligned]:
    """The image rows of a slice with ``channels`` channels from ``lane``, in the order of the matrix
    engine."""
    source = problem.work.input(0)
    data = load_slice(kernel, "x", source, block.source(image, lane), block.input, channels)
    return engine_parts(kernel, data)


def compute_slice(
    kernel: Kernel,
    problem: ConvProblem,
    image: Value,
    block: RowBlock,
    own: SliceMaps,
    data: list[Aligned] | None,
) -> None:
    """One slice from the image (``data``, or still to be loaded) to its place in the result."""
    at = block.target(image, own.first)
    start = start_of(kernel, problem, own, block, at)
    result = _convolve(kernel, problem, image, block, own, data, start)
    output, steps = problem.work.output, problem.epilogue.steps
    if problem.requantisation is not None and result.fmt is not Format.INT8:
        fmt = Format.FP32 if steps else output.fmt
        result = problem.requantisation.finished(kernel, result, own.scales, fmt)
    apply_steps(AlignedResult(kernel, result, at), result.base, steps)
    if result.fmt is Format.FP32:
        result = narrowed_slice(kernel, result, output.fmt)
    if problem.use is None:
        store_slice(kernel, result, output, at)
    else:
        problem.use(kernel, result, at)


def start_of(
    kernel: Kernel, problem: ConvProblem, own: SliceMaps, block: RowBlock, at: Place
) -> Aligned | None:
    """Initial sums of a slice, residual and bias; in a separate FP32 buffer if sums accumulate there."""
    if own.start is not None:
        return own.start
    if problem.epilogue.residual is not None:
        start = own.addend or load_addend(kernel, problem, own, block, at)
        if own.bias is None and problem.single:
            return start
        start = widened_slice(kernel, start)
        if own.bias is not None:
            per_channel(kernel, "add", start, own.bias)
        return start
    if own.bias is not None:
        return spread_bias(kernel, block.output, own.count, own.bias, problem.layer.sum_fmt)
    if problem.single:
        return None
    start = slice_buffer(kernel, "y", problem.layer.sum_fmt, block.output, own.count)
    kernel.emit("td.memset.fp32", dst=start.base, value=0.0, n=start.elements)
    return start


def load_addend(kernel: Kernel, problem: ConvProblem, own: SliceMaps, block: RowBlock, at: Place) -> Aligned:
    """The slice of the tensor to which the products are added."""
    assert problem.epilogue.residual is not None
    return load_slice(kernel, "residual", problem.epilogue.residual, at, block.output, own.count)


def _convolve(
    kernel: Kernel,
    problem: ConvProblem,
    image: Value,
    block: RowBlock,
    own: SliceMaps,
    data: list[Aligned] | None,
    start: Aligned | None,
) -> Aligned:
    """The sums of one slice: rounded if no inexact step follows, otherwise in the format of accumulation."""
    compute, zeros = problem.layer.fmt, problem.zero_operands
    if problem.single:
        fmt = engine_format(compute) if problem.layer.engine_rounds else problem.layer.sum_fmt
        result = slice_buffer(kernel, "y", fmt, block.output, own.count)
        lane = own.first if problem.layer.channelwise else own.group * problem.layer.groups.channels
        channels = own.count if problem.layer.channelwise else problem.layer.groups.channels
        images = data or load_image(kernel, problem, image, block, lane, channels)
        assert own.weights is not None
        last = problem.last_operands(own)
        if last is not None:
            result, zeros = slice_buffer(kernel, "bytes", Format.INT8, block.output, own.count), zeros | last
        multiply_slice(kernel, problem.layer, block.pad, images, own.weights, result, start, zeros)
        return result
    assert start is not None
    for stretch in stretches(problem.layer.groups.channels, problem.plan.channels):
        with kernel.loop(stretch.count) as step:
            inner = step * stretch.size + stretch.start
            lane = own.group * problem.layer.groups.channels + inner
            images = load_image(kernel, problem, image, block, lane, stretch.size)
            weights = own.load(Volume(own.group, own.block, stretch, step))
            multiply_slice(kernel, problem.layer, block.pad, images, weights, start, start, zeros)
    return start
