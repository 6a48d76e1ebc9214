"""Stacks whose tiles compute channels: after each stage every tile gets the channels of all others.

The channels of a stage's result are divided among the tiles. Each tile reads only its own weights, computes
its channels from the whole image, and sends them to all tiles over the DTE; then the tiles meet. So the
weights of all stages are read from DDR once, and nothing else is between the first stage and the last. A
result is not sent if each tile's later stages read only the tile's own channels.

Weights are loaded in groups of stages by another worker of the engines: those of a group while the group
before is computed (``ahead``).
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace

from compiler.codegen.expr import Value
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
    stored_elements,
    widened_slice,
)
from compiler.codegen.slices.precision import engine_format
from compiler.codegen.slices.tensors import DdrTensor, Stretch
from compiler.codegen.slices.windows import RowBlock, row_block
from compiler.codegen.teams.gather import Gather, enter, meet_all
from compiler.codegen.teams.team import TileGrid
from compiler.lowering.conv.layer import Kind
from compiler.lowering.conv.pooling import largest_bytes, pool_instruction, pool_slice
from compiler.lowering.conv.product import multiply_slice
from compiler.lowering.conv.quantised.int8 import engine_slices, engine_stretches
from compiler.lowering.conv.quantised.sums import summed_slice
from compiler.lowering.pointwise.epilogue import AlignedResult, apply_steps
from compiler.lowering.record import SequenceWork, exchanges_in
from compiler.operators.quantised.sums import sum_quantisation
from tx8isa.numbers.formats import Format

from .ahead import even_groups, in_turns, load_groups, one_after_another
from .byte_products import (
    ByteImage,
    MapVectors,
    map_vectors,
    multiply_bytes,
    of_bytes,
    sum_matrices,
    sums_of_bytes,
)
from .constants import shared_biases, weight_runs
from .placement import exchanges_of_channels
from .stages import Stage, Stages
from .values import move
from .whole import ChannelPiece, Share, Whole, added_values, can_gather, is_channelwise, share_of


def gathered_stack(kernel: Kernel, work: SequenceWork, stages: Stages) -> None:
    """Write the code of all stages, each divided by channels; ValueError unless ``can_gather``."""
    if not can_gather(work, stages, kernel.target.tiles, kernel.target.spm_bytes):
        raise ValueError("the channels of a stage cannot be divided among the tiles")
    phase = _Phase(kernel, work, stages)
    phase.load_images()
    for number, stage in enumerate(stages.order):
        with kernel.registers.scope(), kernel.computing(stage.work.name):
            phase.stage(number)


class _Phase:
    def __init__(self, kernel: Kernel, work: SequenceWork, stages: Stages) -> None:
        self.kernel, self.work, self.stages = kernel, work, stages
        self.values: dict[str, Whole] = {}
        self.kept: dict[str, Aligned] = {}
        """This tile's channels of values that are not sent."""
        self.weights: dict[str, list[Value]] = {}
        """For each stage, addresses of its weights, one for each slice of the image."""
        self.biases: dict[str, Value] = {}
        self.starts: dict[str, Aligned] = {}
        """The initial sums of a stage."""
        self.being_read: list[Value] = []
        """Buffers from which ``starts`` are made; engines may read them until the next wait."""
        self.postponed: list[int] = []
        """Stages with loads to begin, once engines no longer use freed buffers."""
        self.vectors: dict[str, MapVectors] = {}
        self.matrices: dict[str, Value] = {}
        self.targets: dict[str, Value] = {}
        """Addresses at which the shares of all tiles of a value arrive."""
        exchanges = exchanges_in(work, [*exchanges_of_channels(work, stages)])
        self.exchanged = {each.symbol for each in exchanges}
        sizes = [stage.layer.weight_bytes(self._share(stage).width) for stage in stages.order]
        if any(map(of_bytes, stages.order)):
            machine, tiles = kernel.target.machine, kernel.target.tiles
            self.ahead = in_turns(even_groups(sizes, machine, tiles, work.early), sizes, machine, tiles)
            kernel.early = sum(sizes[number] for number in self.ahead.first)
        else:
            self.ahead = one_after_another(load_groups(sizes, kernel.target.spm_bytes))

    def load_images(self) -> None:
        """Let all tiles have the images of the first stages; the first weights are loaded with them."""
        kernel = self.kernel
        made, gathers = self.stages.made, dict[str, Gather]()
        needed = self.ahead.first[:1] if self.ahead.in_turns else self.ahead.first
        for number in needed:
            self._load_weights(number)
        self._load_biases()
        for number in self.ahead.first[len(needed) :]:
            self._load_weights(number)
        with kernel.registers.scope():
            team = TileGrid((kernel.target.tiles,), (kernel.tile,)).team(kernel, 0)
            targets = {
                stage.source.symbol: stage
                for stage in self.stages.order
                if stage.source.symbol not in made and not is_channelwise(stage)
            }
            enter(kernel)
            for symbol, stage in targets.items():
                source, geometry = stage.source, stage.layer.geometry
                grid = Grid(geometry.height, geometry.width, geometry.height)
                data = slice_buffer(kernel, "x", source.fmt, grid, source.shape[-1])
                kernel.receive(data.base)
                run = (source, 0, stored_elements(source))
                gathers[symbol] = Gather.loaded(kernel, team, run, data.base)
                piece = ChannelPiece(data.base, source.shape[-1], 1, 0)
                self.values[symbol] = Whole(source.fmt, grid, (piece,))
            kernel.emit("ncc.wait")
            for gather in gathers.values():
                gather.send()
            self._load_ahead(0)
            self._begin_sums(0)
            meet_all(kernel, [*gathers.values()])
            self._reserve(0)

    def _share(self, stage: Stage) -> Share:
        share = share_of(stage.result.shape[-1], self.kernel.target.tiles)
        assert share is not None
        return share

    def _taking_part(self, share: Share) -> AbstractContextManager[None]:
        """Code for the tiles that have a share."""
        if share.tiles == self.kernel.target.tiles:
            return nullcontext()
        return self.kernel.if_below(self.kernel.tile, share.tiles)

    def _symbols(self, stage: Stage) -> list[str]:
        """The values that make up the image of a stage: one, or several that are joined, side by side."""
        symbol, pieces = stage.source.symbol, self.stages.pieces.items()
        joined = sorted((piece.channel, name) for name, piece in pieces if piece.whole.symbol == symbol)
        return [name for _, name in joined] or [symbol]

    def _source(self, stage: Stage) -> Whole:
        """The image of a stage in the scratchpad."""
        values = [self.values[symbol] for symbol in self._symbols(stage)]
        return replace(values[0], pieces=tuple(piece for value in values for piece in value.pieces))

    def _stretches(self, stage: Stage) -> list[Stretch]:
        """The channels of a stage's image in the shares of the tiles that computed it."""
        results = self.stages.by_result
        stretches, start = list[Stretch](), 0
        for symbol in self._symbols(stage):
            if symbol not in results:
                return engine_stretches(Stretch(0, stage.source.shape[-1], 1), stage.layer.fmt)
            share = self._share(results[symbol])
            width, count = share.slices
            stretches += engine_stretches(Stretch(start, width, count), stage.layer.fmt)
            start += share.channels
        return stretches

    def _load_weights(self, number: int) -> None:
        """Load the weights of a stage for this tile's channels."""
        kernel, stage = self.kernel, self.stages.order[number]
        share, layer = self._share(stage), stage.layer
        if not layer.kind.weighted:
            return
        stretches = [] if layer.channelwise else self._stretches(stage)
        runs = [*weight_runs(kernel, stage, Stretch(0, share.width, share.tiles), stretches)]
        with kernel.computing(stage.work.name):
            bases = [kernel.buffer("w", t.size * t.bytes_each * count) for (t, _), count in runs]
        with kernel.registers.scope(), self._taking_part(share):
            for base, ((tensor, first), count) in zip(bases, runs, strict=True):
                source = tensor.at(first)
                kernel.emit(f"rdma.{tensor.fmt.token}", dst=base, src=source, n=tensor.size * count)
        self.weights[stage.result.symbol] = [
            base + at * tensor.size * tensor.bytes_each
            for base, ((tensor, _), count) in zip(bases, runs, strict=True)
            for at in range(count)
        ]

    def _load_ahead(self, number: int) -> None:
        """Begin the weight loads that are scheduled after a stage."""
        for turn in self.ahead.loads.get(number, ()):
            with self.kernel.on_worker(turn.worker):
                for other in turn.stages:
                    self._load_weights(other)

    def _load_biases(self) -> None:
        """Load the FP32 biases and the byte products' vectors of all stages for this tile's channels."""
        kernel, order = self.kernel, self.stages.order
        self.vectors = map_vectors(kernel, order, self._share)
        self.matrices = sum_matrices(kernel, order)
        self.biases = shared_biases(kernel, order, self._share)

    def _begin_sums(self, number: int) -> None:
        """Write the initial sums of a stage with a bias, unless that is done or would be too early."""
        if number >= len(self.stages.order):
            return
        kernel, stage = self.kernel, self.stages.order[number]
        share, residual, symbol = self._share(stage), stage.epilogue.residual, stage.result.symbol
        there = residual is None or self._is_there(residual)
        if symbol in self.starts or symbol not in self.biases or not there:
            return
        with self._taking_part(share), kernel.registers.scope(), kernel.computing(stage.work.name):
            start = slice_buffer(kernel, "start", Format.FP32, stage.grid, share.width)
            self.being_read.append(self.biases[symbol])
            if residual is None:
                spread(kernel, start, self.biases[symbol])
            else:
                added = self.own(residual, share, start.grid.room, start.grid.width)
                self.being_read.append(added.base)
                move(kernel, added, start)
                per_channel(kernel, "add", start, self.biases[symbol])
        self.starts[symbol] = start

    def _is_there(self, tensor: DdrTensor) -> bool:
        """True if this tile's channels of a value are in the scratchpad or in DDR."""
        made = tensor.symbol in self.stages.made
        return not made or tensor.symbol in self.values or tensor.symbol in self.kept

    def _reserve(self, number: int) -> None:
        """Reserve the buffer of the next value that stage ``number`` or a later one sends.

        Tiles may write it now.
        """
        stage = next(filter(self._is_sent, self.stages.order[number:]), None)
        if stage is not None:
            share, grid = self._share(stage), stage.grid
            with self.kernel.computing(stage.work.name):
                target = self.kernel.buffer("v", share.tiles * share.pitch(grid, stage.result.fmt))
            self.kernel.receive(target)
            self.targets[stage.result.symbol] = target

    def stage(self, number: int) -> None:
        """Compute this tile's channels of a stage, and send them to all tiles that need them.

        Where nothing is sent the engines may still be at work when the next stage begins.
        """
        kernel, stage = self.kernel, self.stages.order[number]
        share, symbol, sent = self._share(stage), stage.result.symbol, self._is_sent(stage)
        if self.ahead.awaits_at(number):
            for worker in self.ahead.awaits[number]:
                kernel.await_worker(worker)
                if self.ahead.in_turns and self.ahead.is_last(worker, number):
                    kernel.released[worker] = kernel.out.count  # the next phase may use it
            if not self.ahead.in_turns:
                self._load_ahead(number)
        self._begin_sums(number)
        with self._taking_part(share), kernel.registers.scope():
            result = self._result(stage, share, stage.grid)
            if symbol in self.stages.places:
                lane = self.stages.places[symbol] + kernel.tile * share.width
                store_slice(kernel, result, self.work.output, Place(0, 0, lane))
        if number > 0 and (self.ahead.in_turns or not self.ahead.awaits_at(number)):
            self.postponed.append(number)  # the exchange of the images has begun the sums of stage 0
        if not sent and number > 0 and not self.ahead.awaits_at(number + 1):
            self.kept[symbol] = result
            self._begin_sums(number + 1)
            return
        kernel.emit("ncc.wait")
        while self.being_read:
            kernel.keep_alive(self.being_read.pop())
        if sent:
            with self._taking_part(share):
                self._send(stage, share, result)
        else:
            self.kept[symbol] = result
        while self.postponed:
            self._load_ahead(self.postponed.pop(0))
        self._begin_sums(number + 1)
        if sent:
            kernel.emit("dte.wait")
            kernel.keep_alive(result.base)
            kernel.meet()
            pieces = (share.piece(self.targets[symbol], result.grid, result.fmt),)
            self.values[symbol] = Whole(result.fmt, result.grid, pieces)
            self._reserve(number + 1)

    def _send(self, stage: Stage, share: Share, result: Aligned) -> None:
        """Start to send this tile's channels to all tiles."""
        kernel, grid = self.kernel, result.grid
        place = self.targets[stage.result.symbol] + kernel.tile * share.pitch(grid, result.fmt)
        size, everyone = share.bytes(grid, result.fmt), (1 << kernel.target.tiles) - 1
        kernel.emit("dte.broadcast", dst=place, src=result.base, tiles=everyone, n=size)

    def _is_sent(self, stage: Stage) -> bool:
        """True if a result is sent to all tiles."""
        return stage.result.symbol in self.exchanged

    def _result(self, stage: Stage, share: Share, grid: Grid) -> Aligned:
        """This tile's channels in the format of the result, all steps applied."""
        kernel, geometry = self.kernel, stage.layer.geometry
        window = row_block(kernel, geometry, 0, geometry.rows, geometry.rows)
        if stage.layer.kind is Kind.SUM:
            result = self._summed(stage, share)
        elif stage.layer.kind is Kind.POOL:
            result = self._pooled(stage, share, window)
        elif of_bytes(stage):
            result = self._bytes(stage, share, window)
        else:
            result = self._products(stage, share, window)
        at = Place(0, 0, kernel.tile * share.width)
        apply_steps(_Region(kernel, result, at, self, share), result.base, stage.epilogue.steps)
        return result if result.fmt is stage.result.fmt else narrowed_slice(kernel, result, stage.result.fmt)

    def _summed(self, stage: Stage, share: Share) -> Aligned:
        rows, columns = stage.layer.geometry.rows, stage.layer.geometry.columns
        a, b = (self.own(tensor, share, rows, columns) for tensor in (stage.source, *added_values(stage)))
        matrices = self.matrices[stage.result.symbol]
        return summed_slice(self.kernel, sum_quantisation(stage.work.spec), a, b, matrices)

    def _pooled(self, stage: Stage, share: Share, window: RowBlock) -> Aligned:
        name = pool_instruction(stage.work.op)
        data = self.own(stage.source, share, stage.layer.geometry.height, stage.layer.geometry.width)
        if data.fmt is Format.INT8:
            return largest_bytes(self.kernel, stage.layer.geometry, window, data)
        if not stage.layer.engine_rounds:
            data = widened_slice(self.kernel, data)
        return pool_slice(self.kernel, name, stage.layer.geometry, window, data)

    def _bytes(self, stage: Stage, share: Share, window: RowBlock) -> Aligned:
        weights, vectors = self.weights[stage.result.symbol], self.vectors[stage.result.symbol]
        product = sums_of_bytes(self.kernel, stage, window, share.width, vectors)
        slices = [part for each in self._source(stage).slices() for part in engine_slices(each)]
        image = ByteImage(slices, self._stretches(stage))
        return multiply_bytes(product, image, weights, vectors, None)

    def _products(self, stage: Stage, share: Share, window: RowBlock) -> Aligned:
        kernel, layer = self.kernel, stage.layer
        weights = self.weights[stage.result.symbol]
        if layer.channelwise:
            images = [self.own(stage.source, share, layer.geometry.height, layer.geometry.width)]
        else:
            images = self._source(stage).slices()
        fmt = engine_format(layer.fmt) if layer.engine_rounds else Format.FP32
        result = slice_buffer(kernel, "y", fmt, window.output, share.width)
        start = self._sums_begin(stage, share)
        sums = result
        if len(images) > 1 and fmt is not Format.FP32:
            sums = slice_buffer(kernel, "sums", Format.FP32, window.output, share.width)
        for number, (image, part) in enumerate(zip(images, weights, strict=True)):
            target = result if number == len(images) - 1 else sums
            multiply_slice(kernel, layer, window.pad, [image], [part], target, start)
            start = sums
        return result

    def _sums_begin(self, stage: Stage, share: Share) -> Aligned | None:
        residual, geometry = stage.epilogue.residual, stage.layer.geometry
        if stage.result.symbol in self.starts:
            return self.starts[stage.result.symbol]
        return None if residual is None else self.own(residual, share, geometry.rows, geometry.columns)

    def own(self, tensor: DdrTensor, share: Share, rows: int, columns: int) -> Aligned:
        """This tile's channels of a tensor, which must not be overwritten; loaded if it is in DDR."""
        if tensor.symbol in self.kept:
            return self.kept[tensor.symbol]
        value = self.values.get(tensor.symbol)
        found = value.own(self.kernel.tile, share) if value is not None else None
        if found is not None:
            return found
        place = Place(0, 0, self.kernel.tile * share.width)
        return load_slice(self.kernel, "own", tensor, place, Grid(rows, columns, rows), share.width)


@dataclass(frozen=True)
class _Region(AlignedResult):
    """Operands of steps may be values of the stack."""

    phase: _Phase
    share: Share

    def load_like(self, tensor: DdrTensor) -> Value:
        if tensor.symbol not in self.phase.values and tensor.symbol not in self.phase.kept:
            return super().load_like(tensor)
        grid = self.data.grid
        own = self.phase.own(tensor, self.share, grid.room, grid.width)
        copy = slice_buffer(self.kernel, "operand", self.fmt, grid, self.share.width)
        move(self.kernel, own, copy)
        return copy.base
