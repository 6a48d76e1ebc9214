"""Addresses of a tile's shares of the values of a sequence: in DDR, or in buffers of its scratchpad."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property

from compiler.codegen.expr import Address, Value, highest, maximum, minimum
from compiler.codegen.kernel import Argument, Kernel
from compiler.codegen.slices.tensors import DdrTensor, dma_format, zero_of
from compiler.codegen.teams.team import Team, meet, power_of_two, send
from compiler.evaluation.sizes import always
from compiler.graph import Shape
from compiler.lowering.record import SequenceWork
from tx8isa.numbers.division import round_up
from tx8isa.numbers.layouts import LINE_BYTES

from .share_layout import all_runs, first_element, has_padding, is_one_run, stored_bytes, stored_elements
from .shares import SequenceDivision, SharedStage, share_as_made
from .tile_share import Needed, TileShare, shape_of_share

_Key = tuple[str, Needed, Shape]
"""Symbol, share, and the shape in which the share is meant."""

DTE, DDR = "dte", "ddr"
"""The ways of an exchange."""


@dataclass
class ShareAddresses:
    """The addresses of the shares of this tile, for the code of a phase.

    ``exchange`` is the way in which tiles exchange shares.
    """

    kernel: Kernel
    work: SequenceWork
    division: SequenceDivision
    exchange: str
    addresses: dict[_Key, Value] = field(default_factory=dict)
    """Addresses of the shares and whole values that do not begin at a symbol."""
    loaded: list[int] = field(default_factory=list)
    """Bytes of the shares that were loaded."""

    @property
    def exchanges(self) -> bool:
        return any(map(self.division.gathers, self.division.stages))

    @cached_property
    def results(self) -> set[str]:
        """The symbols of the stored values."""
        return {tensor.symbol for tensor in (*self.work.others, self.work.output)}

    @cached_property
    def kept(self) -> set[str]:
        """The symbols of the values that stages read."""
        return self.division.read

    def reserve(self) -> None:
        """Reserve the buffers of gathered values: other tiles may write to them from here on."""
        for stage in filter(self.division.gathers, self.division.stages):
            output = stage.work.output
            size = self._bytes(output, None)
            if self.exchange == DDR:
                is_result = output.symbol in self.results
                place: Value = Address(output.symbol) if is_result else self.kernel.scratch("gathered", size)
            else:
                place = self.kernel.buffer("gathered", size)
                self.kernel.receive(place)
            self.addresses[self._key(output, None)] = place

    def prepare(self, stage: SharedStage) -> None:
        """Give the operands and the result of a stage their addresses; some operands are loaded."""
        for tensor, share in stage.uses():
            if share is not None and self._key(tensor, share) not in self.addresses:
                self.addresses[self._key(tensor, share)] = self._address(tensor, share)
        output, share = stage.work.output, stage.result
        if share is not None and self._only_leaves(stage) and _is_shared_in_place(output, share):
            place = self._part(output, share)
        else:
            size = self._bytes(output, share)
            place = self.kernel.buffer("share", size)
            if has_padding(output):  # not all lowerings write it, and moves read it
                token = dma_format(output.fmt).token
                self.kernel.emit(
                    f"td.memset.{token}", dst=place, value=zero_of(output.fmt), n=size // output.bytes_each
                )
        self.addresses[self._key(output, share)] = place

    def operand(self, tensor: DdrTensor, share: Needed) -> DdrTensor:
        """This tile's share of an operand as a tensor of its own."""
        base = self.addresses.get(self._key(tensor, share))
        if share is None:
            return tensor if base is None else replace(tensor, base=base)
        return replace(tensor, shape=share.of(tensor.shape), base=base, value=None)

    def result(self, stage: SharedStage) -> DdrTensor:
        """The tensor that a tile's part of a stage computes."""
        output, share = stage.work.output, stage.result
        return replace(
            output, shape=shape_of_share(output.shape, share), base=self.addresses[self._key(output, share)]
        )

    def complete(self, stage: SharedStage) -> None:
        """After a stage, move the share to its place unless the lowering did, and send it to others."""
        output, share = stage.work.output, stage.result
        place, is_result = self.addresses[self._key(output, share)], output.symbol in self.results
        self._clear_beyond(stage)
        if share is None:
            if is_result:
                self._store_part(output, place)
            return
        computed_there = self._only_leaves(stage) and _is_shared_in_place(output, share)
        gathered = self.division.gathers(stage)
        if (gathered or is_result) and not computed_there:
            self._put(output, share, place)
        if gathered:
            self._give(output, share)
            if is_result and self.exchange == DTE:
                self._store_part(output, self.addresses[self._key(output, None)])

    def _only_leaves(self, stage: SharedStage) -> bool:
        """True if a tile's share of a stage's result is needed only within the whole value."""
        symbol = stage.work.output.symbol
        return self.division.gathers(stage) or (symbol in self.results and symbol not in self.kept)

    def bytes_during(self, number: int) -> int:
        """Bytes of the shares in the scratchpad that exist while a stage is computed."""
        stages = self.division.stages
        last = {tensor.symbol: at for at, stage in enumerate(stages) for tensor, _ in stage.uses()}
        total = sum(self.loaded)
        for at, stage in enumerate(stages):
            output = stage.work.output
            gathered = self.division.gathers(stage)
            begun = at <= number or (gathered and self.exchange == DTE)
            if begun and last.get(output.symbol, at) >= number and not (gathered and self.exchange == DDR):
                total += round_up(self._bytes(output, None if gathered else stage.result), LINE_BYTES)
            share = stage.result
            if gathered and at == number and share is not None and not _is_shared_in_place(output, share):
                total += round_up(self._bytes(output, share), LINE_BYTES)
        return total

    def _key(self, tensor: DdrTensor, share: Needed) -> _Key:
        """Key of a share that is equal for equal bytes; the operand's shape decides what a part is."""
        return tensor.symbol, share, () if tensor.symbol in self.division.wanted else tensor.shape

    # --- addresses --------------------------------------------------------------------------------------

    def _address(self, tensor: DdrTensor, share: TileShare) -> Value:
        """The address of a share of an operand."""
        kept = self.division.wanted.get(tensor.symbol)
        if kept is not None:
            place = next(place for key, place in self.addresses.items() if key[0] == tensor.symbol)
            made = self.division.made[tensor.symbol]
            own = share_as_made(tensor, share, made)
            same = own.reached(made.shape) == kept.reached(made.shape) and own.size == kept.size
            return place if same else self._within(made, own, kept, place)
        if share.exceeds(tensor.shape) or not is_one_run(tensor, share.axis, share.size):
            return self._loaded(tensor, share)
        return self._part(tensor, share)

    def _within(self, tensor: DdrTensor, share: TileShare, kept: TileShare, place: Value) -> Value:
        """The address of a share within a larger one that the tile has."""
        shape = tensor.shape
        begin = kept.reached(shape).before - share.reached(shape).before
        larger = replace(tensor, shape=kept.of(shape))
        if is_one_run(larger, share.axis, share.size):
            return self.kernel.let(place + first_element(larger, share.axis, begin) * tensor.bytes_each)
        target = self._new(tensor, share)
        self._copy("rdma", larger, share, begin, (place, target))
        return target

    def _part(self, tensor: DdrTensor, share: TileShare) -> Value:
        """The address of a share within all of the value, which is in DDR or in a buffer."""
        return self.kernel.let(self._at(tensor, share, self._begin(tensor, share)))

    def _at(self, tensor: DdrTensor, share: TileShare, first: Value) -> Value:
        """The address of an element along the axis of a share that is one run."""
        return self._whole(tensor) + first_element(tensor, share.axis, first) * tensor.bytes_each

    def _whole(self, tensor: DdrTensor) -> Value:
        """The address of all of a value."""
        return self.addresses.get(self._key(tensor, None), Address(tensor.symbol))

    def _loaded(self, tensor: DdrTensor, share: TileShare) -> Value:
        """The address in the scratchpad of a share that is many runs, or has zeros beyond the image."""
        target = self._new(tensor, share)
        begin = self._begin(tensor, share)
        if not share.exceeds(tensor.shape):
            self._copy("rdma", tensor, share, begin, (self._whole(tensor), target))
            return target
        kernel, each, token = self.kernel, tensor.bytes_each, dma_format(tensor.fmt).token
        size = self._bytes(tensor, share)
        kernel.emit(f"td.memset.{token}", dst=target, value=zero_of(tensor.fmt), n=size // each)
        first = kernel.let(maximum(begin, 0))
        count = kernel.let(minimum(begin + share.size, tensor.shape[share.axis]) - first)
        skipped = kernel.let(first - begin)
        for runs in all_runs(tensor, share.axis, share.size):
            source = kernel.let(self._whole(tensor) + (first * runs.each + runs.first) * each)
            place = kernel.let(target + (skipped * runs.each + runs.own) * each)
            with kernel.loop(runs.count) as run:
                src, dst = source + run * (runs.step * each), place + run * (runs.own_step * each)
                kernel.emit(f"rdma.{token}", dst=dst, src=src, n=count * runs.each)
        return target

    def _new(self, tensor: DdrTensor, share: TileShare) -> Value:
        """A buffer for a share that no stage computes."""
        size = self._bytes(tensor, share)
        self.loaded.append(round_up(size, LINE_BYTES))
        return self.kernel.buffer("share", size)

    def _clear_beyond(self, stage: SharedStage) -> None:
        """Clear the elements computed beyond the ends of an axis, for windows that reach there."""
        output, share = stage.work.output, stage.result
        if share is None or not share.exceeds(output.shape):
            return
        kernel, each, place = self.kernel, output.bytes_each, self.addresses[self._key(output, share)]
        begin, token = self._begin(output, share), dma_format(output.fmt).token
        before = kernel.let(maximum(0 - begin, 0))
        after = kernel.let(maximum(begin + (share.size - output.shape[share.axis]), 0))
        for count, first in ((before, 0), (after, share.size - after)):
            if highest(count) == 0:
                continue
            with kernel.unless_zero(count):
                for runs in all_runs(output, share.axis, share.size):
                    begun = kernel.let(place + (first * runs.each + runs.own) * each)
                    with kernel.loop(runs.count) as run:
                        dst = begun + run * (runs.own_step * each)
                        kernel.emit(
                            f"td.memset.{token}", dst=dst, value=zero_of(output.fmt), n=count * runs.each
                        )

    def _put(self, tensor: DdrTensor, share: TileShare, source: Value) -> None:
        """Move a share from a buffer into the whole value.

        If shares overlap, a tile omits elements of the tiles before it: no byte has two writers.
        """
        if share.even(tensor.shape):
            self._copy("wdma", tensor, share, self._begin(tensor, share), (self._whole(tensor), source))
            return
        kernel, each = self.kernel, tensor.bytes_each
        with self._own(tensor, share) as (first, count):
            skipped = kernel.let(first - self._begin(tensor, share))
            for runs in all_runs(tensor, share.axis, share.size):
                begun = kernel.let(source + (skipped * runs.each + runs.own) * each)
                target = kernel.let(self._whole(tensor) + (first * runs.each + runs.first) * each)
                elements = kernel.let(count * runs.each)
                with kernel.loop(runs.count) as run:
                    dst, src = target + run * (runs.step * each), begun + run * (runs.own_step * each)
                    kernel.emit(f"wdma.{dma_format(tensor.fmt).token}", dst=dst, src=src, n=elements)

    def _store_part(self, tensor: DdrTensor, source: Value) -> None:
        """Store this tile's part of a value that every tile has whole.

        If it is small, one tile stores all.
        """
        tiles, kernel = self.division.tiles, self.kernel
        token, elements = dma_format(tensor.fmt).token, stored_elements(tensor)
        axis = next((at for at, extent in enumerate(tensor.shape) if extent > 1), 0)
        if tensor.blocked or not tensor.shape or tensor.shape[axis] < tiles:
            with kernel.if_below(kernel.tile, 1):
                kernel.emit(f"wdma.{token}", dst=Address(tensor.symbol), src=source, n=elements)
            return
        share = TileShare.along(tensor.shape, axis, tiles)
        with self._own(tensor, share) as (first, count):
            begun = kernel.let(first_element(tensor, axis, first))
            target, skipped = Address(tensor.symbol) + begun * tensor.bytes_each, begun * tensor.bytes_each
            n = first_element(tensor, axis, count)
            kernel.emit(f"wdma.{token}", dst=target, src=source + skipped, n=n)

    def _copy(
        self, engine: str, tensor: DdrTensor, share: TileShare, begin: Value, places: tuple[Value, Value]
    ) -> None:
        """Move a share of many runs between the whole value and a buffer."""
        each, token = tensor.bytes_each, dma_format(tensor.fmt).token
        for runs in all_runs(tensor, share.axis, share.size):
            outside = places[0] + (begin * runs.each + runs.first) * each
            inside, loops = places[1] + runs.own * each, dict[str, Argument]()
            if runs.count > 1:
                loops = {"stride0": runs.step, "iter0": runs.count}
            dst, src = (inside, outside) if engine == "rdma" else (outside, inside)
            self.kernel.emit(f"{engine}.{token}", dst=dst, src=src, n=share.size * runs.each, **loops)

    def _begin(self, tensor: DdrTensor, share: TileShare) -> Value:
        return share.begin(tensor.shape, self._number(share))

    @contextmanager
    def _own(self, tensor: DdrTensor, share: TileShare) -> Iterator[tuple[Value, Value]]:
        """Code for the tiles that have elements of their own: the first along the axis, and how many."""
        extent = tensor.shape[share.axis]
        first = self._number(share) * share.size
        some = always((share.count - 1) * share.size < extent)
        with nullcontext() if some else self.kernel.if_below(first, extent):
            yield first, minimum(share.size, extent - first)

    def _number(self, share: TileShare) -> Value:
        """The number of this tile's share."""
        return self.kernel.tile // (self.division.tiles // share.count)

    def _bytes(self, tensor: DdrTensor, share: Needed) -> int:
        return stored_bytes(tensor, shape_of_share(tensor.shape, share))

    # --- exchanges --------------------------------------------------------------------------------------

    def _give(self, output: DdrTensor, share: TileShare) -> None:
        """All-gather: send this tile's share to all tiles, and receive theirs."""
        kernel, tiles = self.kernel, self.division.tiles
        everyone = (1 << tiles) - 1
        if self.exchange == DTE:
            kernel.emit("ncc.wait")
            others = kernel.let(everyone - power_of_two(kernel.tile))
            with self._own(output, share) as (first, count):
                place = kernel.let(self._at(output, share, first))
                size = first_element(output, share.axis, count) * output.bytes_each
                send(kernel, Team(tiles, kernel.tile, others), place, place, size)
        meet(kernel, Team(tiles, kernel.tile, everyone))


def _is_shared_in_place(tensor: DdrTensor, share: TileShare) -> bool:
    """True if tiles can compute their shares within the whole value: in single runs that do not overlap."""
    return is_one_run(tensor, share.axis, share.size) and share.even(tensor.shape)
