"""Reductions of long runs of memory to few values.

The tensor is [outer, axis, inner]: element i of each of ``outer`` runs belongs to result i % inner of the
run. Tiles form a grid of runs and parts of the axis. A tile loads its part of a run a chunk at a time, and
adds the chunk element by element to sums as long as a chunk. At the end it folds these sums, and the tiles
that share a run combine their results (``codegen.teams.collective``).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from compiler.codegen.expr import Value, bounds
from compiler.codegen.kernel import Kernel, Target
from compiler.codegen.slices.lanes import Folds
from compiler.codegen.slices.shards import shard_of, slices, within
from compiler.codegen.slices.tensors import BLOCK, DdrTensor
from compiler.codegen.slices.vector import WORD, Vector, narrowed, widened
from compiler.codegen.spm import RESERVED_BYTES
from compiler.codegen.teams.collective import COMBINE, WAYS, Exchange, fold_halves
from compiler.codegen.teams.team import tile_grid
from compiler.evaluation.sizes import Size, always, here
from compiler.lowering.record import Cut
from tx8isa.numbers.division import ceil_div, round_up
from tx8isa.numbers.formats import Format
from tx8isa.numbers.limits import LARGEST_EXTENT

LANES = BLOCK
_MOST_CHUNK_ELEMENTS = 1 << 15
_MOST_GROUP_ELEMENTS = 1 << 14
_MOST_RESULTS = 1 << 14
"""Results of a tile."""
_DEFAULT_FROM = 8192
"""Least elements of a run for which this lowering is used without a search."""
_TRIED_FROM = 1024
"""Least elements of a run for which the search tries this lowering.

