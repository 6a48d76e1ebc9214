"""The stages of a stack for a block of rows: loads, products, steps, and the values left for later stages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from compiler.codegen.expr import Value
from compiler.codegen.kernel import Kernel
from compiler.codegen.slices.aligned import (
    Aligned,
    Grid,
    Place,
    aligned_bytes,
    load_slice,
    narrowed_slice,
    per_channel,
    slice_buffer,
    spread,
    store_slice,
    widened_slice,
)
from compiler.codegen.slices.precision import engine_format, split
from compiler.codegen.slices.tensors import BLOCK, DdrTensor, Stretch
from compiler.codegen.slices.windows import RowBlock, row_block
from compiler.evaluation.sizes import here
from compiler.lowering.conv.layer import Kind
from compiler.lowering.conv.pooling import largest_bytes, pool_instruction, pool_slice
from compiler.lowering.conv.product import multiply_slice
from compiler.lowering.conv.quantised.int8 import engine_slices, engine_stretches
from compiler.lowering.conv.quantised.sums import summed_slice
from compiler.lowering.pointwise.epilogue import AlignedResult, apply_steps
from compiler.lowering.record import SequenceWork, Step
from compiler.operators.quantised.sums import sum_quantisation
from tx8isa.numbers.division import round_up
from tx8isa.numbers.formats import Format
from tx8isa.numbers.layouts import tail_width

from .byte_products import ByteImage, map_vectors, multiply_bytes, of_bytes, sum_matrices, sums_of_bytes
from .constants import BIAS_PARTS, Bias, Biases, repeating_cycles
from .stages import NeededRows, Stage, Stages, added_early, after_pools, last_pieces
from .values import Held, StackBlock, move

_TOGETHER = 16
"""Largest part of the scratchpad for biases of several stages that one instruction repeats."""


@dataclass(frozen=True)
class _Start:
    """The initial sums of a stage in a buffer, after planes of other stages with as many positions.

    ``skipped``: bytes of those planes for each position.
    """

    base: Value
    skipped: int = 0

    def at(self, grid: Grid) -> Value:
        """The address, for the positions of a stage."""
        return self.base + grid.positions * self.skipped if self.skipped else self.base


class RowPhase:
    """Emits the code of blocks.

    The fields have symbols as keys. ``weights`` are the addresses of the parts of each stage's weights,
    ``held`` the values in the scratchpad, ``starts`` the initial sums, ``targets`` the addresses of results
    with a fixed place. Other results get buffers of their own.
    """

    def __init__(self, kernel: Kernel, work: SequenceWork, stages: Stages, biases: Biases) -> None:
        self.kernel, self.work, self.stages = kernel, work, stages
        self.biases, self.ones = biases.found, biases.ones
        self.weights: dict[str, list[Value]] = {}
        self.held: dict[str, list[Held]] = {}
        self.starts: dict[str, _Start] = {}
        self.targets: dict[str, Value] = {}
        self.vectors, self.matrices = map_vectors(kernel, stages.order), sum_matrices(kernel, stages.order)
        self.last_pieces, self.after_pools = last_pieces(stages), after_pools(stages)

    def load(self, block: StackBlock) -> None:
        """Load everything that the block needs from DDR, except for operands of steps.

        The first initial sums are written meanwhile.
        """
        made = self.stages.made
        images = [stage for stage in self.stages.order if stage.source.symbol not in made]
        for stage in images:
            same = stage.source.shape[-1] > BLOCK or not _is_part(stage, images)
            if same and self.find(stage.source, stage.image, same=True) is None:
                self._load(stage.source, stage.image, stage.layer.geometry.width, block)
        for stage in self.stages.order:
            addend = added_early(stage)
            if addend is None and stage.result.symbol in self.biases and not self.starts:
                self._spread(stage, block)
            if addend is not None and addend.symbol not in made and self.find(addend, stage.rows) is None:
                self._load(addend, stage.rows, stage.layer.geometry.columns, block)

    def _spread(self, stage: Stage, block: StackBlock) -> None:
        """Write the bias at every position of a stage's rows, as its initial sums.

        If it pays, the same instruction writes those of later stages with equally many positions.
        """
        kernel = self.kernel
        with kernel.registers.scope(), kernel.computing(stage.work.name):
            first = kernel.let(block.first(stage.rows))
            grid = block.grid(kernel, stage.rows, first, stage.layer.geometry.columns)
            together, channels = [(stage, 0)], stage.layer.groups.maps
            for other in self._alike(stage):
                place, maps = round_up(channels, BLOCK), other.layer.groups.maps
                if not self._pays(stage, grid, place + maps, len(together)):
                    break
                together.append((other, place))
                channels = place + maps
            start = slice_buffer(kernel, "start", Format.FP32, grid, channels)
            bias = self.biases[stage.result.symbol]
            if bias.in_parts:
                self._multiply(start, bias)
            else:
                spread(kernel, start, bias.base)
        for each, place in together:
            self.starts[each.result.symbol] = _Start(start.base, place * Format.FP32.bits // 8)

    def _pays(self, stage: Stage, grid: Grid, channels: int, saved: int) -> bool:
        """True if one instruction should repeat a stage's bias with others, ``channels`` in all.

        The stage waits for the others: at most as long as for a barrier, or as submitting the ``saved``
        instructions takes.
        """
        target, positions = self.kernel.target, here(grid.room * grid.width)
        if aligned_bytes(positions, channels, Format.FP32) > target.spm_bytes // _TOGETHER:
            return False
        in_parts = self.biases[stage.result.symbol].in_parts
        waits = repeating_cycles(target.machine, positions, channels, in_parts)
        waits -= repeating_cycles(target.machine, positions, stage.layer.groups.maps, in_parts)
        timing = target.machine.timing
        issue = timing.issue.of("ne" if in_parts else "tdma").value
        return waits <= max(timing.barrier.fixed.value, saved * issue)

    def _multiply(self, start: Aligned, bias: Bias) -> None:
        """Repeat a bias by a product with ones, in an eighth of the time of a copy by the TDMA engine.

        The sums are exact, because the parts of a bias have different bits.
        """
        kernel = self.kernel
        assert self.ones is not None
        kernel.emit(
            "ne.gemm.tf32",
            out=start.base,
            out_format="fp32",
            m=start.grid.positions,
            k=BIAS_PARTS,
            n=start.channels,
            a=self.ones,
            b=bias.base,
            rt=1,
        )

    def _alike(self, stage: Stage) -> Iterator[Stage]:
        """The stages just after a stage that also begin with only a bias, at equally many positions."""
        biased = [each for each in self.stages.order if each.result.symbol in self.biases]
        for before, each in pairwise(biased[biased.index(stage) :]):
            same = each.rows == stage.rows and each.layer.geometry.columns == stage.layer.geometry.columns
            ends = tail_width(before.layer.groups.maps, BLOCK) or each.epilogue.residual is not None
            first, second = (self.biases[one.result.symbol] for one in (before, each))
            same = same and (first.in_parts, first.run) == (second.in_parts, second.run)
            if not same or ends or each.result.symbol in self.starts:
                return
            yield each

    def _load(self, tensor: DdrTensor, rows: NeededRows, width: int, block: StackBlock) -> None:
        with self.kernel.registers.scope():
            first = self.kernel.let(block.first(rows))
            at = Place(block.image, first * width)
            grid = block.grid(self.kernel, rows, first, width)
            data = load_slice(self.kernel, "x", tensor, at, grid, tensor.shape[-1])
        self.hold(tensor, rows, data)

    def hold(self, tensor: DdrTensor, rows: NeededRows, data: Aligned) -> None:
        held = Held(rows, data.base, data.fmt, data.channels, data.grid.width)
        self.held.setdefault(tensor.symbol, []).append(held)

    def find(self, tensor: DdrTensor, rows: NeededRows, same: bool = False) -> Held | None:
        """The held rows of a tensor that include ``rows``; ``same``: those and no others."""
        for held in self.held.get(tensor.symbol, []):
            if held.rows == rows or (not same and held.rows.hold(rows)):
                return held
        return None

    def compute(self, block: StackBlock) -> None:
        """All stages of a block."""
        for stage in self.stages.order:
            self.stage(stage, block)

    def stage(self, stage: Stage, block: StackBlock) -> None:
        """One stage, from values in the scratchpad to a value in the scratchpad, and to the result."""
        with self.kernel.registers.scope(), self.kernel.computing(stage.work.name):
            self._stage(stage, block)

    def _stage(self, stage: Stage, block: StackBlock) -> None:
        kernel, layer, symbol = self.kernel, stage.layer, stage.result.symbol
        first = kernel.let(block.first(stage.rows))
        grid = block.grid(kernel, stage.rows, first, layer.geometry.columns)
        window = row_block(kernel, layer.geometry, first, grid.height, grid.room)
        at = Place(block.image, first * layer.geometry.columns)
        target = self._target(stage, grid)
        result = self._result(stage, block, window, target)
        changed = self._changed(stage, result)
        if changed is not None:
            apply_steps(_Region(kernel, changed, at, self, stage, block), changed.base, self._steps(stage))
        if target is not None and result is not target:
            move(kernel, result, target)
            result = target
        if symbol in self.stages.pieces:
            return
        if result.fmt is not stage.result.fmt:
            result = narrowed_slice(kernel, result, stage.result.fmt)
        self.hold(stage.result, stage.rows, result)
        if symbol in self.stages.places:
            lane = self.stages.places[symbol]
            store_slice(kernel, result, self.work.output, Place(at.image, at.position, lane))

    def _target(self, stage: Stage, grid: Grid) -> Aligned | None:
        """The place of a stage's result; None if any place will do."""
        symbol, fmt = stage.result.symbol, stage.result.fmt
        if symbol in self.targets:
            return Aligned(self.targets[symbol], fmt, grid, stage.result.shape[-1])
        if symbol not in self.stages.pieces:
            return None
        piece = self.stages.pieces[symbol]
        whole = piece.whole
        if whole.symbol not in self.held:
            self.hold(whole, stage.rows, slice_buffer(self.kernel, "joined", fmt, grid, whole.shape[-1]))
        skipped = grid.positions * (piece.channel * fmt.bits // 8)
        place = self.held[whole.symbol][0].base + skipped
        return Aligned(place, fmt, grid, stage.result.shape[-1])

    def _changed(self, stage: Stage, result: Aligned) -> Aligned | None:
        """The slice to which a stage's steps are applied: usually its result. None if a pool can come first.
        If one longer instruction takes less time than several, it is the whole of a join for its last
        piece, and None for the other pieces.
        """
        if stage.result.symbol in self.after_pools:
            return None
        last = self.last_pieces.get(stage.result.symbol)
        if last is None:
            return result
        piece, timing = self.stages.pieces[last], self.kernel.target.machine.timing
        early = result.grid.room * result.grid.width * piece.channel
        if early > timing.issue.of("ct").value * getattr(timing.ct.rates, result.fmt.token).value:
            return result
        if stage.result.symbol != last:
            return None
        whole = piece.whole
        return Aligned(self.held[whole.symbol][0].base, result.fmt, result.grid, whole.shape[-1])

    def _steps(self, stage: Stage) -> tuple[Step, ...]:
        """The steps for a result: first the steps postponed from its image, then its own."""
        makers = [each for each in self.stages.order if self.after_pools.get(each.result.symbol) is stage]
        return (*(makers[0].epilogue.steps if makers else ()), *stage.epilogue.steps)

    def _result(self, stage: Stage, block: StackBlock, window: RowBlock, target: Aligned | None) -> Aligned:
        """Compute the operator before its steps; in its final place if it has the format for that."""
        kernel, layer = self.kernel, stage.layer
        data = self._image(stage, block, window)
        if layer.kind is Kind.SUM:
            other = self._like(stage.work.input(1), stage, block, window.output)
            matrices = self.matrices[stage.result.symbol]
            return summed_slice(kernel, sum_quantisation(stage.work.spec), data, other, matrices)
        if layer.kind is Kind.POOL and data.fmt is Format.INT8:
            return largest_bytes(kernel, layer.geometry, window, data)
        if layer.kind is Kind.POOL:
            name = pool_instruction(stage.work.op)
            return pool_slice(
                kernel,
                name,
                layer.geometry,
                window,
                data if layer.engine_rounds else widened_slice(kernel, data),
            )
        if of_bytes(stage):
            return self._bytes(stage, window, data, target)
        start = self._start(stage, block, window.output)
        fmt = engine_format(layer.fmt) if layer.engine_rounds else Format.FP32
        if target is not None and target.fmt is fmt:
            result = target
        else:
            result = slice_buffer(kernel, "y", fmt, window.output, layer.groups.maps)
        multiply_slice(
            kernel, layer, window.pad, split(kernel, data), self.weights[stage.result.symbol], result, start
        )
        return result

    def _bytes(self, stage: Stage, window: RowBlock, data: Aligned, target: Aligned | None) -> Aligned:
        """The result of a convolution of bytes from the rows of its image."""
        maps, vectors = stage.layer.groups.maps, self.vectors[stage.result.symbol]
        product = sums_of_bytes(self.kernel, stage, window, maps, vectors)
        stretches = engine_stretches(Stretch(0, data.channels, 1), data.fmt)
        image = ByteImage(engine_slices(data), stretches, window.output.height)
        return multiply_bytes(product, image, self.weights[stage.result.symbol], vectors, target)

    def _image(self, stage: Stage, block: StackBlock, window: RowBlock) -> Aligned:
        """The rows of the image that the windows touch, and no others."""
        grid = Grid(window.input.height, window.input.width, stage.image.most(block.most))
        held = self.find(stage.source, stage.image, same=True) or self.find(stage.source, stage.image)
        assert held is not None
        view = held.view(self.kernel, block, stage.image, grid)
        return view if view is not None else held.copy(self.kernel, block, stage.image, grid, held.fmt)

    def _start(self, stage: Stage, block: StackBlock, grid: Grid) -> Aligned | None:
        """The initial sums of a convolution: residual and bias."""
        residual, symbol = stage.epilogue.residual, stage.result.symbol
        if symbol in self.biases:
            self.begin_sums(stage, block)
            return Aligned(self.starts[symbol].at(grid), Format.FP32, grid, stage.layer.groups.maps)
        return None if residual is None else self._like(residual, stage, block, grid)

    def _like(self, tensor: DdrTensor, stage: Stage, block: StackBlock, grid: Grid) -> Aligned:
        """The rows of a stage's result of a tensor in the scratchpad."""
        held = self.find(tensor, stage.rows)
        assert held is not None
        view = held.view(self.kernel, block, stage.rows, grid)
        return view or held.copy(self.kernel, block, stage.rows, grid, held.fmt)

    def begin_sums(self, stage: Stage, block: StackBlock) -> None:
        """Write the initial sums of a convolution with a bias, unless that is done or would be too early."""
        kernel, residual, symbol = self.kernel, stage.epilogue.residual, stage.result.symbol
        if symbol in self.starts or symbol not in self.biases:
            return
        if residual is None:
            self._spread(stage, block)
            return
        held = self.find(residual, stage.rows)
        if held is None:
            return
        with kernel.registers.scope(), kernel.computing(stage.work.name):
            first = kernel.let(block.first(stage.rows))
            grid = block.grid(kernel, stage.rows, first, stage.layer.geometry.columns)
            start = held.copy(kernel, block, stage.rows, grid, Format.FP32)
            per_channel(kernel, "add", start, self.biases[symbol].base)
        self.starts[symbol] = _Start(start.base)

    def rows_of(self, tensor: DdrTensor, stage: Stage, block: StackBlock, data: Aligned) -> Value | None:
        """A copy of the same rows of another value, in the format of the data; None if it is in DDR."""
        held = self.find(tensor, stage.rows)
        return None if held is None else held.copy(self.kernel, block, stage.rows, data.grid, data.fmt).base


def _is_part(stage: Stage, images: Sequence[Stage]) -> bool:
    """True if the image of a stage is a part of that of another one."""
    others = [each.image for each in images if each.source.symbol == stage.source.symbol]
    return any(image != stage.image and image.hold(stage.image) for image in others)


@dataclass(frozen=True)
class _Region(AlignedResult):
    """Operands of steps may be values of the stack."""

    phase: RowPhase
    stage: Stage
    block: StackBlock

    def load_like(self, tensor: DdrTensor) -> Value:
        found = self.phase.rows_of(tensor, self.stage, self.block, self.data)
        return super().load_like(tensor) if found is None else found
