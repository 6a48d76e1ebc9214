"""Where a tile has its shares of the values of a sequence: in DDR, or in buffers of its scratchpad."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property

from compiler.codegen.expr import Address, Value, minimum
from compiler.codegen.kernel import Kernel
from compiler.codegen.slices.tensors import DdrTensor, dma_format
from compiler.codegen.spm import SpmOverflow
from compiler.codegen.teams.team import Team, meet, power_of_two, send
from compiler.graph import Shape
from compiler.lowering.record import Work
from tx8isa.numbers.division import round_up
from tx8isa.numbers.layouts import LINE_BYTES

from .shares import Needed, SequenceDivision, SharedStage, TileShare, shape_of_share

_Key = tuple[str, Needed, Shape]
"""Symbol, share, and the shape in which the share is meant."""

DTE, DDR = "dte", "ddr"
"""The ways of an exchange."""


@dataclass
class ShareAddresses:
    """The addresses of the shares of this tile, for the code of a phase.

    ``exchange`` is the way of shares that the tiles give each other.
    """

    kernel: Kernel
    work: Work
    division: SequenceDivision
    exchange: str
    addresses: dict[_Key, Value] = field(default_factory=dict)
    """Of the shares, and of whole values, that do not begin at a symbol."""
    loaded: list[int] = field(default_factory=list)
    """Bytes of the shares that were loaded."""

    @property
    def exchanges(self) -> bool:
        return any(map(self.division.gathers, self.division.stages))

    @cached_property
    def results(self) -> set[str]:
        """The symbols of what is stored."""
        return {tensor.symbol for tensor in (*self.work.others, self.work.output)}

    @cached_property
    def kept(self) -> set[str]:
        """The symbols of what stages read."""
        return self.division.read

    def reserve(self) -> None:
        """Give what tiles gather its place: other tiles may write to it from here on."""
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
        if share is not None and self._only_leaves(stage) and _is_one_run(output.shape, share):
            place = self._part(output, share)
        else:
            place = self.kernel.buffer("share", self._bytes(output, share))
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
        """After a stage: put the share where it is needed, if the lowering could not, and give it others."""
        output, share = stage.work.output, stage.result
        place, is_result = self.addresses[self._key(output, share)], output.symbol in self.results
        if share is None:
            if is_result:
                self._store_part(output, place)
            return
        computed_there = self._only_leaves(stage) and _is_one_run(output.shape, share)
        gathered = self.division.gathers(stage)
        if (gathered or is_result) and not computed_there:
            self._put(output, share, place)
        if gathered:
            self._give(output, share)
            if is_result and self.exchange == DTE:
                self._store_part(output, self.addresses[self._key(output, None)])

    def _only_leaves(self, stage: SharedStage) -> bool:
        """Whether what a tile computes of the result of a stage is needed only where all of the value is."""
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
            if gathered and at == number and share is not None and not _is_one_run(output.shape, share):
                total += round_up(self._bytes(output, share), LINE_BYTES)
        return total

    def _key(self, tensor: DdrTensor, share: Needed) -> _Key:
        """Equal for equal bytes; parts of an axis of an operand are others where it has another shape."""
        return tensor.symbol, share, () if tensor.symbol in self.division.wanted else tensor.shape

    # --- addresses --------------------------------------------------------------------------------------

    def _address(self, tensor: DdrTensor, share: TileShare) -> Value:
        """The address of a share of an operand."""
        if tensor.symbol not in self.division.wanted:
            return (
                self._part(tensor, share) if share.contiguous(tensor.shape) else self._loaded(tensor, share)
            )
        if self.division.wanted[tensor.symbol] is not None:
            return next(place for key, place in self.addresses.items() if key[0] == tensor.symbol)
        if not share.contiguous(tensor.shape):
            raise SpmOverflow(f"the shares of axis {share.axis} of {tensor.symbol} are not contiguous")
        return self._part(tensor, share)

    def _part(self, tensor: DdrTensor, share: TileShare) -> Value:
        """The address of a share within all of the value, which is in DDR or in a buffer."""
        return self.kernel.let(self._at(tensor, share, self._begin(tensor, share)))

    def _at(self, tensor: DdrTensor, share: TileShare, first: Value) -> Value:
        """The address of an element along the axis that is shared."""
        whole = self.addresses.get(self._key(tensor, None), Address(tensor.symbol))
        return whole + first * _step(tensor, share)

    def _loaded(self, tensor: DdrTensor, share: TileShare) -> Value:
        """The address in the scratchpad of a share that is many runs of DDR."""
        size = self._bytes(tensor, share)
        self.loaded.append(round_up(size, LINE_BYTES))
        target = self.kernel.buffer("share", size)
        source = self._at(tensor, share, self._begin(tensor, share))
        self._copy("rdma", tensor, share, (target, source))
        return target

    def _put(self, tensor: DdrTensor, share: TileShare, source: Value) -> None:
        """Move a share from a buffer to where all of the value is.

        Of shares that overlap, each tile moves what no tile before it has: no byte has two writers.
        """
        if share.even(tensor.shape):
            target = self._at(tensor, share, self._begin(tensor, share))
            self._copy("wdma", tensor, share, (target, source))
            return
        step, token = _step(tensor, share), dma_format(tensor.fmt).token
        with self._own(tensor, share) as (first, count):
            skipped = self.kernel.let(source + (first - self._begin(tensor, share)) * step)
            target = self.kernel.let(self._at(tensor, share, first))
            elements = self.kernel.let(count * (step // tensor.bytes_each))
            with self.kernel.loop(math.prod(tensor.shape[: share.axis])) as run:
                dst = target + run * (tensor.shape[share.axis] * step)
                self.kernel.emit(
                    f"wdma.{token}", dst=dst, src=skipped + run * (share.size * step), n=elements
                )

    def _store_part(self, tensor: DdrTensor, source: Value) -> None:
        """Store a part of a value of which every tile has all; one tile stores it if it is small."""
        tiles, kernel = self.division.tiles, self.kernel
        axis = next((at for at, extent in enumerate(tensor.shape) if extent > 1), 0)
        token = dma_format(tensor.fmt).token
        if not tensor.shape or tensor.shape[axis] < tiles:
            with kernel.if_below(kernel.tile, 1):
                kernel.emit(f"wdma.{token}", dst=Address(tensor.symbol), src=source, n=tensor.size)
            return
        share = TileShare.along(tensor.shape, axis, tiles)
        with self._own(tensor, share) as (first, count):
            skipped = kernel.let(first * _step(tensor, share))
            target, elements = (
                Address(tensor.symbol) + skipped,
                count * (_step(tensor, share) // tensor.bytes_each),
            )
            kernel.emit(f"wdma.{token}", dst=target, src=source + skipped, n=elements)

    def _copy(self, engine: str, tensor: DdrTensor, share: TileShare, places: tuple[Value, Value]) -> None:
        """Move a share that is many runs between DDR and the scratchpad, to a place from another."""
        inner = math.prod(tensor.shape[share.axis :])
        run, outer = (
            share.size * (_step(tensor, share) // tensor.bytes_each),
            math.prod(tensor.shape[: share.axis]),
        )
        token = dma_format(tensor.fmt).token
        dst, src = places
        self.kernel.emit(f"{engine}.{token}", dst=dst, src=src, n=run, stride0=inner, iter0=outer)

    def _begin(self, tensor: DdrTensor, share: TileShare) -> Value:
        return share.begin(tensor.shape, self._number(share))

    @contextmanager
    def _own(self, tensor: DdrTensor, share: TileShare) -> Iterator[tuple[Value, Value]]:
        """Code for the tiles that have elements of their own: the first along the axis, and how many."""
        extent = tensor.shape[share.axis]
        first = self._number(share) * share.size
        some = (share.count - 1) * share.size < extent
        with nullcontext() if some else self.kernel.if_below(first, extent):
            yield first, minimum(share.size, extent - first)

    def _number(self, share: TileShare) -> Value:
        """The number of this tile's share."""
        return self.kernel.tile // (self.division.tiles // share.count)

    def _bytes(self, tensor: DdrTensor, share: Needed) -> int:
        return math.prod(shape_of_share(tensor.shape, share)) * tensor.bytes_each

    # --- exchanges --------------------------------------------------------------------------------------

    def _give(self, output: DdrTensor, share: TileShare) -> None:
        """Give all tiles this tile's share, and get theirs."""
        kernel, tiles = self.kernel, self.division.tiles
        everyone = (1 << tiles) - 1
        if self.exchange == DTE:
            kernel.emit("ncc.wait")
            others = kernel.let(everyone - power_of_two(kernel.tile))
            with self._own(output, share) as (first, count):
                place = kernel.let(self._at(output, share, first))
                send(kernel, Team(tiles, kernel.tile, others), place, place, count * _step(output, share))
        meet(kernel, Team(tiles, kernel.tile, everyone))


def _step(tensor: DdrTensor, share: TileShare) -> int:
    """Bytes from one element of the axis that is shared to the next."""
    return math.prod(tensor.shape[share.axis + 1 :]) * tensor.bytes_each


def _is_one_run(shape: Shape, share: TileShare) -> bool:
    """Whether tiles can compute their shares where all of a value is: in single runs that do not overlap."""
    return share.contiguous(shape) and share.even(shape)
