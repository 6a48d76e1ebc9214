"""Softmax and normalizations of long rows, each in the scratchpads of one or several tiles.

Tiles form a grid of rows and segments. A segment is FP32 data [lines, 64]. Its sum or maximum is folded to
one number, and the tiles that share a row exchange that number (``codegen.teams.collective``). If a single
tile has a row, and it is no longer than the channels of a tensor, one instruction folds it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from compiler.codegen.expr import Value, minimum
from compiler.codegen.kernel import Kernel, Target
from compiler.codegen.slices.lanes import Folds
from compiler.codegen.slices.shards import shard_of, slices, within
from compiler.codegen.slices.tensors import DdrTensor
from compiler.codegen.slices.vector import WORD, Vector, narrowed, round_in_place, widened
from compiler.codegen.teams.collective import WAYS, Exchange
from compiler.codegen.teams.team import Team, tile_grid
from compiler.lowering.record import Cut
from tx8isa.numbers.division import ceil_div, round_up
from tx8isa.numbers.formats import Format
from tx8isa.numbers.limits import LARGEST_CHANNELS, LARGEST_EXTENT

from .lane_normalization import centrings
from .long_reductions import IDENTITY, LANES, clear_after
from .quotient import divide
from .row_products import RowProducts, saves_kinds

_DEFAULT_FROM = 4096
"""Least elements of a row for which this lowering is used without a search."""
_TRIED_FROM = 512
"""Least elements of a row for which the search tries this lowering with any number of rows."""
_RESERVED_BYTES = 12 << 10
"""Scratchpad bytes besides segments: sums, and buffers of exchanges."""


@dataclass(frozen=True)
class LongRowPlan:
    """``rows`` rows of ``axis`` elements, and how tiles divide them."""

    rows: int
    axis: int
    runs: int
    """Tiles along the rows."""
    parts: int
    """Tiles along the axis."""
    segment: int
    """Elements of a row that one tile has."""
    exchange: str = WAYS[1]
    """The way in which the tiles of a row exchange numbers, one of ``WAYS``."""

    @property
    def at_once(self) -> bool:
        """True if one instruction folds a row; the buffer must then end with its last element."""
        return self.parts == 1 and self.axis <= LARGEST_CHANNELS

    def cut(self) -> Cut:
        """This plan as a cut, the form in which the search stores it."""
        tiles = (("outer", self.runs), ("axis", self.parts))
        return Cut(tiles, choices=(("way", "long"), ("exchange", self.exchange)))


def long_row_plans(rows: int, axis: int, bytes_each: int, target: Target) -> list[LongRowPlan]:
    """Plans of the rows: several tiles for each row if there are few rows, and one tile for each row.

    ``bytes_each``: scratchpad bytes that all buffers need for each element of a segment. Plans whose segments
    do not fit are omitted.
    """
    found: dict[int, LongRowPlan] = {}
    for wanted in (target.tiles // rows if 2 * rows <= target.tiles else 1, 1):
        segment = round_up(ceil_div(axis, wanted), LANES)
        if segment * bytes_each + _RESERVED_BYTES <= target.spm_bytes and segment // LANES <= LARGEST_EXTENT:
            parts = ceil_div(axis, segment)
            found[parts] = LongRowPlan(rows, axis, min(rows, target.tiles // parts), parts, segment)
    return [*found.values()]


def long_row_cuts(plans: Sequence[LongRowPlan], target: Target) -> Iterator[Cut]:
    """Cuts for the search: each method of exchange, and lanes. If rows are short, only plans with few
    rows."""
    for plan in plans:
        if plan.axis >= _TRIED_FROM:
            for exchange in WAYS if plan.parts > 1 else WAYS[1:]:
                yield replace(plan, exchange=exchange).cut()
        elif plan.parts == 1 and plan.rows <= target.tiles:
            yield plan.cut()
    if plans and plans[0].axis >= _TRIED_FROM:
        yield Cut(choices=(("way", "lanes"),))


def chosen_long_row_plan(plans: Sequence[LongRowPlan], cut: Cut | None) -> LongRowPlan | None:
    """The plan of the cut, or the default; None for lanes. ValueError for a cut that does not fit these
    rows."""
    if cut is None:
        return next((plan for plan in plans if plan.axis >= _DEFAULT_FROM), None)
    if cut.choice("way", "lanes") == "lanes":
        return None
    for plan in plans:
        chosen = replace(plan, exchange=cut.choice("exchange", ""))
        if chosen.exchange in WAYS and chosen.cut() == cut:
            return chosen
    raise ValueError(f"{cut} does not divide these rows")


@dataclass(frozen=True)
class RowSegment:
    """This tile's part of a row in the scratchpad, in FP32."""

    kernel: Kernel
    data: Value
    """Address of the first element."""
    first: Value
    """Number of the first element in the tensor."""
    start: Value
    """Number of the first element in its row."""
    count: Value
    """Elements of the segment."""
    size: int
    """Elements that the buffer has room for."""
    used: int
    """Elements of the buffer that have been written: the row's, then any identity elements."""

    @property
    def vector(self) -> Vector:
        """Instructions over the elements."""
        return Vector(self.kernel, Format.FP32, self.count)

    @property
    def padded(self) -> Vector:
        """Instructions over all defined elements."""
        return Vector(self.kernel, Format.FP32, self.used)

    def load(self, name: str, tensor: DdrTensor) -> Value:
        """Load the elements of a row-long vector that correspond to a segment, as FP32; returns their
        address."""
        data = self.kernel.buffer(name, tensor.bytes_each * self.size)
        self.kernel.emit(f"rdma.{tensor.fmt.token}", dst=data, src=tensor.at(self.start), n=self.count)
        return widened(self.kernel, data, self.count, self.size, tensor.fmt)

    def store(self, target: DdrTensor) -> None:
        """Store the segment at its place in a tensor of the source's shape."""
        data = narrowed(self.kernel, self.data, self.count, self.size, target.fmt)
        self.kernel.emit(f"wdma.{target.fmt.token}", dst=target.at(self.first), src=data, n=self.count)


