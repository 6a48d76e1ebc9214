"""Stacks whose tiles compute channels: after each stage every tile gets the channels of all others.

The channels of a stage's result are divided among the tiles. Each tile reads its own weights and no others,
computes its channels from the whole image, and sends them to all tiles over the DTE; then the tiles meet. So
the weights of all stages pass DDR once, and nothing else does between the first stage and the last. Another
worker of the engines loads the weights of the next stage meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace

from compiler.codegen.expr import Value
from compiler.codegen.kernel import Kernel
from compiler.codegen.slices.aligned import (
    Aligned,
    ChannelVector,
    Grid,
    Place,
    channel_vector,
    load_slice,
    load_vector,
    narrowed_slice,
    per_channel,
    slice_buffer,
    spread,
    store_slice,
    stored_elements,
    widened_slice,
    within_plane,
)
from compiler.codegen.slices.precision import engine_format
from compiler.codegen.slices.tensors import DdrTensor, Stretch
from compiler.codegen.slices.windows import RowBlock, row_block
from compiler.codegen.teams.gather import Gather, enter, meet_all
from compiler.codegen.teams.team import TileGrid
from compiler.lowering.conv.layer import Kind
from compiler.lowering.conv.pooling import pool_slice
from compiler.lowering.conv.product import multiply_slice
from compiler.lowering.conv.weights import PackedWeights, Volume, packed_weights, windows_of
from compiler.lowering.pointwise.epilogue import AlignedResult, apply_steps
from compiler.lowering.record import Work
from tx8isa.numbers.formats import Format

from .stages import Stage, Stages
from .values import move
from .whole import ChannelPiece, Share, Whole, piece_of, pitch_of, share_of, slice_bytes

_BACKGROUND = 1
"""The worker that loads the weights of the next stage."""


def can_gather(work: Work, stages: Stages, tiles: int) -> bool:
    """Whether the channels of every stage can be divided, and each tile finds its own where it needs them."""
    found = {stage.result.symbol: share_of(stage.result.shape[-1], tiles) for stage in stages.order}
    shares = {symbol: share for symbol, share in found.items() if share is not None}
    if stages.last.layer.batch > 1 or len(shares) < len(found):
        return False
    stored = all(within_plane(work.output.shape[-1], shares[symbol].width) for symbol in stages.places)
    return stored and all(_stage_fits(stage, stages, shares) for stage in stages.order)


def _stage_fits(stage: Stage, stages: Stages, shares: dict[str, Share]) -> bool:
    """Whether the products are single ones, and own channels of operands are the shares of the tiles."""
    layer, share = stage.layer, shares[stage.result.symbol]
    if layer.fmt is Format.FP32 or stage.work.output.fmt is Format.FP32:
        return False
    own = [*_added(stage), *([stage.source] if _is_channelwise(stage) else [])]
    return all(
        shares.get(tensor.symbol) == share
        if tensor.symbol in stages.made
        else within_plane(tensor.shape[-1], share.width)
        for tensor in own
    )


def _is_channelwise(stage: Stage) -> bool:
    """Whether a channel of the result depends on the same channel of the image alone."""
    return stage.layer.channelwise or stage.layer.kind is Kind.POOL


def gathered_stack(kernel: Kernel, work: Work, stages: Stages) -> None:
    """All stages, each divided by channels; ValueError where ``can_gather`` does not hold."""
    if not can_gather(work, stages, kernel.target.tiles):
        raise ValueError("the channels of a stage cannot be divided among the tiles")
    phase = _Phase(kernel, work, stages)
    phase.load_images()
    for number in range(len(stages.order)):
        with kernel.registers.scope():
            phase.stage(number)


@dataclass(frozen=True)
class _Prepared:
    """What a tile has loaded for a stage: weights by the slices of the image, bias, where its sums begin."""

    weights: list[Value]
    bias: Value | None
    start: Aligned | None


class _Phase:
    def __init__(self, kernel: Kernel, work: Work, stages: Stages) -> None:
        self.kernel, self.work, self.stages = kernel, work, stages
        self.values: dict[str, Whole] = {}
        self.prepared: dict[str, _Prepared] = {}

    def load_images(self) -> None:
        """Let all tiles have the images of the first stages; weights of two stages are loaded with them."""
        kernel = self.kernel
        made, gathers = self.stages.made, dict[str, Gather]()
        self._prepare(0)
        with kernel.registers.scope():
            team = TileGrid((kernel.target.tiles,), (kernel.tile,)).team(kernel, 0)
            targets = {
                stage.source.symbol: stage
                for stage in self.stages.order
                if stage.source.symbol not in made and not _is_channelwise(stage)
            }
            enter(kernel)
            for symbol, stage in targets.items():
                source, geometry = stage.source, stage.layer.geometry
                grid = Grid(geometry.height, geometry.width, geometry.height)
                data = slice_buffer(kernel, "x", source.fmt, grid, source.shape[-1])
                kernel.receive(data.base)
                run = (source, 0, stored_elements(source))
                gathers[symbol] = Gather(kernel, team, run, data.base)
                piece = ChannelPiece(data.base, source.shape[-1], 1, 0)
                self.values[symbol] = Whole(source.fmt, grid, (piece,))
            with kernel.on_worker(_BACKGROUND):
                self._prepare(1)
            kernel.emit("ncc.wait")
            for gather in gathers.values():
                gather.send()
            meet_all(kernel, [*gathers.values()])

    def _share(self, stage: Stage) -> Share:
        share = share_of(stage.result.shape[-1], self.kernel.target.tiles)
        assert share is not None
        return share

    def _taking_part(self, share: Share) -> AbstractContextManager[None]:
        """Only the tiles that have a share."""
        if share.tiles == self.kernel.target.tiles:
            return nullcontext()
        return self.kernel.if_below(self.kernel.tile, share.tiles)

    def _symbols(self, stage: Stage) -> list[str]:
        """The values that make up the image of a stage: one, or those that are joined, side by side."""
        symbol, pieces = stage.source.symbol, self.stages.pieces.items()
        joined = sorted((piece.channel, name) for name, piece in pieces if piece.whole.symbol == symbol)
        return [name for _, name in joined] or [symbol]

    def _source(self, stage: Stage) -> Whole:
        """The image of a stage in the scratchpad."""
        values = [self.values[symbol] for symbol in self._symbols(stage)]
        return replace(values[0], pieces=tuple(piece for value in values for piece in value.pieces))

    def _stretches(self, stage: Stage) -> list[Stretch]:
        """The channels of a stage's image as its tiles divide them, before it is computed."""
        results = {each.result.symbol: each for each in self.stages.order}
        stretches, start = list[Stretch](), 0
        for symbol in self._symbols(stage):
            if symbol not in results:
                return [Stretch(0, stage.source.shape[-1], 1)]
            share = self._share(results[symbol])
            width, count = share.slices
            stretches.append(Stretch(start, width, count))
            start += share.channels
        return stretches

    def _prepare(self, number: int) -> None:
        """Load the weights and the bias of a stage for this tile's channels."""
        if number >= len(self.stages.order):
            return
        kernel, stage = self.kernel, self.stages.order[number]
        share, layer = self._share(stage), stage.layer
        if layer.kind is Kind.POOL:
            return
        maps = Stretch(0, share.width, share.tiles)
        stretches = [Stretch(0, layer.groups.channels, 1)]
        if layer.channelwise:
            load: PackedWeights = windows_of(kernel, stage.work, maps)
        else:
            stretches = self._stretches(stage)
            load = packed_weights(kernel, stage.work, layer.groups, maps, stretches)
        runs = [(load.runs(Volume(0, kernel.tile, stretch, 0))[0], stretch.count) for stretch in stretches]
        bases = [kernel.buffer("w", t.size * t.bytes_each * count) for (t, _), count in runs]
        bias = channel_vector(kernel, "bias_data", stage.work.input(2)) if layer.bias else None
        with kernel.registers.scope(), self._taking_part(share):
            for base, ((tensor, first), count) in zip(bases, runs, strict=True):
                source = tensor.at(first)
                kernel.emit(f"rdma.{tensor.fmt.token}", dst=base, src=source, n=tensor.size * count)
        weights = [
            base + at * tensor.size * tensor.bytes_each
            for base, ((tensor, _), count) in zip(bases, runs, strict=True)
            for at in range(count)
        ]
        self.prepared[stage.result.symbol] = _Prepared(weights, *self._start(stage, share, bias))

    def _start(
        self, stage: Stage, share: Share, bias: ChannelVector | None
    ) -> tuple[Value | None, Aligned | None]:
        """The bias of this tile's channels, and, unless a residual is added too, at every position."""
        if bias is None:
            return None, None
        kernel, geometry = self.kernel, stage.layer.geometry
        loaded = load_vector(kernel, "bias", bias, kernel.tile * share.width, share.width)
        if stage.epilogue.residual is not None:
            return loaded, None
        grid = Grid(geometry.rows, geometry.columns, geometry.rows)
        start = slice_buffer(kernel, "start", Format.FP32, grid, share.width)
        spread(kernel, start, loaded)
        return loaded, start

    def stage(self, number: int) -> None:
        """Compute this tile's channels of a stage, and send them to all tiles."""
        kernel, stage = self.kernel, self.stages.order[number]
        share, layer = self._share(stage), stage.layer
        geometry = layer.geometry
        grid = Grid(geometry.rows, geometry.columns, geometry.rows)
        fmt, sent = stage.result.fmt, self._is_read(stage)
        target: Value = 0
        if sent:
            target = kernel.buffer("v", share.tiles * pitch_of(grid, fmt, share))
            kernel.receive(target)
        if number and not self._is_read(self.stages.order[number - 1]):
            kernel.emit("ncc.wait")  # its buffers may be used again by other workers
        if number:
            kernel.await_worker(_BACKGROUND)
            with kernel.on_worker(_BACKGROUND):
                self._prepare(number + 1)
        size = slice_bytes(grid, share.width, fmt)
        with self._taking_part(share), kernel.registers.scope():
            result = self._result(stage, share, grid)
            if stage.result.symbol in self.stages.places:
                lane = self.stages.places[stage.result.symbol] + kernel.tile * share.width
                store_slice(kernel, result, self.work.output, Place(0, 0, lane))
            if sent:
                place = target + kernel.tile * pitch_of(grid, fmt, share)
                kernel.emit("ncc.wait")
                everyone = (1 << kernel.target.tiles) - 1
                kernel.emit("dte.broadcast", dst=place, src=result.base, tiles=everyone, n=size)
                kernel.emit("dte.wait")
        if sent:
            kernel.keep_alive(result.base)
            if share.tiles < kernel.target.tiles:
                kernel.emit("ncc.wait")
            kernel.meet()
            self.values[stage.result.symbol] = Whole(fmt, grid, (piece_of(target, grid, fmt, share),))

    def _is_read(self, stage: Stage) -> bool:
        """Whether a later stage reads a result."""
        symbol, piece = stage.result.symbol, self.stages.pieces.get(stage.result.symbol)
        names = {symbol} if piece is None else {symbol, piece.whole.symbol}
        return any(
            tensor.symbol in names for other in self.stages.order for tensor in (other.source, *_added(other))
        )

    def _result(self, stage: Stage, share: Share, grid: Grid) -> Aligned:
        """This tile's channels in the format of the result, all steps applied."""
        kernel, geometry = self.kernel, stage.layer.geometry
        window = row_block(kernel, geometry, 0, geometry.rows, geometry.rows)
        if stage.layer.kind is Kind.POOL:
            result = self._pooled(stage, share, window)
        else:
            result = self._products(stage, share, window)
        at = Place(0, 0, kernel.tile * share.width)
        apply_steps(_Region(kernel, result, at, self, share), result.base, stage.epilogue.steps)
        return result if result.fmt is stage.result.fmt else narrowed_slice(kernel, result, stage.result.fmt)

    def _pooled(self, stage: Stage, share: Share, window: RowBlock) -> Aligned:
        name = {"MaxPool": "max", "AveragePool": "avg"}[stage.work.op]
        data = self.own(stage.source, share, stage.layer.geometry.height, stage.layer.geometry.width)
        if not stage.layer.engine_rounds:
            data = widened_slice(self.kernel, data)
        return pool_slice(self.kernel, name, stage.layer.geometry, window, data)

    def _products(self, stage: Stage, share: Share, window: RowBlock) -> Aligned:
        kernel, layer = self.kernel, stage.layer
        prepared = self.prepared[stage.result.symbol]
        if layer.channelwise:
            images = [self.own(stage.source, share, layer.geometry.height, layer.geometry.width)]
        else:
            images = self._source(stage).slices()
        fmt = engine_format(layer.fmt) if layer.engine_rounds else Format.FP32
        result = slice_buffer(kernel, "y", fmt, window.output, share.width)
        start = self._sums_begin(stage, share, prepared)
        sums = result
        if len(images) > 1 and fmt is not Format.FP32:
            sums = slice_buffer(kernel, "sums", Format.FP32, window.output, share.width)
        for number, (image, weights) in enumerate(zip(images, prepared.weights, strict=True)):
            target = result if number == len(images) - 1 else sums
            multiply_slice(kernel, layer, window.pad, [image], [weights], target, start)
            start = sums
        return result

    def _sums_begin(self, stage: Stage, share: Share, prepared: _Prepared) -> Aligned | None:
        kernel, residual, geometry = self.kernel, stage.epilogue.residual, stage.layer.geometry
        if residual is None:
            return prepared.start
        own = self.own(residual, share, geometry.rows, geometry.columns)
        if prepared.bias is None:
            return own
        start = slice_buffer(kernel, "start", Format.FP32, own.grid, share.width)
        move(kernel, own, start)
        per_channel(kernel, "add", start, prepared.bias)
        return start

    def own(self, tensor: DdrTensor, share: Share, rows: int, columns: int) -> Aligned:
        """This tile's channels of a tensor, which must not be overwritten; loaded if it is in DDR."""
        value = self.values.get(tensor.symbol)
        found = value.own(self.kernel.tile, share) if value is not None else None
        if found is not None:
            return found
        place = Place(0, 0, self.kernel.tile * share.width)
        return load_slice(self.kernel, "own", tensor, place, Grid(rows, columns, rows), share.width)


def _added(stage: Stage) -> Iterator[DdrTensor]:
    """Tensors of the shape of the result that a stage adds to it or combines with it."""
    if stage.epilogue.residual is not None:
        yield stage.epilogue.residual
    for step in stage.epilogue.steps:
        yield from (t for t in step.operands if t is not None and t.value is None)


@dataclass(frozen=True)
class _Region(AlignedResult):
    """Operands of steps may be values of the stack."""

    phase: _Phase
    share: Share

    def load_like(self, tensor: DdrTensor) -> Value:
        if tensor.symbol not in self.phase.values:
            return super().load_like(tensor)
        grid = self.data.grid
        own = self.phase.own(tensor, self.share, grid.room, grid.width)
        copy = slice_buffer(self.kernel, "operand", self.fmt, grid, self.share.width)
        move(self.kernel, own, copy)
        return copy.base
