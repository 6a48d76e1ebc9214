"""Stacks whose tiles compute bands of rows, and send the rows at their edges to neighbouring tiles.

Every row of a value is computed by one tile. Where windows reach over the edge of a band, the tile gets the
rows beyond it, the *halo*, from its neighbours over the DTE. All tiles meet after such an exchange; the
stages up to the next one are a *step*. While earlier steps are computed, each tile reads a part of the
weights of a step, and sends it to all a step before it is needed. So between the first stage and the last,
only weights are read from DDR.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace

from compiler.codegen.expr import Value, minimum
from compiler.codegen.kernel import Kernel, Target
from compiler.codegen.slices.aligned import Aligned, Grid, aligned_bytes
from compiler.codegen.slices.shards import within
from compiler.codegen.slices.tensors import BLOCK, DdrTensor
from compiler.codegen.teams.gather import Gather, enter, meet_all
from compiler.codegen.teams.team import TileGrid, sending_to
from compiler.lowering.record import SequenceWork, exchanges_in
from tx8isa.numbers.layouts import LINE_BYTES, aligned_channels

from .bands import Bands, Halo, HaloStep, bands_of, owned_stages, steps_of, weight_sends
from .constants import BiasRun, StoredBiases, bias_runs, loaded_biases, stored_biases
from .cuts import AHEAD, TOGETHER, halo_cut
from .placement import exchanges_of_halos, order_at
from .rows import RowPhase
from .stages import NeededRows, Stage, Stages
from .step_weights import StepWeights
from .values import StackBlock

_BACKGROUND = 1
"""The worker that loads the weights of later steps; another one is left to the next phase."""
_WORTH_GATHERING = 32768
"""Least bytes of biases that tiles load in parts: sixteen loads of all take DDR longer than the copies."""


def halo_stack(kernel: Kernel, work: SequenceWork, stages: Stages) -> None:
    """Write the code of all stages by bands of rows; ValueError where ``bands_of`` gives none."""
    assert work.cut is not None
    bands = bands_of(stages, work.cut.parts("rows"))
    if bands is None:
        raise ValueError("the rows of a stack cannot be divided among neighbours")
    ahead, together = (dict(work.cut.sizes).get(name, 1) for name in (AHEAD, TOGETHER))
    if ahead not in (1, 2) or work.cut != halo_cut(bands, ahead, together):
        raise ValueError(f"the rows are divided into {bands.count} bands of {bands.size}")
    kernel.busiest = (bands.count - 1) // 2
    owned = owned_stages(stages)
    exchanges = exchanges_in(work, [*exchanges_of_halos(work, owned)])
    steps = steps_of(owned, {each.symbol: order_at(work, owned, each.before) for each in exchanges})
    loaded, gathered = (
        bias_runs(kernel, stored) for stored in _divided_biases(kernel.target, steps, bands.size)
    )
    phase = RowPhase(kernel, work, owned, loaded_biases(kernel, loaded, gathered))
    everyone = TileGrid((kernel.target.tiles,), (kernel.tile,)).team(kernel, 0)
    sends = weight_sends(steps, ahead)
    weights = StepWeights(kernel, phase, sending_to(everyone, bands.count), steps, sends, together)
    _Phase(kernel, bands, phase, steps, gathered, weights).run()


def _divided_biases(
    target: Target, steps: Sequence[HaloStep], rows: int
) -> tuple[StoredBiases, StoredBiases]:
    """The biases that every tile loads, and those that tiles load in parts for each other.

    Biases that are needed before the first meeting cannot be loaded in parts.
    """
    first, *others = steps
    later = [stage for step in others for stage in step.stages]
    gathered = stored_biases(target, later, rows)
    if gathered.data.nbytes < _WORTH_GATHERING:
        return stored_biases(target, [*first.stages, *later], rows), stored_biases(target, [], rows)
    return stored_biases(target, first.stages, rows), gathered


@dataclass(frozen=True)
class _Inbox:
    """Buffers in which the neighbours' rows arrive: slices of their own, or the slice that is read.

    ``slice`` is the address of that slice, which holds ``above`` and then this tile's own rows; None if a
    later copy makes it. ``complete`` says whether ``below`` arrives in it too.
    """

    above: Value
    below: Value
    slice: Value | None = None
    complete: bool = False


class _Phase:
    def __init__(
        self,
        kernel: Kernel,
        bands: Bands,
        phase: RowPhase,
        steps: list[HaloStep],
        biases: list[BiasRun],
        weights: StepWeights,
    ) -> None:
        self.kernel, self.bands, self.phase, self.steps = kernel, bands, phase, steps
        self.team, self.weights = weights.team, weights
        self.gathered_biases = biases
        """Biases that tiles load in parts for each other."""
        begin = kernel.let(minimum(kernel.tile * bands.size, bands.last))
        count: Value = bands.size
        if bands.rows % bands.size:
            count = kernel.let(within(minimum(bands.size, bands.rows - begin), 1, bands.size))
        self.block = StackBlock(0, begin, count, bands.size)
        self.inboxes: dict[str, _Inbox] = {}
        self.being_read: list[Value] = []
        """Buffers that engines may read until the next wait for them, though all tiles meet before."""

    def run(self) -> None:
        """Compute all stages, exchange by exchange."""
        kernel = self.kernel
        self.weights.load(-1)
        biases = [self._gather(each.run, each.base) for each in self.gathered_biases]
        enter(kernel)
        # Not earlier: nothing orders this worker after another one's commands of the phase before.
        self._load_ahead(0)
        self._reserve(0)
        for gather in biases:
            kernel.receive(gather.target)
            gather.send()
        gathers = biases + self.weights.send(-1)
        with self._taking_part():
            self.phase.load(self.block)
            self._begin_sums(self.steps[0].stages[:1])
        kernel.await_worker(_BACKGROUND)
        meet_all(kernel, gathers, engines=False)
        for number in range(len(self.steps)):
            if number:
                self._exchange(number)
            self._reserve(number + 1)
            if number == 0:
                self._load_ahead(1)
            self._compute(number)

    def _compute(self, number: int) -> None:
        """Compute the stages of a step; the weights of the next step are in transit meanwhile."""
        kernel, step = self.kernel, self.steps[number]
        first, *others = step.stages
        self.weights.send(number)
        with self._taking_part():
            for halo in step.halos:
                with kernel.computing(self._maker(halo).work.name):
                    self._assemble(halo)
            self.phase.stage(first, self.block)
            self._begin_sums(others)
            for stage in others:
                self.phase.stage(stage, self.block)

    # --- constants --------------------------------------------------------------------------------------

    def _gather(self, run: DdrTensor, base: Value) -> Gather:
        """Load this tile's part of a run that all tiles get."""
        return Gather.loaded(self.kernel, self.team, (run, 0, run.size), base)

    def _load_ahead(self, number: int) -> None:
        with self.kernel.on_worker(_BACKGROUND):
            self.weights.load(number)

    def _reserve(self, number: int) -> None:
        """Reserve the buffers that the exchange of a step fills: from here on other tiles write them."""
        if number >= len(self.steps):
            return
        kernel = self.kernel
        for gather in self.weights.parts.get(number - 1, []):
            kernel.receive(gather.target)
        for halo in self.steps[number].halos:
            maker = self._maker(halo)
            with kernel.computing(maker.work.name):
                inbox = self._inbox(halo, in_place=maker in self.steps[number - 1].stages)
            kernel.receive(inbox.above)
            kernel.receive(inbox.below)
            self.inboxes[halo.symbol] = inbox

    def _inbox(self, halo: Halo, in_place: bool) -> _Inbox:
        """Buffers for the rows of the neighbours; ``in_place``: the value is computed later."""
        kernel, maker = self.kernel, self._maker(halo)
        columns, result, pieces = maker.layer.geometry.columns, maker.result, self.phase.stages.pieces
        whole = pieces[result.symbol].whole if result.symbol in pieces else result
        rows = (max(each, 1) for each in (halo.above, halo.below))
        above, below = (aligned_bytes(each * columns, whole.shape[-1], whole.fmt) for each in rows)
        if not in_place or whole is not result or not _is_one_plane(maker):
            return _Inbox(kernel.buffer("halo", above), kernel.buffer("halo", below))
        row = columns * aligned_channels(result.shape[-1], BLOCK) * result.bytes_each
        own, before = halo.own.most(self.bands.size) * row, halo.above * row
        skipped = -(before + own) % LINE_BYTES
        first = kernel.buffer("rows", skipped + before + own + below) + skipped
        self.phase.targets[halo.symbol] = first + before
        # An engine writes whole lines, also over rows after its own ones, which may have arrived before.
        complete = own % LINE_BYTES == 0
        after = first + before + own if complete else kernel.buffer("halo", below)
        begin = first + (1 - minimum(kernel.tile, 1)) * before
        return _Inbox(first, after, begin, complete)

    def _begin_sums(self, stages: Sequence[Stage]) -> None:
        """Write the initial sums of stages."""
        for stage in stages:
            residual = stage.epilogue.residual
            added = self.phase.find(residual, stage.rows) if residual is not None else None
            self.being_read += [added.base] if added is not None else []
            self.being_read += [bias.base for bias in self.phase.biases.values()][:1]
            self.phase.begin_sums(stage, self.block)
            self.being_read += [self.phase.ones] if self.phase.ones is not None else []

    # --- exchanges --------------------------------------------------------------------------------------

    def _taking_part(self) -> AbstractContextManager[None]:
        """Code for the tiles that have a band."""
        if self.bands.count == self.kernel.target.tiles:
            return nullcontext()
        return self.kernel.if_below(self.kernel.tile, self.bands.count)

    def _exchange(self, number: int) -> None:
        """Send the rows at the edges of the band; all tiles wait until all have done so."""
        kernel, step = self.kernel, self.steps[number]
        kernel.emit("ncc.wait")
        while self.being_read:
            kernel.keep_alive(self.being_read.pop())
        for halo in step.halos:
            self._send(halo)
            self.being_read.append(self._own(halo).base)
        if self.weights.awaits(number):
            kernel.await_worker(_BACKGROUND)
        with self._taking_part():
            for halo in step.halos:
                with kernel.computing(self._maker(halo).work.name):
                    self._assemble_own(halo)
            self._begin_sums(step.stages)
        self._load_ahead(number + 1)
        kernel.emit("dte.wait")
        kernel.meet()
        for source in self.being_read:
            kernel.keep_alive(source)
        for gather in self.weights.parts.get(number - 1, []):
            kernel.keep_alive(gather.staged)

    def _maker(self, halo: Halo) -> Stage:
        """The first stage that computes a value, or a piece of it."""
        stages = self.phase.stages
        return next(
            stage
            for stage in stages.order
            if halo.symbol == stage.result.symbol
            or (
                (piece := stages.pieces.get(stage.result.symbol)) is not None
                and piece.whole.symbol == halo.symbol
            )
        )

    def _own(self, halo: Halo) -> Aligned:
        """The rows of a value that this tile has computed."""
        held = next(held for held in self.phase.held[halo.symbol] if held.rows == halo.own)
        return Aligned(
            held.base, held.fmt, Grid(1, held.width, halo.own.most(self.bands.size)), held.channels
        )

    def _send(self, halo: Halo) -> None:
        """Send the first rows to the tile before, the last rows to the tile after."""
        kernel, tile, inbox = self.kernel, self.kernel.tile, self.inboxes[halo.symbol]
        band = halo.own.step * self.bands.size
        if halo.below:
            with self._taking_part(), kernel.unless_zero(tile):
                rows = self._below(halo, self.block.begin)
                self._send_rows(halo, halo.shared, rows, inbox.below, tile - 1)
        if halo.above:
            with kernel.if_below(tile + 1, self.bands.count):
                self._send_rows(halo, band - halo.above, halo.above, inbox.above, tile + 1)

    def _below(self, halo: Halo, begin: Value) -> Value:
        """Number of rows that the band that begins at ``begin`` sends to the tile before.

        The last may have fewer.
        """
        if halo.last_rows(self.bands) >= halo.below:
            return halo.below
        rest = minimum(halo.below, halo.own.limit - halo.shared - begin * halo.own.step)
        return self.kernel.let(within(rest, 1, halo.below))

    def _whole(self, halo: Halo, rows: NeededRows, base: Value) -> Aligned:
        """A slice of all ``rows`` of a value at an address."""
        own, kernel = self._own(halo), self.kernel
        first = kernel.let(self.block.first(rows))
        return replace(own, base=base, grid=self.block.grid(kernel, rows, first, own.grid.width))

    def _send_rows(self, halo: Halo, skipped: int, rows: Value, target: Value, tile: Value) -> None:
        """Send ``rows`` of this tile's rows, after ``skipped`` ones, plane by plane."""
        value = self._whole(halo, halo.own, self._own(halo).base)
        place = replace(value, base=target, grid=replace(value.grid, height=rows))
        for part in _parts(value):
            row = value.grid.width * part.width * value.fmt.bits // 8
            self.kernel.emit(
                "dte.shuffle",
                dst=place.plane(part.first),
                src=value.plane(part.first) + skipped * row,
                tile=tile,
                n=rows * row,
                src_stride0=value.grid.height * row,
                src_iter0=part.count,
            )

    def _assemble_own(self, halo: Halo) -> None:
        """Make a slice of all rows that this tile needs, and put its own rows there."""
        kernel, base = self.kernel, self.inboxes[halo.symbol].slice
        if base is None:
            own = self._whole(halo, halo.own, self._own(halo).base)
            room = halo.held.most(self.bands.size) * own.grid.width
            base = kernel.buffer("rows", aligned_bytes(room, own.channels, own.fmt))
            self._put(own, self._whole(halo, halo.held, base), self._rows_before(halo))
        held = self.phase.held[halo.symbol]
        held.append(replace(held[0], rows=halo.held, base=base))

    def _rows_before(self, halo: Halo) -> Value:
        """Rows of the tile before in the slice: ``above``, or 0 for the first tile."""
        first = self.block.first(halo.own) - self.block.first(halo.held)
        return self.kernel.let(within(first, 0, halo.above))

    def _assemble(self, halo: Halo) -> None:
        """Put the rows of the neighbours before and after this tile's own rows, unless they are there."""
        kernel, inbox = self.kernel, self.inboxes[halo.symbol]
        if inbox.complete:
            return
        base = self.phase.held[halo.symbol][-1].base
        whole, own = self._whole(halo, halo.held, base), self._own(halo)
        if halo.above and inbox.slice is None:
            with kernel.unless_zero(kernel.tile):
                self._put(replace(own, base=inbox.above, grid=replace(own.grid, height=halo.above)), whole, 0)
        if halo.below:
            with kernel.if_below(kernel.tile + 1, self.bands.count):
                rows = self._below(halo, self.block.begin + self.bands.size)
                after = self._rows_before(halo) + (halo.own.step * self.bands.size + halo.shared)
                self._put(replace(own, base=inbox.below, grid=replace(own.grid, height=rows)), whole, after)

    def _put(self, source: Aligned, whole: Aligned, row: Value) -> None:
        """Copy a slice to its rows of a larger one."""
        for part in _parts(source):
            unit = source.grid.width * part.width * source.fmt.bits // 8
            self.kernel.emit(
                "td.gatherscatter",
                dst=whole.plane(part.first) + row * unit,
                src0=source.plane(part.first),
                n=source.grid.height * unit,
                src_stride0=source.grid.height * unit,
                src_iter0=part.count,
                dst_stride0=whole.grid.height * unit,
                dst_iter0=part.count,
            )


def _is_one_plane(stage: Stage) -> bool:
    """True if the rows of a result are contiguous, so that the engine can write them into a larger slice."""
    return stage.result.shape[-1] <= BLOCK and stage.layer.kind.weighted


@dataclass(frozen=True)
class _Part:
    """Planes of a slice that are equally wide: the first, their number, and their stored channels."""

    first: int
    count: int
    width: int


def _parts(value: Aligned) -> Iterator[_Part]:
    """The whole planes of a slice, and its tail."""
    if value.planes:
        yield _Part(0, value.planes, BLOCK)
    if value.tail:
        yield _Part(value.planes, 1, value.tail)
