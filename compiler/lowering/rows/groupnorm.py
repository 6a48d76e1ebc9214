"""Group and instance normalization: channels, or groups of them, get mean 0 and variance 1 in one phase.

Tiles divide the positions of an image. Each tile adds up its positions for every channel, in FP32; the tiles
exchange these sums (``codegen.teams.collective``), and each of them folds the groups of channels. The
variance is the mean of the squared differences from the mean, so there are two rounds of sums. The positions
of a tile stay in its scratchpad if they fit; else they are loaded for each round and once more for the
result.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

from compiler.codegen.expr import Value, maximum
from compiler.codegen.kernel import Kernel
from compiler.codegen.slices.aligned import (
    STORED_WIDTHS,
    Aligned,
    ChannelVector,
    Grid,
    Place,
    aligned_bytes,
    channel_vector,
    load_slice,
    load_vector,
    narrowed_slice,
    per_channel,
    slice_buffer,
    store_slice,
    widened_slice,
)
from compiler.codegen.slices.long_runs import stored_width
from compiler.codegen.slices.shards import Shard, shard_of, slices, within
from compiler.codegen.slices.tensors import BLOCK
from compiler.codegen.slices.vector import WORD, Vector, repeat_rows
from compiler.codegen.spm import RESERVED_BYTES
from compiler.codegen.teams.collective import WAYS, Exchange
from compiler.codegen.teams.team import Team, tile_grid
from compiler.dialect.orders import Order
from compiler.evaluation.sizes import Size, here, most
from compiler.lowering.pointwise.epilogue import AlignedResult, apply_steps, step_bytes
from compiler.lowering.record import Engine, Work, lowering
from tx8isa.numbers.division import ceil_div
from tx8isa.numbers.formats import Format
from tx8isa.numbers.layouts import aligned_channels
from tx8isa.numbers.limits import LARGEST_EXTENT

from .lane_normalization import centrings

_FEWEST = 4
"""Least positions of a tile for which another tile saves time."""


@lowering("NormalizedGroups", order=Order.CHANNELS_LAST, anchor=True, blocked=True, engines=(Engine.VECTOR,))
def normalized_groups(kernel: Kernel, work: Work) -> None:
    """(x - mean) / sqrt(variance + epsilon) * scale + shift."""
    batch = work.input(0).shape[0]
    plan = _plan(kernel, work)
    code = _GroupNormCode(kernel, work, plan)
    with tile_grid(kernel, (plan.images, plan.parts)) as grid:
        team = grid.team(kernel, 1) if plan.parts > 1 else Team(1, 0, 0)
        with slices(kernel, shard_of(batch, plan.images, grid.position[0], 1)) as (image, _):
            code.image(team, image, grid.position[1])


@dataclass(frozen=True)
class _GroupNormPlan:
    """The division of images and their positions over tiles."""

    images: int
    """Images that are computed at the same time."""
    parts: int
    """Tiles of an image."""
    length: int
    """Positions of a tile."""
    size: int
    """Positions of a slice."""

    resident: bool
    """True if the positions of a tile stay in its scratchpad."""


def _plan(kernel: Kernel, work: Work) -> _GroupNormPlan:
    """The plan whose number of tiles for an image suits the usual sizes.

    At other sizes some tiles may have no positions.
    """
    batch, *image, channels = work.input(0).shape
    positions, tiles, images = math.prod(image), kernel.target.tiles, here(batch)
    wanted = max(1, min(tiles // images, ceil_div(here(positions), _FEWEST)) if 2 * images <= tiles else 1)
    length = ceil_div(positions, wanted)
    parts = wanted if isinstance(positions, Size) else ceil_div(positions, length)
    room = kernel.budget - _vector_bytes(channels, parts * (centrings(work.input(0).fmt) + 1))
    size = longest = most(length)
    while size > 1 and (size > LARGEST_EXTENT or _slice_bytes(work, size, channels, size < longest) > room):
        size = ceil_div(size, 2)
    resident = size == longest
    return _GroupNormPlan(min(images, tiles // parts), parts, length, length if resident else size, resident)


def _slice_bytes(work: Work, size: int, channels: int, again: bool) -> int:
    """Scratchpad bytes of ``size`` positions; twice as many if they are loaded ``again``, in a loop."""
    source = work.input(0)
    stored = aligned_channels(channels, BLOCK)
    wide, narrow = aligned_bytes(size, channels, Format.FP32), aligned_bytes(size, channels, source.fmt)
    tail = 0 if source.blocked else size * (channels % BLOCK) * source.bytes_each
    once = 2 * (narrow + tail) + 2 * wide + step_bytes(work.steps, Format.FP32) * stored * size
    return once * (2 if again else 1)


def _vector_bytes(channels: int, exchanged: int) -> int:
    """Scratchpad bytes for vectors of one FP32 value per channel, the ``exchanged`` ones included."""
    return WORD * aligned_channels(channels, BLOCK) * (exchanged + 16) + RESERVED_BYTES


class _GroupNormCode:
    """The code of one phase."""

    def __init__(self, kernel: Kernel, work: Work, plan: _GroupNormPlan) -> None:
        self.kernel, self.work, self.plan = kernel, work, plan
        _, *image, self.channels = work.input(0).shape
        self.positions = math.prod(image)
        self.stored = aligned_channels(self.channels, BLOCK)
        self.groups = work.spec.integer("groups")
        self.centrings = centrings(work.input(0).fmt)
        lanes = next(width for width in STORED_WIDTHS if self.stored % width == 0)
        self.exchanges = [
            Exchange(kernel, WAYS[1], plan.parts, self.stored, lanes)
            for _ in range(self.centrings + 1)
            if plan.parts > 1
        ]
        self.scale, self.shift = (
            channel_vector(kernel, f"{name}_data", work.input(operand)) for operand, name in _PARAMETERS
        )

    @property
    def vector(self) -> Vector:
        """Instructions over one value for each channel."""
        return Vector(self.kernel, Format.FP32, self.stored)

    def image(self, team: Team, image: Value, part: Value) -> None:
        """This tile's ``part`` of an image."""
        kernel, count = self.kernel, self.positions * (self.channels // self.groups)
        shard = shard_of(self.positions, self.plan.parts, part, self.plan.size)
        kept = self._load(*self._all_of(shard, image)) if self.plan.resident else None
        means: list[Value] = []
        for number in range(self.centrings):
            mean = self._folded(number, team, self._sums(shard, image, kept, means, squares=False))
            self.vector.vs("div", mean, mean, count)
            if kept is not None:
                per_channel(kernel, "sub", kept, mean)
            means.append(mean)
        factor = self._folded(self.centrings, team, self._sums(shard, image, kept, means, squares=True))
        self.vector.vs("div", factor, factor, count)
        self.vector.vs("add", factor, factor, self.work.spec.number("epsilon"))
        self.vector.unary("rsqrt", factor, factor)
        self.vector.vv("mul", factor, factor, self._parameter("scale", self.scale))
        shift = self._parameter("shift", self.shift)
        with self._pieces(shard, image, kept) as (at, data):
            self._centre(data, kept, means)
            per_channel(kernel, "mul", data, factor)
            per_channel(kernel, "add", data, shift)
            apply_steps(AlignedResult(kernel, data, at), data.base, self.work.steps)
            store_slice(kernel, narrowed_slice(kernel, data, self.work.output.fmt), self.work.output, at)

    def _parameter(self, name: str, vector: ChannelVector) -> Value:
        return load_vector(self.kernel, name, vector, 0, self.channels)

    def _all_of(self, shard: Shard, image: Value) -> tuple[Place, Grid]:
        """All positions of a shard; for an empty shard the last position of the image."""
        kernel, length, count = self.kernel, self.plan.length, shard.end - shard.begin
        if not isinstance(self.positions, Size):
            return Place(image, shard.begin), Grid(kernel.let(within(count, 1, length)), 1, length)
        count = within(maximum(count, 1), 1, length)
        return Place(image, kernel.let(shard.clamped_begin)), Grid(kernel.let(count), 1, length)

    def _load(self, at: Place, grid: Grid) -> Aligned:
        return widened_slice(
            self.kernel, load_slice(self.kernel, "x", self.work.input(0), at, grid, self.channels)
        )

    @contextmanager
    def _pieces(self, shard: Shard, image: Value, kept: Aligned | None) -> Iterator[tuple[Place, Aligned]]:
        """A loop over the slices of a shard in FP32; no loop if they are kept in the scratchpad."""
        if kept is not None:
            sized = isinstance(self.positions, Size)
            with self.kernel.if_below(shard.begin, shard.end) if sized else nullcontext():
                yield Place(image, shard.begin), kept
            return
        with slices(self.kernel, shard) as (begin, count):
            at = Place(image, begin)
            yield at, self._load(at, Grid(count, 1, self.plan.size))

    def _centre(self, data: Aligned, kept: Aligned | None, means: Sequence[Value]) -> None:
        """Subtract the means; ``kept`` data has lost them already."""
        for mean in means if kept is None else ():
            per_channel(self.kernel, "sub", data, mean)

    def _sums(
        self, shard: Shard, image: Value, kept: Aligned | None, means: Sequence[Value], squares: bool
    ) -> Value:
        """Sums over a shard, for each channel, of differences from the ``means`` or of their squares."""
        kernel = self.kernel
        total = kernel.buffer("total", WORD * self.stored)
        kernel.emit("td.memset.fp32", dst=total, value=0.0, n=self.stored)
        with self._pieces(shard, image, kept) as (_, data):
            self._centre(data, kept, means)
            if squares:
                squared = slice_buffer(kernel, "squares", Format.FP32, data.grid, self.channels)
                Vector(kernel, Format.FP32, data.elements).vv("mul", squared.base, data.base, data.base)
                data = squared
            part = kernel.buffer("part", WORD * self.stored)
            kernel.emit("ct.reduce.sum.fp32", dst=part, src0=data.base, shape=data.shape, dims="h")
            self.vector.vv("add", total, total, part)
        return total

    def _folded(self, number: int, team: Team, sums: Value) -> Value:
        """The sums of all tiles of the team; every channel gets the sum of its group."""
        if self.exchanges:
            self.exchanges[number].exchange(team, sums)
            sums = self.exchanges[number].folded(team, "sum")
        if self.groups == self.channels:
            return sums
        for first in range(0, self.groups, BLOCK):
            self._fold_groups(sums, first, min(BLOCK, self.groups - first))
        return sums

    def _fold_groups(self, sums: Value, first: int, count: int) -> None:
        """Replace the channels of ``count`` groups by the sum of their group: as rows they are added up."""
        kernel, size = self.kernel, self.channels // self.groups
        width = stored_width(count)
        address = sums + WORD * first * size
        rows, total = kernel.buffer("rows", WORD * size * width), kernel.buffer("sums", WORD * width)
        kernel.emit("td.memset.fp32", dst=rows, value=0.0, n=size * width)
        kernel.emit(
            "td.gatherscatter",
            dst=rows,
            src0=address,
            n=WORD,
            src_stride0=WORD * size,
            src_iter0=count,
            src_stride1=WORD,
            src_iter1=size,
            dst_stride0=WORD,
            dst_iter0=count,
            dst_stride1=WORD * width,
            dst_iter1=size,
        )
        kernel.emit("ct.reduce.sum.fp32", dst=total, src0=rows, shape=[1, size, 1, count], dims="h")
        repeat_rows(kernel, address, total, WORD, count, size)


_PARAMETERS = ((1, "scale"), (2, "shift"))