On shorter ones its commands cost more.
"""
_MOST_PLANS = 3
"""Plans that the search tries."""
IDENTITY = {"sum": 0.0, "max": -math.inf}
"""The identity element of each reduction."""


@dataclass(frozen=True)
class ReductionPlan:
    """The division of a reduction over tiles and chunks."""

    runs: int
    """Tiles along outer."""
    parts: int
    """Tiles along the axis."""
    chunk: int
    """Rows of ``inner`` elements that are loaded at a time."""
    exchange: str
    """The way in which tiles combine their results, one of ``WAYS``."""

    def cut(self) -> Cut:
        """This plan as a cut, the form in which the search stores it."""
        tiles = (("outer", self.runs), ("axis", self.parts))
        return Cut(tiles, (("axis", self.chunk),), (("way", "long"), ("exchange", self.exchange)))


def rows_per_group(inner: int) -> int:
    """The number of rows of ``inner`` elements that fill lanes of the engine together; a power of two."""
    lanes = LANES if inner < LANES else 4
    return lanes // math.gcd(lanes, inner)


def reduction_plans(folds: Folds, source: DdrTensor, target: Target) -> list[ReductionPlan]:
    """The plans with the least work for the busiest tile; none if rows are too wide or results too many.

    If the length of the axis is dynamic, plans are made for the usual length.
    """
    found: dict[ReductionPlan, int] = {}
    if isinstance(folds.outer, Size) or isinstance(folds.inner, Size):
        return []
    if rows_per_group(folds.inner) * folds.inner > _MOST_GROUP_ELEMENTS:
        return []
    folds = replace(folds, axis=here(folds.axis))
    for used in range(1, min(folds.outer, target.tiles) + 1):
        turns = ceil_div(folds.outer, used)
        runs = ceil_div(folds.outer, turns)
        parts = min(target.tiles // runs, folds.axis, max(folds.axis * folds.inner // LANES, 1))
        parts = ceil_div(folds.axis, ceil_div(folds.axis, parts))
        if turns * folds.inner <= _MOST_RESULTS:
            plan = ReductionPlan(runs, parts, _chunk(folds, source, target.spm_bytes, parts), WAYS[1])
            found[plan] = turns * ceil_div(folds.axis, parts)
    return sorted(found, key=lambda plan: (found[plan], plan.parts))[:_MOST_PLANS]


def has_long_runs(folds: Folds) -> bool:
    """True if runs are long enough for the search to try this lowering."""
    return here(folds.axis * folds.inner) >= _TRIED_FROM


def is_long(folds: Folds, target: Target) -> bool:
    """True if runs are so long, and so few or contiguous, that this lowering is used without a search."""
    few = here(folds.outer * ceil_div(folds.inner, LANES)) < target.tiles
    return here(folds.axis * folds.inner) >= _DEFAULT_FROM and (few or always(folds.inner == 1))


def default_plan(folds: Folds, source: DdrTensor, target: Target) -> ReductionPlan | None:
    """The plan without a search; None if the reduction should be computed in lanes."""
    if not is_long(folds, target):
        return None
    return next(iter(reduction_plans(folds, source, target)), None)


def long_reduction_cuts(folds: Folds, source: DdrTensor, target: Target) -> Iterator[Cut]:
    """Cuts for the search: each plan with each way of exchange, and lanes."""
    for plan in reduction_plans(folds, source, target):
        for exchange in WAYS if plan.parts > 1 else WAYS[:1]:
            yield replace(plan, exchange=exchange).cut()
    yield Cut(choices=(("way", "lanes"),))


def plan_of_cut(folds: Folds, source: DdrTensor, cut: Cut, target: Target) -> ReductionPlan:
    """The plan that a cut describes. ValueError if it is not a plan of this reduction."""
    plan = ReductionPlan(cut.parts("outer"), cut.parts("axis"), cut.size("axis"), cut.choice("exchange", ""))
    allowed = [replace(good, exchange=plan.exchange) for good in reduction_plans(folds, source, target)]
    if plan.exchange not in WAYS or plan not in allowed:
        raise ValueError(f"{plan} does not divide {folds}")
    return plan


def _chunk(folds: Folds, source: DdrTensor, room: int, parts: int) -> int:
    """Rows of a chunk: as many as fit into the scratchpad twice, at most those of a tile."""
    group = rows_per_group(folds.inner)
    group_elements = group * folds.inner
    fit = (room - RESERVED_BYTES - WORD * _MOST_RESULTS) // (
        group_elements * (2 * source.bytes_each + 3 * WORD)
    )
    groups = min(
        fit,
        _MOST_CHUNK_ELEMENTS // group_elements,
        LARGEST_EXTENT,
        ceil_div(ceil_div(folds.axis, parts), group),
    )
    return max(groups, 1) * group


@dataclass(frozen=True)
class Reduction:
    """``source`` [outer, axis, inner] to ``target`` [outer, inner]."""

    source: DdrTensor
    target: DdrTensor
    folds: Folds
    name: str
    """``sum`` or ``max``."""
    divisor: int = 1
    """A number by which results are divided."""
    starts: tuple[int, int] = (0, 0)
    """The first elements of source and target."""


def reduce_long_runs(kernel: Kernel, reduction: Reduction, plan: ReductionPlan) -> None:
    """Emit a reduction."""
    folds = reduction.folds
    turns = ceil_div(folds.outer, plan.runs)
    size = round_up(turns * folds.inner, 4)
    exchange = _exchange(kernel, folds, plan, size) if plan.parts > 1 else None
    with tile_grid(kernel, (plan.runs, plan.parts)) as grid:
        shard = shard_of(folds.outer, plan.runs, grid.position[0], 1)
        results = kernel.buffer("results", WORD * (size + LANES))
        with slices(kernel, shard) as (run, _):
            address = kernel.let(results + (run - shard.begin) * (WORD * folds.inner))
            _RunCode(kernel, reduction, plan).fold(run, grid.position[1], address)
        first, n = shard.begin * folds.inner, kernel.let(shard.length * folds.inner)
        if exchange is None:
            _store(kernel, reduction, first, results, n, size)
            return
        clear_after(kernel, results, n, size)
        team = grid.team(kernel, 1)
        exchange.exchange(team, results)
        with kernel.if_below(team.member, exchange.parts or 1):
            total = exchange.folded(team, reduction.name)
            if exchange.parts != 1:
                first, n = first + team.member * exchange.size, exchange.size
            _store(kernel, reduction, first, total, n, exchange.size)


def _exchange(kernel: Kernel, folds: Folds, plan: ReductionPlan, size: int) -> Exchange:
    """The exchange of results. If they are many, each tile of a team combines a part; otherwise one tile
    combines all."""
    even = folds.outer % plan.runs == 0 and folds.inner * folds.outer // plan.runs == size
    part = size // plan.parts
    if even and size % plan.parts == 0 and part % LANES == 0 and part // LANES <= LARGEST_EXTENT:
        return Exchange(kernel, plan.exchange, plan.parts, part, LANES, plan.parts)
    return Exchange(kernel, plan.exchange, plan.parts, size, _lanes(size), 1)


def _lanes(size: int) -> int:
    """The widest rows into which ``size`` elements, a multiple of four, can be divided."""
    return math.gcd(size, LANES)


@dataclass(frozen=True)
class _RunCode:
    """The code for a part of a run."""

    kernel: Kernel
    reduction: Reduction
    plan: ReductionPlan

    @property
    def folds(self) -> Folds:
        return self.reduction.folds

    @property
    def room(self) -> int:
        """Elements of a chunk, rounded up to whole lanes."""
        return round_up(self.plan.chunk * self.folds.inner, LANES)

    def fold(self, run: Value, part: Value, target: Value) -> None:
        """Fold part number ``part`` of a run to the address ``target``.

        The rest of the line after the results is overwritten, so fold runs in ascending order.
        """
        kernel, room, folds = self.kernel, self.room, self.folds
        shard = shard_of(folds.axis, self.plan.parts, part, self.plan.chunk)
        if not isinstance(folds.axis, Size) and shard.slice_count == 1:
            data, _ = self._load(run, kernel.let(shard.begin), kernel.let(shard.length), room)
            self._fold_sums(data, target)
            return
        sums = kernel.buffer("sums", WORD * room)
        kernel.emit("td.memset.fp32", dst=sums, value=IDENTITY[self.reduction.name], n=room)
        with slices(kernel, shard) as (row, count):
            data, n = self._load(run, row, count, LANES)
            Vector(kernel, Format.FP32, n).vv(COMBINE[self.reduction.name], sums, sums, data)
        self._fold_sums(sums, target)

    def _load(self, run: Value, row: Value, count: Value, unit: int) -> tuple[Value, Value]:
        """Load ``count`` rows of a run as FP32; returns their address and the number of elements.

        Identity elements are appended to a multiple of ``unit`` elements, because engines write whole lines.
        """
        kernel, folds, source = self.kernel, self.folds, self.reduction.source
        data = kernel.buffer("run", source.bytes_each * self.room)
        n = kernel.let(count * folds.inner)
        if bounds(count)[0] * folds.inner < self.room:
            with kernel.if_below(count, self.plan.chunk + int(self.room > self.plan.chunk * folds.inner)):
                rest = data + n // unit * (unit * source.bytes_each)
                kernel.emit(
                    f"td.memset.{source.fmt.token}", dst=rest, value=IDENTITY[self.reduction.name], n=unit
                )
        first = (run * folds.axis + row) * folds.inner + self.reduction.starts[0]
        kernel.emit(f"rdma.{source.fmt.token}", dst=data, src=source.at(first), n=n)
        n = kernel.let((n + (unit - 1)) // unit * unit)
        return widened(kernel, data, n, self.room, source.fmt), n

    def _fold_sums(self, sums: Value, target: Value) -> None:
        """target [inner] = the fold of sums [chunk, inner]."""
        kernel, inner, group = self.kernel, self.folds.inner, rows_per_group(self.folds.inner)
        wide = group * inner
        row, lanes = kernel.buffer("row", WORD * wide) if group > 1 else target, _lanes(wide)
        shape: list[Value] = [1, self.plan.chunk // group, wide // lanes, lanes]
        kernel.emit(f"ct.reduce.{self.reduction.name}.fp32", dst=row, src0=sums, shape=shape, dims="h")
        if inner == 1:
            kernel.emit(
                f"ct.reduce.{self.reduction.name}.fp32",
                dst=target,
                src0=row,
                shape=[1, 1, 1, LANES],
                dims="c",
            )
        elif group > 1:
            fold_halves(kernel, self.reduction.name, row, group, inner, target)


def clear_after(kernel: Kernel, data: Value, count: Value, size: int) -> None:
    """Set the elements of FP32 ``data`` from ``count`` to below ``size`` to zero."""
    if bounds(count)[0] < size:
        with kernel.if_below(count, size):
            n = within(size - count, 1, size)
            kernel.emit("td.memset.fp32", dst=data + count * WORD, value=0.0, n=n)


def _store(kernel: Kernel, reduction: Reduction, first: Value, data: Value, n: Value, room: int) -> None:
    """Store n results from number ``first``, divided and rounded; the buffer has ``room`` elements."""
    if not always(reduction.divisor == 1):
        Vector(kernel, Format.FP32, n).vs("div", data, data, reduction.divisor)
    fmt = reduction.target.fmt
    data = narrowed(kernel, data, n, room, fmt)
    kernel.emit(f"wdma.{fmt.token}", dst=reduction.target.at(first + reduction.starts[1]), src=data, n=n)
