"""Stacks of convolutions and pools in one phase: what is between them stays in the scratchpad.

A tile has a share of the images and of the rows of the result. For each block of rows it loads what the first
stages read, computes the rows of each stage in turn (``stages``), and stores the result. The weights of
all stages are one run of bytes, which the tiles read once together or each by itself, before the first block.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from compiler.codegen.expr import Value, maximum, minimum
from compiler.codegen.kernel import Kernel
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
from compiler.codegen.slices.precision import engine_format, split
from compiler.codegen.slices.shards import Shard, coordinates, shard_of, slices, within
from compiler.codegen.slices.tensors import BLOCK, DdrTensor, Stretch
from compiler.codegen.slices.windows import RowBlock, row_block
from compiler.codegen.spm import SpmOverflow
from compiler.codegen.teams.gather import Gather, enter, meet_all
from compiler.codegen.teams.team import TileGrid
from compiler.dialect.orders import Order
from compiler.graph import Array
from compiler.lowering.conv.layer import Kind
from compiler.lowering.conv.plan import WEIGHTS
from compiler.lowering.conv.pooling import pool_slice
from compiler.lowering.conv.product import multiply_slice
from compiler.lowering.conv.weights import PackedWeights, Volume, weights_of, windows_of
from compiler.lowering.pointwise.epilogue import AlignedResult, apply_steps
from compiler.lowering.record import Engine, Work, lowering
from tx8isa.numbers.division import ceil_div, round_up
from tx8isa.numbers.formats import Format

from .cuts import gathered_cut, plans, stack_cuts, stack_plan
from .gathered import gathered_stack
from .stages import NeededRows, Stage, Stages, stages_of
from .values import Held, StackBlock, move


@lowering(
    "Stack",
    order=Order.CHANNELS_LAST,
    cuts=stack_cuts,
    blocked=True,
    prefetch=True,
    engines=(Engine.MATRIX, Engine.VECTOR),
)
def stack(kernel: Kernel, work: Work) -> None:
    """Blocks of result rows, for each all stages of the work."""
    stages = stages_of(work)
    if work.cut is not None and work.cut == gathered_cut(kernel.target):
        gathered_stack(kernel, work, stages)
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
    phase = _Phase(kernel, work, stages, _biases(kernel, stages.order))
    weights = _weights(kernel, stages.order)
    early = _single_block(kernel, images, rows)
    if weights is None:
        kernel.await_earlier_phases()
    elif plan.team_loads == WEIGHTS:
        phase.share_weights(weights, early)
    else:
        with kernel.unless_zero(minimum(images.length, rows.length)):
            weights.load(kernel)
        kernel.await_earlier_phases()
    phase.weights = weights
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
    if rows.slice_count > 1 or images.slice_count > 1:
        return None
    count = rows.size if rows.uniform else kernel.let(within(maximum(rows.length, 1), 1, rows.size))
    return StackBlock(kernel.let(images.clamped_begin), kernel.let(rows.clamped_begin), count, rows.size)


@dataclass(frozen=True)
class _Weights:
    """Those of all stages: behind each other in DDR, and in the scratchpad from ``base`` on."""

    run: DdrTensor
    base: Value
    offsets: dict[str, list[int]]

    def load(self, kernel: Kernel) -> None:
        kernel.emit(f"rdma.{self.run.fmt.token}", dst=self.base, src=self.run.at(0), n=self.run.size)

    def of(self, stage: Stage) -> list[Value]:
        """Where the parts of a stage's weights are."""
        return [self.base + offset for offset in self.offsets[stage.result.symbol]]


def _weights(kernel: Kernel, order: Sequence[Stage]) -> _Weights | None:
    """Room for the weights of all stages; None if there are none."""
    others = len(kernel.constants)
    parts = {stage.result.symbol: _packed(kernel, stage) for stage in order if stage.work.op == "Conv"}
    made = kernel.constants[others:]
    if not made:
        return None
    del kernel.constants[others:]
    fmt, each = made[0].fmt, made[0].fmt.bits // 8
    offsets: dict[str, list[int]] = {}
    size = 0
    for symbol, tensors in parts.items():
        offsets[symbol] = []
        for tensor in tensors:
            offsets[symbol].append(size * each)
            size += tensor.size

    def joined() -> Array:
        return np.concatenate([constant.data for constant in made])

    run = DdrTensor(kernel.lazy_constant("weights", fmt, size, joined).symbol, fmt, (size,))
    return _Weights(run, kernel.buffer("w", size * each), offsets)


