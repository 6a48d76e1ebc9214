"""Softmax and normalizations of long rows, each of them held in the scratchpads of one or several tiles.

Tiles are a grid of rows and of segments. A segment lies in FP32 as [lines, 64]; what is added up of it, or
its largest element, is folded to one number, and the tiles that share a row exchange that
(``codegen.collective``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from compiler.codegen.expr import Value, minimum
from compiler.codegen.kernel import Kernel, Target
from compiler.codegen.slices.dealing import share, slices, within
from compiler.codegen.slices.tensors import DdrTensor
from compiler.codegen.slices.vector import Vector, narrowed, widened
from compiler.codegen.teams.collective import WAYS, WORD, Exchange
from compiler.codegen.teams.team import Team, tile_grid
from compiler.lowering.record import Cut
from tx8isa.numbers.division import ceil_div, round_up
from tx8isa.numbers.formats import Format
from tx8isa.numbers.limits import LARGEST_EXTENT

from .long_folds import LANES, START, clear_behind

LONG = 4096
"""Elements of a row from which it is held so, if nobody asks the timing model."""
SHORT = 512
_SPARE = 12 << 10
"""Scratchpad bytes for single numbers."""


@dataclass(frozen=True)
class LongRows:
    """``rows`` of ``axis`` elements on ``runs`` x ``parts`` tiles; ``segment``: elements of a tile's part.

    ``way``: how the tiles of a row exchange numbers.
    """

    rows: int
    axis: int
    runs: int
    parts: int
    segment: int
    way: str = WAYS[1]

    def cut(self) -> Cut:
        """As the search names it."""
        return Cut(
            (("outer", self.runs), ("axis", self.parts)), (), (("way", "long"), ("exchange", self.way))
        )


def long_rows(rows: int, axis: int, bytes_each: int, target: Target) -> LongRows | None:
    """How tiles share the rows; None if segments do not fit.

    ``bytes_each``: of the scratchpad for each element of a segment.
    """
    wanted = target.tiles // rows if 2 * rows <= target.tiles else 1
    segment = round_up(ceil_div(axis, wanted), LANES)
    if segment * bytes_each + _SPARE > target.spm_bytes or segment // LANES > LARGEST_EXTENT:
        return None
    parts = ceil_div(axis, segment)
    return LongRows(rows, axis, min(rows, target.tiles // parts), parts, segment)


def cuts(found: LongRows | None) -> Iterator[Cut]:
    """What the search tries: each way of exchange, and lanes; nothing for rows that do not fit."""
    if found is None or found.axis < SHORT:
        return
    for way in WAYS if found.parts > 1 else WAYS[1:]:
        yield _by_way(found, way).cut()
    yield Cut(choices=(("way", "lanes"),))


def decided(found: LongRows | None, cut: Cut | None) -> LongRows | None:
    """What a cut names, or the rule; None for lanes. ValueError for a cut that is not of these rows."""
    if cut is None:
        return found if found is not None and found.axis >= LONG else None
    if cut.choice("way", "lanes") == "lanes":
        return None
    chosen = None if found is None else _by_way(found, cut.choice("exchange", ""))
    if chosen is None or chosen.way not in WAYS or chosen.cut() != cut:
        raise ValueError(f"{cut} does not divide these rows")
    return chosen


def _by_way(found: LongRows, way: str) -> LongRows:
    return replace(found, way=way)


@dataclass(frozen=True)
class Segment:
    """This tile's part of a row: ``count`` FP32 elements at ``data``, the first is ``first`` of the tensor.

    ``start``: number of the first in its row. ``size`` elements have room; those behind the last hold a value
    that changes nothing.
    """

    kernel: Kernel
    data: Value
    first: Value
    start: Value
    count: Value
    size: int

    @property
    def vector(self) -> Vector:
        """Instructions over the elements."""
        return Vector(self.kernel, Format.FP32, self.count)

    @property
    def padded(self) -> Vector:
        """Instructions over the elements and those behind."""
        return Vector(self.kernel, Format.FP32, self.size)

    def load(self, name: str, tensor: DdrTensor) -> Value:
        """The same elements of a vector as long as a row, as FP32."""
        data = self.kernel.buffer(name, tensor.bytes_each * self.size)
        self.kernel.emit(f"rdma.{tensor.fmt.token}", dst=data, src=tensor.at(self.start), n=self.count)
        return widened(self.kernel, data, self.count, self.size, tensor.fmt)

    def store(self, target: DdrTensor) -> None:
        """Write the elements to their place in a tensor of the source's shape."""
        data = narrowed(self.kernel, self.data, self.count, self.size, target.fmt)
        self.kernel.emit(f"wdma.{target.fmt.token}", dst=target.at(self.first), src=data, n=self.count)


