"""Reductions of long runs of memory to few values.

The tensor is [outer, axis, inner]: of each of ``outer`` runs, element i belongs to result i % inner. Tiles
are a grid of runs and of parts of the axis. Each goes through its part of a run, a chunk at a time, and adds
the chunk element by element to sums as long as a chunk; these it folds at the end, and the tiles that share a
run bring their results together (``codegen.collective``).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from compiler.codegen.expr import Value, bounds
from compiler.codegen.kernel import Kernel, Target
from compiler.codegen.slices.aligned import BLOCK
from compiler.codegen.slices.dealing import share, slices, within
from compiler.codegen.slices.lanes import Folds
from compiler.codegen.slices.tensors import DdrTensor
from compiler.codegen.slices.vector import Vector, narrowed, widened
from compiler.codegen.spm import RESERVED_BYTES
from compiler.codegen.teams.collective import COMBINE, WAYS, WORD, Exchange, fold_halves
from compiler.codegen.teams.team import tile_grid
from compiler.lowering.record import Cut
from tx8isa.numbers.division import ceil_div, round_up
from tx8isa.numbers.formats import Format
from tx8isa.numbers.limits import LARGEST_EXTENT

LANES = BLOCK
_LONGEST_CHUNK, _WIDEST = 1 << 15, 1 << 14
"""Elements of a chunk, and of rows side by side."""
_MOST_RESULTS = 1 << 14
"""Results of a tile."""
_LONG = 8192
"""Elements of a run from which it is folded by itself, if nobody asks the timing model."""
_SHORT = 1024
"""Elements of a shorter run take fewer cycles than the instructions that fold it."""
_PROPOSED = 3
START = {"sum": 0.0, "max": -math.inf}
"""What changes nothing that it is folded with."""


@dataclass(frozen=True)
class LongFold:
    """``runs``, ``parts``: tiles along outer and axis; ``chunk``: rows of ``inner`` elements at a time."""

    runs: int
    parts: int
    chunk: int
    way: str

    def cut(self) -> Cut:
        """As the search names it."""
        tiles = (("outer", self.runs), ("axis", self.parts))
        return Cut(tiles, (("axis", self.chunk),), (("way", "long"), ("exchange", self.way)))


def beside(inner: int) -> int:
    """How many rows of ``inner`` elements side by side are whole lanes; a power of two."""
    lanes = LANES if inner < LANES else 4
    return lanes // math.gcd(lanes, inner)


def long_folds(folds: Folds, source: DdrTensor, target: Target) -> list[LongFold]:
    """Good ways to deal the runs; none where rows are too wide, or results too many."""
    found: dict[LongFold, int] = {}
    if beside(folds.inner) * folds.inner > _WIDEST:
        return []
    for used in range(1, min(folds.outer, target.tiles) + 1):
        turns = ceil_div(folds.outer, used)
        runs = ceil_div(folds.outer, turns)
        parts = min(target.tiles // runs, folds.axis, max(folds.axis * folds.inner // LANES, 1))
        parts = ceil_div(folds.axis, ceil_div(folds.axis, parts))
        if turns * folds.inner <= _MOST_RESULTS:
            fold = LongFold(runs, parts, _chunk(folds, source, target.spm_bytes, parts), WAYS[1])
            found[fold] = turns * ceil_div(folds.axis, parts)
    return sorted(found, key=lambda fold: (found[fold], fold.parts))[:_PROPOSED]


def worth_a_try(folds: Folds) -> bool:
    """Whether runs are long enough that one tile may fold one by itself."""
    return folds.axis * folds.inner >= _SHORT


def is_long(folds: Folds, target: Target) -> bool:
    """Whether runs are so long, or so few, that it pays to fold each by itself."""
    few = folds.outer * ceil_div(folds.inner, LANES) < target.tiles
    return folds.axis * folds.inner >= _LONG and (few or folds.inner == 1)


def rule(folds: Folds, source: DdrTensor, target: Target) -> LongFold | None:
    """How to fold without having asked the timing model; None for lanes."""
    if not is_long(folds, target):
        return None
    return next(iter(long_folds(folds, source, target)), None)


def cuts(folds: Folds, source: DdrTensor, target: Target) -> Iterator[Cut]:
    """What the search tries: each way to deal the runs, with each way of exchange; and lanes."""
    for fold in long_folds(folds, source, target):
        for way in WAYS if fold.parts > 1 else WAYS[:1]:
            yield LongFold(fold.runs, fold.parts, fold.chunk, way).cut()
    yield Cut(choices=(("way", "lanes"),))


def fold_of(folds: Folds, source: DdrTensor, cut: Cut, target: Target) -> LongFold:
    """The way that a cut names; ValueError when it is none of this reduction."""
    fold = LongFold(cut.parts("outer"), cut.parts("axis"), cut.size("axis"), cut.choice("exchange", ""))
    allowed = {(f.runs, f.parts, f.chunk) for f in long_folds(folds, source, target)}
    if fold.way not in WAYS or (fold.runs, fold.parts, fold.chunk) not in allowed:
        raise ValueError(f"{fold} does not divide {folds}")
    return fold


def _chunk(folds: Folds, source: DdrTensor, room: int, parts: int) -> int:
    """Rows of a chunk: as many as the scratchpad has room for twice, or as a tile has."""
    group = beside(folds.inner)
    wide = group * folds.inner
    fit = (room - RESERVED_BYTES - WORD * _MOST_RESULTS) // (wide * (2 * source.bytes_each + 3 * WORD))
    most = min(fit, _LONGEST_CHUNK // wide, LARGEST_EXTENT, ceil_div(ceil_div(folds.axis, parts), group))
    return max(most, 1) * group


@dataclass(frozen=True)
class Reduction:
    """``source`` [outer, axis, inner] to ``target`` [outer, inner], from an element of each on.

    ``name``: sum or max. The result is divided by ``divisor``.
    """

    source: DdrTensor
    target: DdrTensor
    folds: Folds
    name: str
    divisor: int = 1
    starts: tuple[int, int] = (0, 0)


def fold_long(kernel: Kernel, what: Reduction, fold: LongFold) -> None:
    """The code of a reduction."""
    folds = what.folds
    turns = ceil_div(folds.outer, fold.runs)
    size = round_up(turns * folds.inner, 4)
    exchange = _exchange(kernel, folds, fold, size) if fold.parts > 1 else None
    with tile_grid(kernel, (fold.runs, fold.parts)) as grid:
        own = share(folds.outer, fold.runs, grid.position[0], 1)
        results = kernel.buffer("results", WORD * (size + LANES))
        with slices(kernel, own) as (run, _):
            place = kernel.let(results + (run - own.begin) * (WORD * folds.inner))
            _Run(kernel, what, fold).fold(run, grid.position[1], place)
        first, n = own.begin * folds.inner, kernel.let(own.length * folds.inner)
        if exchange is None:
            _store(kernel, what, first, results, n, size)
            return
        clear_behind(kernel, results, n, size)
        team = grid.team(kernel, 1)
        exchange.give(team, results)
        with kernel.if_below(team.member, exchange.parts or 1):
            total = exchange.folded(team, what.name)
            if exchange.parts != 1:
                first, n = first + team.member * exchange.size, exchange.size
            _store(kernel, what, first, total, n, exchange.size)


def _exchange(kernel: Kernel, folds: Folds, fold: LongFold, size: int) -> Exchange:
    """Every tile of a team owns a part of many results; few belong to one."""
    even = folds.outer % fold.runs == 0 and folds.inner * folds.outer // fold.runs == size
    part = size // fold.parts
    if even and size % fold.parts == 0 and part % LANES == 0 and part // LANES <= LARGEST_EXTENT:
        return Exchange(kernel, fold.way, fold.parts, part, LANES, fold.parts)
    return Exchange(kernel, fold.way, fold.parts, size, _lanes(size), 1)


def _lanes(size: int) -> int:
    """The widest rows that ``size`` elements are, a multiple of four."""
    return math.gcd(size, LANES)


@dataclass(frozen=True)
class _Run:
    """A run of the source, of which this tile folds a part."""

    kernel: Kernel
    what: Reduction
    way: LongFold

    @property
    def folds(self) -> Folds:
        return self.what.folds

    @property
    def room(self) -> int:
        """Elements of a chunk in whole lines."""
        return round_up(self.way.chunk * self.folds.inner, LANES)

    def fold(self, run: Value, part: Value, place: Value) -> None:
        """Fold part number ``part`` of a run to ``place``.

        What lies behind the results in the same line is lost, so runs are to be folded in their order.
        """
        kernel, room = self.kernel, self.room
        own = share(self.folds.axis, self.way.parts, part, self.way.chunk)
        if own.most == 1:
            wide, _ = self._load(run, kernel.let(own.begin), kernel.let(own.length), room)
            self._fold_sums(wide, place)
            return
        sums = kernel.buffer("sums", WORD * room)
        kernel.emit("td.memset.fp32", dst=sums, value=START[self.what.name], n=room)
        with slices(kernel, own) as (row, count):
            wide, n = self._load(run, row, count, LANES)
            Vector(kernel, Format.FP32, n).vv(COMBINE[self.what.name], sums, sums, wide)
        self._fold_sums(sums, place)

    def _load(self, run: Value, row: Value, count: Value, whole: int) -> tuple[Value, Value]:
        """Rows of a run as FP32: their address, and elements with those that change nothing behind.

        ``whole``: of how many elements there is a multiple then; the engines that compute write whole lines.
        """
        kernel, folds, source = self.kernel, self.folds, self.what.source
        data = kernel.buffer("run", source.bytes_each * self.room)
        n = kernel.let(count * folds.inner)
        if bounds(count)[0] * folds.inner < self.room:
            with kernel.if_below(count, self.way.chunk + int(self.room > self.way.chunk * folds.inner)):
                rest = data + n // whole * (whole * source.bytes_each)
                kernel.emit(f"td.memset.{source.fmt.token}", dst=rest, value=START[self.what.name], n=whole)
        first = (run * folds.axis + row) * folds.inner + self.what.starts[0]
        kernel.emit(f"rdma.{source.fmt.token}", dst=data, src=source.at(first), n=n)
        n = kernel.let((n + (whole - 1)) // whole * whole)
        return widened(kernel, data, n, self.room, source.fmt), n

    def _fold_sums(self, sums: Value, place: Value) -> None:
        kernel, inner, group = self.kernel, self.folds.inner, beside(self.folds.inner)
        wide = group * inner
        row, lanes = kernel.buffer("row", WORD * wide) if group > 1 else place, _lanes(wide)
        shape: list[Value] = [1, self.way.chunk // group, wide // lanes, lanes]
        kernel.emit(f"ct.reduce.{self.what.name}.fp32", dst=row, src0=sums, shape=shape, dims="h")
        if inner == 1:
            kernel.emit(
                f"ct.reduce.{self.what.name}.fp32", dst=place, src0=row, shape=[1, 1, 1, LANES], dims="c"
            )
        elif group > 1:
            fold_halves(kernel, self.what.name, row, group, inner, place)


def clear_behind(kernel: Kernel, data: Value, count: Value, size: int) -> None:
    """Zeros from element ``count`` of FP32 ``data`` to element ``size``."""
    if bounds(count)[0] < size:
        with kernel.if_below(count, size):
            n = within(size - count, 1, size)
            kernel.emit("td.memset.fp32", dst=data + count * WORD, value=0.0, n=n)


def _store(kernel: Kernel, what: Reduction, first: Value, data: Value, n: Value, room: int) -> None:
    """Write n results from number ``first`` on, divided and rounded."""
    if what.divisor > 1:
        Vector(kernel, Format.FP32, n).vs("div", data, data, float(what.divisor))
    fmt = what.target.fmt
    data = narrowed(kernel, data, n, room, fmt)
    kernel.emit(f"wdma.{fmt.token}", dst=what.target.at(first + what.starts[1]), src=data, n=n)