def _packed(kernel: Kernel, stage: Stage) -> list[DdrTensor]:
    """The weights of a stage as the matrix engine takes them, a tensor for each part."""
    layer, channels = stage.layer, stage.layer.groups.channels
    maps = Stretch(0, layer.groups.maps, 1)
    if layer.kind is Kind.DEPTHWISE:
        found = windows_of(kernel, stage.work, maps)
    else:
        packed = weights_of(kernel, stage.work, layer.groups, maps, channels)
        assert isinstance(packed, PackedWeights)
        found = packed
    return [tensor for tensor, _ in found.runs(Volume(0, 0, Stretch(0, channels, 1), 0))]


def _biases(kernel: Kernel, order: Sequence[Stage]) -> dict[str, Value]:
    """Load the biases of all stages as one vector in FP32: where each begins."""
    vectors: list[Array] = []
    offsets: dict[str, int] = {}
    for stage in order:
        if stage.layer.bias:
            values = np.asarray(stage.work.input(2).value, np.float32).reshape(-1)
            offsets[stage.result.symbol] = sum(vector.size for vector in vectors)
            vectors.append(np.pad(values, (0, round_up(values.size, BLOCK) - values.size)))
    if not vectors:
        return {}
    data = np.concatenate(vectors)
    symbol, base = (
        kernel.constant("bias_data", Format.FP32, data).symbol,
        kernel.buffer("bias", 4 * data.size),
    )
    kernel.emit("rdma.fp32", dst=base, src=DdrTensor(symbol, Format.FP32, data.shape).at(0), n=data.size)
    return {name: base + 4 * offset for name, offset in offsets.items()}