class _RowCode:
    """Writes one phase; ``folds``: the reductions of each row whose results all its tiles need.

    Segments become FP32, unless they keep the source's format (``as_loaded``).
    """

    def __init__(
        self,
        kernel: Kernel,
        source: DdrTensor,
        plan: LongRowPlan,
        folds: Sequence[str],
        as_loaded: bool = False,
    ) -> None:
        self.kernel, self.source, self.plan, self.as_loaded = kernel, source, plan, as_loaded
        self._exchanges = [Exchange(kernel, plan.exchange, plan.parts, 4, 4) for _ in folds if plan.parts > 1]
        self._names = list(folds)
        self._team = Team(1, 0, 0)

    @contextmanager
    def segments(self) -> Iterator[RowSegment]:
        """Loop over this tile's segments, one for each row that it shares."""
        kernel, plan = self.kernel, self.plan
        with tile_grid(kernel, (plan.runs, plan.parts)) as grid:
            if plan.parts > 1:
                self._team = grid.team(kernel, 1)
            with slices(kernel, shard_of(plan.rows, plan.runs, grid.position[0], 1)) as (row, _):
                start = kernel.let(grid.position[1] * plan.segment)
                left = within(plan.axis - start, 1, plan.axis)
                yield self._load(row, start, kernel.let(minimum(plan.segment, left)))

    def _load(self, row: Value, start: Value, count: Value) -> RowSegment:
        kernel, source, size = self.kernel, self.source, self.plan.segment
        first = kernel.let(row * self.plan.axis + start)
        data = kernel.buffer("segment", source.bytes_each * size)
        used = self.plan.axis if self.plan.at_once else size
        if self.plan.axis % size and not self.plan.at_once:
            value = IDENTITY[self._names[0]]
            kernel.emit(f"td.memset.{source.fmt.token}", dst=data, value=value, n=size)
        kernel.emit(f"rdma.{source.fmt.token}", dst=data, src=source.at(first), n=count)
        if not self.as_loaded:
            data = widened(kernel, data, used, size, source.fmt)
        return RowSegment(kernel, data, first, start, count, size, used)

    def fold(self, number: int, data: Value, fmt: Format = Format.FP32) -> Value:
        """Reduction ``number`` over ``data``, a segment of each tile; the address of the result.

        All tiles of a row get the same result. Data of another format than FP32 are folded at once.
        """
        kernel, name, lines = self.kernel, self._names[number], self.plan.segment // LANES
        if self.plan.at_once:
            one = kernel.buffer(name, WORD * 4)
            shape: list[Value] = [1, 1, 1, self.plan.axis]
            kernel.emit(f"ct.reduce.{name}.{fmt.token}", dst=one, src0=data, shape=shape, dims="c")
            return one
        lanes, one = kernel.buffer(f"{name}s", WORD * LANES), kernel.buffer(name, WORD * 4)
        kernel.emit(f"ct.reduce.{name}.fp32", dst=lanes, src0=data, shape=[1, lines, 1, LANES], dims="h")
        kernel.emit(f"ct.reduce.{name}.fp32", dst=one, src0=lanes, shape=[1, 1, 1, LANES], dims="c")
        if self.plan.parts == 1:
            return one
        self._exchanges[number].exchange(self._team, one)
        return self._exchanges[number].folded(self._team, name)


