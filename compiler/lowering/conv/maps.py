"""A tile's maps (output channels) of a convolution, with their weights, bias and addend."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from compiler.codegen.expr import Value
from compiler.codegen.kernel import Kernel
from compiler.codegen.slices.aligned import ChannelVector, load_vector
from compiler.codegen.slices.shards import Shard, slices
from compiler.codegen.slices.tensors import Stretch
from compiler.codegen.slices.windows import RowBlock
from compiler.codegen.teams.gather import Gather
from compiler.codegen.teams.team import Team

from .plan import OWN
from .slice import ConvProblem, SliceMaps, load_addend, spread_bias, start_of
from .weights import PackedWeights, Volume, Weights, weights_of, windows_of


class MapsOfTile:
    """A tile's maps of one stretch, loaded at once if they are a single slice."""

    def __init__(
        self, kernel: Kernel, problem: ConvProblem, stretch: Stretch, own: Shard, bias: ChannelVector | None
    ) -> None:
        self.kernel, self.problem, self.stretch, self.own, self.bias = kernel, problem, stretch, own, bias
        self.load: Weights
        if problem.layer.channelwise:
            self.load = windows_of(kernel, problem.work, stretch)
        else:
            self.load = weights_of(kernel, problem.work, problem.layer.groups, stretch, problem.plan.channels)
        self.early = self._prepare(own.clamped_begin) if own.slice_count == 1 else None

    @contextmanager
    def maps(self) -> Iterator[SliceMaps]:
        """Each slice of the maps."""
        with slices(self.kernel, self.own) as (number, _):
            yield self.early or self._prepare(number)

    def gathers(self, team: Team) -> list[Gather]:
        """Begin to load this tile's part of the weights that a team shares."""
        assert isinstance(self.load, PackedWeights) and self.early is not None
        addresses = self.early.weights or []
        runs = self.load.runs(self._volume(self.early.group, self.early.block))
        pairs = zip(runs, addresses, strict=True)
        return [Gather.loaded(self.kernel, team, (t, first, t.size), to) for (t, first), to in pairs]

    def load_weights(self, begin: float, end: float) -> None:
        """Load the weights from fraction ``begin`` to ``end`` (0 to 1) of all; their buffers exist
        already."""
        if self.early is not None:
            assert isinstance(self.load, PackedWeights)
            volume = self._volume(self.early.group, self.early.block)
            self._fill(self.load, volume, self.early.weights or [], begin, end)

    def load_addend(self, image: Value, block: RowBlock) -> None:
        """Load the tensor to which the products of the tile's only slice are added, if there is one."""
        if self.early is not None and self.own.shortest and self.problem.epilogue.residual is not None:
            at = block.target(image, self.early.first)
            addend = load_addend(self.kernel, self.problem, self.early, block, at)
            self.early = replace(self.early, addend=addend)

    def begin_sums(self, image: Value, block: RowBlock) -> None:
        """Prepare the initial sums of the tile's only slice, if they come from a tensor."""
        if self.early is not None and self.own.shortest and self.problem.epilogue.residual is not None:
            start = start_of(
                self.kernel, self.problem, self.early, block, block.target(image, self.early.first)
            )
            self.early = replace(self.early, start=start)

    def _fill(
        self, load: PackedWeights, volume: Volume, addresses: list[Value], begin: float = 0, end: float = 1
    ) -> None:
        """Load packed weights, unless the tile's part of the stretch is empty."""
        with self.kernel.unless_zero(self.own.length):
            load.load(volume, addresses, begin, end)

    def _volume(self, group: Value, block: Value) -> Volume:
        return Volume(group, block, Stretch(0, self.problem.plan.channels, 1), 0)

    def _weights(self, group: Value, block: Value) -> list[Value] | None:
        """Addresses of the weights of all channels; a team may still have to fill these places."""
        volume = self._volume(group, block)
        if not self.problem.single:
            return None
        if self.own.slice_count > 1 or not isinstance(self.load, PackedWeights):
            return self.load(volume)
        addresses = self.load.buffers(volume)
        if self.problem.plan.team_loads == OWN:
            self._fill(self.load, volume, addresses)
        return addresses

    def _prepare(self, number: Value) -> SliceMaps:
        kernel, problem, stretch, grid = self.kernel, self.problem, self.stretch, self.problem.grid
        group, block = kernel.let(number // stretch.count), kernel.let(number % stretch.count)
        inner = block * stretch.size + stretch.start
        first = kernel.let(group * problem.layer.groups.maps + inner)
        bias = load_vector(kernel, "bias", self.bias, first, stretch.size) if self.bias is not None else None
        start = None
        if bias is not None and problem.single and problem.epilogue.residual is None and grid is not None:
            start = spread_bias(kernel, grid, stretch.size, bias, problem.layer.sum_fmt)
        weights = self._weights(group, block)
        scales = None
        if problem.requantisation is not None:
            scales = problem.requantisation.load_scales(kernel, first, stretch.size)
        return SliceMaps(group, block, first, stretch.size, self.load, weights, bias, start, scales=scales)