class _Phase:
    """Emits the code of blocks. ``held`` are the values that are in the scratchpad, by their symbols."""

    def __init__(self, kernel: Kernel, work: Work, stages: Stages, biases: dict[str, Value]) -> None:
        self.kernel, self.work, self.stages, self.biases = kernel, work, stages, biases
        self.weights: _Weights | None = None
        self.held: dict[str, list[Held]] = {}
        self.starts: dict[str, Value] = {}

    def share_weights(self, weights: _Weights, block: StackBlock | None) -> None:
        """Let every tile read a part of the weights and give it to all; meanwhile load for a block."""
        kernel = self.kernel
        with kernel.registers.scope():
            team = TileGrid((kernel.target.tiles,), (kernel.tile,)).team(kernel, 0)
            gather = Gather(kernel, team, (weights.run, 0, weights.run.size), weights.base)
            enter(kernel, weights.base)
            if block is not None:
                self.load(block)
            gather.send()
            meet_all(kernel, [gather])

    def load(self, block: StackBlock) -> None:
        """Everything that the block needs from DDR, but for operands of steps.

        While that is on its way, where the first sums begin is made.
        """
        made = self.stages.made
        for stage in self.stages.order:
            if stage.source.symbol not in made and self._find(stage.source, stage.image, same=True) is None:
                self._load(stage.source, stage.image, stage.layer.geometry.width, block)
        for stage in self.stages.order:
            residual = stage.epilogue.residual
            if residual is None and stage.result.symbol in self.biases and not self.starts:
                self._spread(stage, block)
            if (
                residual is not None
                and residual.symbol not in made
                and self._find(residual, stage.rows) is None
            ):
                self._load(residual, stage.rows, stage.layer.geometry.columns, block)

    def _spread(self, stage: Stage, block: StackBlock) -> None:
        """The bias at every position of a stage's rows, where its sums begin."""
        kernel = self.kernel
        with kernel.registers.scope():
            first = kernel.let(block.first(stage.rows))
            grid = block.grid(kernel, stage.rows, first, stage.layer.geometry.columns)
            start = slice_buffer(kernel, "start", Format.FP32, grid, stage.layer.groups.maps)
            spread(kernel, start, self.biases[stage.result.symbol])
        self.starts[stage.result.symbol] = start.base

    def _load(self, tensor: DdrTensor, rows: NeededRows, width: int, block: StackBlock) -> None:
        with self.kernel.registers.scope():
            first = self.kernel.let(block.first(rows))
            at = Place(block.image, first * width)
            grid = block.grid(self.kernel, rows, first, width)
            data = load_slice(self.kernel, "x", tensor, at, grid, tensor.shape[-1])
        self._hold(tensor, rows, data)

    def _hold(self, tensor: DdrTensor, rows: NeededRows, data: Aligned) -> None:
        held = Held(rows, data.base, data.fmt, data.channels, data.grid.width)
        self.held.setdefault(tensor.symbol, []).append(held)

    def _find(self, tensor: DdrTensor, rows: NeededRows, same: bool = False) -> Held | None:
        """Where rows of a tensor are; ``same``: those and no others."""
        for held in self.held.get(tensor.symbol, []):
            if held.rows == rows or (not same and held.rows.hold(rows)):
                return held
        return None

    def compute(self, block: StackBlock) -> None:
        """All stages of a block."""
        for stage in self.stages.order:
            with self.kernel.registers.scope():
                self._stage(stage, block)

    def _stage(self, stage: Stage, block: StackBlock) -> None:
        kernel, layer, symbol = self.kernel, stage.layer, stage.result.symbol
        first = kernel.let(block.first(stage.rows))
        grid = block.grid(kernel, stage.rows, first, layer.geometry.columns)
        window = row_block(kernel, layer.geometry, first, grid.height, grid.room)
        at = Place(block.image, first * layer.geometry.columns)
        joined = self._joined(stage, grid) if symbol in self.stages.pieces else None
        result = self._result(stage, block, window, joined)
        apply_steps(_Region(kernel, result, at, self, stage, block), result.base, stage.epilogue.steps)
        if joined is not None:
            if result is not joined:
                move(kernel, result, joined)
            return
        if result.fmt is not stage.result.fmt:
            result = narrowed_slice(kernel, result, stage.result.fmt)
        self._hold(stage.result, stage.rows, result)
        if symbol in self.stages.places:
            lane = self.stages.places[symbol]
            store_slice(kernel, result, self.work.output, Place(at.image, at.position, lane))

    def _joined(self, stage: Stage, grid: Grid) -> Aligned:
        """The place of a stage's result beside the others that it is joined with."""
        piece, fmt = self.stages.pieces[stage.result.symbol], stage.result.fmt
        whole = piece.whole
        if whole.symbol not in self.held:
            self._hold(whole, stage.rows, slice_buffer(self.kernel, "joined", fmt, grid, whole.shape[-1]))
        skipped = grid.positions * (piece.channel * fmt.bits // 8)
        place = self.held[whole.symbol][0].base + skipped
        return Aligned(place, fmt, grid, stage.result.shape[-1])

    def _result(self, stage: Stage, block: StackBlock, window: RowBlock, joined: Aligned | None) -> Aligned:
        """What the operator gives, before its steps; where it is to be joined if it has that format."""
        kernel, layer = self.kernel, stage.layer
        data = self._image(stage, block, window)
        if layer.kind is Kind.POOL:
            name = {"MaxPool": "max", "AveragePool": "avg"}[stage.work.op]
            return pool_slice(
                kernel,
                name,
                layer.geometry,
                window,
                data if layer.engine_rounds else widened_slice(kernel, data),
            )
        assert self.weights is not None
        start = self._start(stage, block, window.output)
        fmt = engine_format(layer.fmt) if layer.engine_rounds else Format.FP32
        if joined is not None and joined.fmt is fmt:
            result = joined
        else:
            result = slice_buffer(kernel, "y", fmt, window.output, layer.groups.maps)
        multiply_slice(kernel, layer, window.pad, split(kernel, data), self.weights.of(stage), result, start)
        return result

    def _image(self, stage: Stage, block: StackBlock, window: RowBlock) -> Aligned:
        """The rows of the image that the windows touch, and no others."""
        grid = Grid(window.input.height, window.input.width, stage.image.most(block.most))
        held = self._find(stage.source, stage.image, same=True) or self._find(stage.source, stage.image)
        assert held is not None
        view = held.view(self.kernel, block, stage.image, grid)
        return view if view is not None else held.copy(self.kernel, block, stage.image, grid, held.fmt)

    def _start(self, stage: Stage, block: StackBlock, grid: Grid) -> Aligned | None:
        """Where the sums of a convolution begin: residual and bias."""
        kernel, residual, bias = self.kernel, stage.epilogue.residual, self.biases.get(stage.result.symbol)
        if residual is not None:
            held = self._find(residual, stage.rows)
            assert held is not None
            if bias is None:
                view = held.view(kernel, block, stage.rows, grid)
                return view or held.copy(kernel, block, stage.rows, grid, held.fmt)
            start = held.copy(kernel, block, stage.rows, grid, Format.FP32)
            per_channel(kernel, "add", start, bias)
            return start
        if bias is None:
            return None
        if stage.result.symbol not in self.starts:
            self._spread(stage, block)
        base = self.starts[stage.result.symbol]
        return Aligned(base, Format.FP32, grid, stage.layer.groups.maps)

    def rows_of(self, tensor: DdrTensor, stage: Stage, block: StackBlock, data: Aligned) -> Value | None:
        """A copy of the same rows of another value, in the format of the data; None if it is in DDR."""
        held = self._find(tensor, stage.rows)
        return None if held is None else held.copy(self.kernel, block, stage.rows, data.grid, data.fmt).base


@dataclass(frozen=True)
class _Region(AlignedResult):
    """Operands of steps may be values of the stack."""

    phase: _Phase
    stage: Stage
    block: StackBlock

    def load_like(self, tensor: DdrTensor) -> Value:
        found = self.phase.rows_of(tensor, self.stage, self.block, self.data)
        return super().load_like(tensor) if found is None else found