class Rows:
    """The code of one phase; ``folds``: how many numbers of a row all its tiles need."""

    def __init__(self, kernel: Kernel, source: DdrTensor, plan: LongRows, folds: Sequence[str]) -> None:
        self.kernel, self.source, self.plan = kernel, source, plan
        self._exchanges = [Exchange(kernel, plan.way, plan.parts, 4, 4) for _ in folds if plan.parts > 1]
        self._names = list(folds)
        self._team = Team(1, 0, 0)

    @contextmanager
    def segments(self) -> Iterator[Segment]:
        """This tile's rows, one after the other: its segment of each."""
        kernel, plan = self.kernel, self.plan
        with tile_grid(kernel, (plan.runs, plan.parts)) as grid:
            if plan.parts > 1:
                self._team = grid.team(kernel, 1)
            with slices(kernel, share(plan.rows, plan.runs, grid.position[0], 1)) as (row, _):
                start = kernel.let(grid.position[1] * plan.segment)
                left = within(plan.axis - start, 1, plan.axis)
                yield self._load(row, start, kernel.let(minimum(plan.segment, left)))

    def _load(self, row: Value, start: Value, count: Value) -> Segment:
        kernel, source, size = self.kernel, self.source, self.plan.segment
        first = kernel.let(row * self.plan.axis + start)
        data = kernel.buffer("segment", source.bytes_each * size)
        if self.plan.axis % size:
            value = START[self._names[0]]
            kernel.emit(f"td.memset.{source.fmt.token}", dst=data, value=value, n=size)
        kernel.emit(f"rdma.{source.fmt.token}", dst=data, src=source.at(first), n=count)
        return Segment(kernel, widened(kernel, data, size, size, source.fmt), first, start, count, size)

    def fold(self, number: int, data: Value) -> Value:
        """Fold FP32 ``data`` as long as a segment over the whole row, the ``number``-th time: its address.

        All tiles of a row get the same.
        """
        kernel, name, lines = self.kernel, self._names[number], self.plan.segment // LANES
        lanes, one = kernel.buffer(f"{name}s", WORD * LANES), kernel.buffer(name, WORD * 4)
        kernel.emit(f"ct.reduce.{name}.fp32", dst=lanes, src0=data, shape=[1, lines, 1, LANES], dims="h")
        kernel.emit(f"ct.reduce.{name}.fp32", dst=one, src0=lanes, shape=[1, 1, 1, LANES], dims="c")
        if self.plan.parts == 1:
            return one
        self._exchanges[number].give(self._team, one)
        return self._exchanges[number].folded(self._team, name)


def softmax_of(kernel: Kernel, source: DdrTensor, target: DdrTensor, plan: LongRows) -> None:
    """exp(x - max) / sum of each row."""
    rows = Rows(kernel, source, plan, ("max", "sum"))
    with rows.segments() as own:
        data, one = own.data, Vector(kernel, Format.FP32, 1)
        own.padded.vuv("sub", data, data, rows.fold(0, data), 1)
        own.padded.unary("exp_lp", data, data)
        total = rows.fold(1, data)
        one.unary("recip", total, total)
        own.vector.vuv("mul", data, data, total, 1)
        own.store(target)


def normalization_of(
    kernel: Kernel,
    source: DdrTensor,
    target: DdrTensor,
    plan: LongRows,
    vectors: Sequence[tuple[str, DdrTensor]],
    epsilon: float,
    centred: bool,
) -> None:
    """Rows brought to mean 0 (if ``centred``) and mean square 1.

    ``vectors``: what each element is combined with then, and by which instruction.
    """
    rows = Rows(kernel, source, plan, ("sum", "sum") if centred else ("sum",))
    with rows.segments() as own:
        data, one, axis = own.data, Vector(kernel, Format.FP32, 1), float(plan.axis)
        if centred:
            mean = rows.fold(0, data)
            one.vs("div", mean, mean, axis)
            own.vector.vuv("sub", data, data, mean, 1)
        squares = kernel.buffer("squares", WORD * own.size)
        own.vector.unary("square", squares, data)
        clear_behind(kernel, squares, own.count, own.size)
        scale = rows.fold(int(centred), squares)
        one.vs("div", scale, scale, axis)
        one.vs("add", scale, scale, epsilon)
        one.unary("rsqrt", scale, scale)
        own.vector.vuv("mul", data, data, scale, 1)
        for instruction, tensor in vectors:
            own.vector.vv(instruction, data, data, own.load("vector", tensor))
        own.store(target)