def softmax_of_long_rows(
    kernel: Kernel, source: DdrTensor, target: DdrTensor, plan: LongRowPlan, fmt: Format
) -> None:
    """exp(x - max) / sum of each row, rounded to ``fmt``."""
    products = _products(kernel, source, plan)
    rows = _RowCode(kernel, source, plan, ("max", "sum"), as_loaded=products is not None)
    with rows.segments() as segment:
        if products is None:
            data = segment.data
            segment.padded.vuv("sub", data, data, rows.fold(0, data), 1)
        else:
            data = products.minus(segment.data, rows.fold(0, segment.data, source.fmt))
        segment.padded.unary("exp_lp", data, data)
        total = rows.fold(1, data)
        division = divide(Vector(kernel, Format.FP32, 1), total, Folds(plan.rows, plan.axis, 1))
        segment.vector.vuv(division, data, data, total, 1)
        if target.fmt is not fmt and products is not None and products.fmt is fmt:
            products.widen(narrowed(kernel, data, segment.count, segment.size, fmt), data)
        elif target.fmt is not fmt:
            round_in_place(kernel, data, segment.count, segment.size, fmt)
        replace(segment, data=data).store(target)


def _products(kernel: Kernel, source: DdrTensor, plan: LongRowPlan) -> RowProducts | None:
    """Operands for products in place of differences and conversions; None where these take less time."""
    rows = ceil_div(plan.rows, plan.runs)
    if not plan.at_once or not saves_kinds(kernel.target, rows, plan.axis, source.fmt):
        return None
    return RowProducts.loaded(kernel, plan.axis, source.fmt)


def normalize_long_rows(
    kernel: Kernel,
    source: DdrTensor,
    target: DdrTensor,
    plan: LongRowPlan,
    vectors: Sequence[tuple[str, DdrTensor]],
    epsilon: float,
    centred: bool,
) -> None:
    """Rows scaled to mean square 1, before that shifted to mean 0 if ``centred``.

    ``vectors``: instructions, each with a vector as long as a row, that are applied to the results.
    """
    passes = centrings(source.fmt) if centred else 0
    rows = _RowCode(kernel, source, plan, ("sum",) * (passes + 1))
    with rows.segments() as segment:
        data, one, axis = segment.data, Vector(kernel, Format.FP32, 1), plan.axis
        for number in range(passes):
            if number:
                clear_after(kernel, data, segment.count, segment.used)
            mean = rows.fold(number, data)
            one.vs("div", mean, mean, axis)
            segment.vector.vuv("sub", data, data, mean, 1)
        squares = kernel.buffer("squares", WORD * segment.size)
        segment.vector.vv("mul", squares, data, data)
        clear_after(kernel, squares, segment.count, segment.used)
        scale = rows.fold(passes, squares)
        one.vs("div", scale, scale, axis)
        one.vs("add", scale, scale, epsilon)
        one.unary("rsqrt", scale, scale)
        segment.vector.vuv("mul", data, data, scale, 1)
        for instruction, tensor in vectors:
            segment.vector.vv(instruction, data, data, segment.load("vector", tensor))
        segment.store(target)
