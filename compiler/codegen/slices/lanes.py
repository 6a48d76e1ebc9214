"""Folds (sums or maxima) along one axis of [outer, axis, inner], many at a time.

A slice is stored in the scratchpad as FP32 [axis, R]: one lane for each fold, with R of 4, 8, 16, 32 or 64 so
that the packed and the aligned layout are the same. Values that belong to a lane are then the unit of a VuV
instruction. With inner > 1 the lanes are neighbours in DDR; with inner = 1 they are rows, which are
transposed. An axis that does not fit is processed in segments, and loaded again for every sweep.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from compiler.codegen.expr import Value, highest, minimum
from compiler.codegen.kernel import Kernel
from compiler.codegen.spm import RESERVED_BYTES
from compiler.evaluation.sizes import Size
from tx8isa.numbers.division import ceil_div
from tx8isa.numbers.formats import Format
from tx8isa.numbers.limits import LARGEST_EXTENT, MOST_MOVES

from .aligned import STORED_WIDTHS, Grid, load_aligned
from .row_transposer import RowTransposer
from .tensors import DdrTensor, dma_loops
from .vector import WORD, Vector, narrowed, widened


class Edit(Protocol):
    """A change of the FP32 results before they are stored."""

    def rows(self, data: Value, start: Value, n: Value) -> None:
        """Change ``n`` elements of compact rows [r, segment] that begin at element ``start`` of the axis."""

    def lanes(self, data: Value) -> None:
        """Change FP32 lanes [axis, R]."""


@dataclass(frozen=True)
class Folds:
    """``outer`` x ``inner`` folds of ``axis`` elements each."""

    outer: int
    axis: int
    inner: int


@dataclass(frozen=True)
class AxisSegment:
    """Part of the axis in the scratchpad: ``count`` elements of every lane from ``start``."""

    data: Value
    start: Value
    count: Value


@dataclass
class Lanes:
    """The slices of a phase: ``width`` lanes of ``segment`` elements.

    ``bytes_each``: scratchpad bytes per element that the lowering needs for all its buffers together.
    """

    kernel: Kernel
    source: DdrTensor
    folds: Folds
    bytes_each: int
    short: bool = True
    """True if elements of results that are stored as rows have fewer bytes than FP32."""
    joined: bool = False
    """True if planes of results may be joined before they are stored; ``bytes_each`` includes that."""
    width: int = field(init=False)
    segment: int = field(init=False)
    table: Value = field(init=False)
    transposer: RowTransposer = field(init=False)

    def __post_init__(self) -> None:
        self.width = self._width()
        fit = max(1, (self.kernel.budget - RESERVED_BYTES) // (self.width * self.bytes_each))
        self.segment = min(self.folds.axis, LARGEST_EXTENT, fit)
        if self.by_engine:
            self.transposer = RowTransposer(self.kernel, self.folds.axis, self.width, self.joined)
            return
        table = self.kernel.buffer("lanes", WORD * self.segment * self.width)
        self.table = table
        if self.resident:
            self.define_unused_lanes()
        if self._padded:
            narrow = self.source.bytes_each * self.segment * self.width
            self.narrow = self.kernel.buffer("spread", narrow)
            fmt = self.source.fmt.token
            self.kernel.emit(f"td.memset.{fmt}", dst=self.narrow, value=0.0, n=self.segment * self.width)

    def define_unused_lanes(self) -> None:
        """Write all lanes, if some have no fold: instructions compute on all.

        A shorter segment ends within a line, and engines overwrite the rest of that line. So several segments
        need this before each.
        """
        if self.rows % self.width:
            n = self.segment * self.width
            self.kernel.emit("td.memset.fp32", dst=self.table, value=0.0, n=n)

    @property
    def rows(self) -> int:
        """Number of neighbouring folds that lanes can take together."""
        return self.folds.outer if self.folds.inner == 1 else self.folds.inner

    @property
    def resident(self) -> bool:
        """True if the whole axis is in the scratchpad."""
        return self.segment == self.folds.axis

    @property
    def by_engine(self) -> bool:
        """True if the matrix engine transposes rows; for elements of four bytes the TDMA is faster.

        The engine takes only rows whose number of planes and lanes is known.
        """
        if isinstance(self.folds.axis, Size) or self.source.bytes_each >= WORD or not self.short:
            return False
        return self.folds.inner == 1 and self.resident

    @property
    def _padded(self) -> bool:
        """True if neighbours in DDR do not fill the lanes, so that the TDMA must add padding between rows."""
        return self.folds.inner > 1 and self.folds.inner % self.width != 0

    def _width(self) -> int:
        """The most lanes with which every tile has work and the whole axis fits, or else the fewest."""
        folds = self.folds
        others = 1 if folds.inner == 1 else folds.outer
        for width in STORED_WIDTHS:
            enough = others * ceil_div(self.rows, width) >= self.kernel.target.tiles
            fits = folds.axis * width * self.bytes_each + RESERVED_BYTES <= self.kernel.budget
            if enough and fits:
                return width
        return STORED_WIDTHS[-1]

    @contextmanager
    def items(self) -> Iterator[LaneSlice]:
        """Code for each slice of this tile."""
        blocks = ceil_div(self.rows, self.width)
        others = 1 if self.folds.inner == 1 else self.folds.outer
        with self.kernel.items(blocks * others) as number:
            begin = self.kernel.let(number % blocks * self.width)
            count = self.kernel.let(minimum(self.width, self.rows - begin))
            if self.by_engine:
                self.table = self.kernel.buffer("lanes", WORD * self.segment * self.width)
            yield LaneSlice(self, self.kernel.let(number // blocks), begin, count)

    def vector(self, count: Value) -> Vector:
        """Instructions over ``count`` elements of every lane."""
        return Vector(self.kernel, Format.FP32, count * self.width)

    def lane_vector(self) -> Vector:
        """Instructions over one value per lane."""
        return Vector(self.kernel, Format.FP32, self.width)

    def accumulator(self, name: str) -> Value:
        """A new buffer of one value per lane."""
        return self.kernel.buffer(name, WORD * self.width)

    def combine(self, name: str, segment: AxisSegment, data: Value, target: Value) -> None:
        """Fold a segment into ``target``, by ``name`` sum or max; a resident axis replaces its content."""
        kernel = self.kernel
        shape: list[Value] = [1, 1, segment.count, self.width]
        if self.resident:
            kernel.emit(f"ct.reduce.{name}.fp32", dst=target, src0=data, shape=shape, dims="w")
            return
        part = self.accumulator("part")
        kernel.emit(f"ct.reduce.{name}.fp32", dst=part, src0=data, shape=shape, dims="w")
        self.lane_vector().vv({"sum": "add", "max": "max"}[name], target, target, part)

    def clear(self, name: str, target: Value) -> None:
        """Initialize ``target`` for a fold over several segments."""
        if not self.resident:
            start = 0.0 if name == "sum" else -math.inf
            self.kernel.emit("td.memset.fp32", dst=target, value=start, n=self.width)


@dataclass
class LaneSlice:
    """A slice: folds ``begin`` .. ``begin + count - 1`` of the outer index ``outer``, a lane for each."""

    lanes: Lanes
    outer: Value
    begin: Value
    count: Value
    loaded: bool = False

    @contextmanager
    def sweep(self, backwards: bool = False) -> Iterator[AxisSegment]:
        """Write code for each segment, which is loaded first; ``backwards`` begins with the last segment.

        A resident axis is loaded only once.
        """
        lanes, kernel = self.lanes, self.lanes.kernel
        if lanes.resident:
            if not self.loaded:
                self._load(0, lanes.folds.axis)
                self.loaded = True
            yield AxisSegment(lanes.table, 0, lanes.folds.axis)
            return
        segments = ceil_div(lanes.folds.axis, lanes.segment)
        with kernel.loop(segments) as number:
            start = kernel.let((segments - 1 - number if backwards else number) * lanes.segment)
            count = kernel.let(minimum(lanes.segment, lanes.folds.axis - start))
            self._load(start, count)
            yield AxisSegment(lanes.table, start, count)

    def _first(self, axis_start: Value) -> Value:
        """The element of the source at which a segment of the slice begins."""
        folds = self.lanes.folds
        if folds.inner == 1:
            return self.begin * folds.axis + axis_start
        return self.outer * (folds.axis * folds.inner) + axis_start * folds.inner + self.begin

    def _load(self, start: Value, count: Value) -> None:
        if not self.lanes.resident:
            self.lanes.define_unused_lanes()
        if self.lanes.by_engine:
            lanes = self.lanes
            grid, axis = Grid(self.count, 1, lanes.width), lanes.folds.axis
            rows = load_aligned(lanes.kernel, "rows", lanes.source, self._first(0), axis, grid, axis)
            lanes.transposer.to_lanes(rows, lanes.table)
        elif self.lanes.folds.inner == 1:
            self._load_rows(start, count)
        else:
            self._load_neighbours(start, count)

    def _load_rows(self, start: Value, count: Value) -> None:
        lanes, kernel, source = self.lanes, self.lanes.kernel, self.lanes.source
        room, n = lanes.segment * lanes.width, self.count * count
        stage: Value = kernel.buffer("rows", source.bytes_each * room)
        loops = dma_loops((lanes.folds.axis, 1), (self.count, count))
        kernel.emit(f"rdma.{source.fmt.token}", dst=stage, src=source.at(self._first(start)), **loops)
        stage = widened(kernel, stage, n, room, source.fmt)
        for_each_block(kernel, count, lanes, self.count, stage, lanes.table, to_lanes=True)

    def _load_neighbours(self, start: Value, count: Value) -> None:
        lanes, kernel, source = self.lanes, self.lanes.kernel, self.lanes.source
        room, each = lanes.segment * lanes.width, source.bytes_each
        direct = not lanes._padded
        wide = source.bytes_each == WORD
        stage = lanes.table if direct and wide else kernel.buffer("rows", each * room)
        loops = dma_loops((lanes.folds.inner, 1), (count, self.count))
        kernel.emit(f"rdma.{source.fmt.token}", dst=stage, src=source.at(self._first(start)), **loops)
        if not direct:
            target = lanes.table if wide else lanes.narrow
            size = self.count * each
            kernel.emit(
                "td.gatherscatter",
                dst=target,
                src0=stage,
                n=size,
                src_stride0=size,
                src_iter0=count,
                dst_stride0=lanes.width * each,
                dst_iter0=count,
            )
            stage = target
        if not wide:
            n = count * lanes.width
            kernel.emit(f"ct.cvt.{source.fmt.token}.fp32", dst=lanes.table, src0=stage, n=n)

    def store(self, target: DdrTensor, segment: AxisSegment, edit: Edit | None = None) -> None:
        """Write a segment of every lane to its place in a tensor of the shape of the source."""
        if self.lanes.by_engine:
            if edit is not None:
                edit.lanes(segment.data)
            fmt = self.lanes.source.fmt
            self.lanes.transposer.store(segment.data, self.count, target, self._first(0), fmt)
        elif self.lanes.folds.inner == 1:
            self._store_rows(target, segment, edit)
        else:
            self._store_neighbours(target, segment)

    def _store_rows(self, target: DdrTensor, segment: AxisSegment, edit: Edit | None) -> None:
        lanes, kernel = self.lanes, self.lanes.kernel
        room, n = lanes.segment * lanes.width, self.count * segment.count
        rows: Value = kernel.buffer("result", WORD * room)
        for_each_block(kernel, segment.count, lanes, self.count, segment.data, rows, to_lanes=False)
        if edit is not None:
            edit.rows(rows, segment.start, n)
        rows = narrowed(kernel, rows, n, room, target.fmt)
        loops = dma_loops((lanes.folds.axis, 1), (self.count, segment.count))
        kernel.emit(f"wdma.{target.fmt.token}", dst=target.at(self._first(segment.start)), src=rows, **loops)

    def _store_neighbours(self, target: DdrTensor, segment: AxisSegment) -> None:
        lanes, kernel, each = self.lanes, self.lanes.kernel, target.bytes_each
        room = lanes.segment * lanes.width
        data = narrowed(kernel, segment.data, segment.count * lanes.width, room, target.fmt)
        if lanes._padded:
            size = self.count * each
            compact = kernel.buffer("compact", each * room)
            kernel.emit(
                "td.gatherscatter",
                dst=compact,
                src0=data,
                n=size,
                src_stride0=lanes.width * each,
                src_iter0=segment.count,
                dst_stride0=size,
                dst_iter0=segment.count,
            )
            data = compact
        loops = dma_loops((lanes.folds.inner, 1), (segment.count, self.count))
        kernel.emit(f"wdma.{target.fmt.token}", dst=target.at(self._first(segment.start)), src=data, **loops)

    def store_folded(self, target: DdrTensor, data: Value) -> None:
        """Write the result of every fold, one value per lane."""
        lanes = self.lanes
        first = self.begin if lanes.folds.inner == 1 else self.outer * lanes.folds.inner + self.begin
        data = narrowed(lanes.kernel, data, lanes.width, lanes.width, target.fmt)
        lanes.kernel.emit(f"wdma.{target.fmt.token}", dst=target.at(first), src=data, n=self.count)


def for_each_block(
    kernel: Kernel, count: Value, lanes: Lanes, used: Value, source: Value, target: Value, to_lanes: bool
) -> None:
    """Transpose rows [used, count] to lanes [count, R], or back, in blocks short enough for the TDMA.

    ``used``: number of the R lanes that have rows.
    """
    width = lanes.width
    most = MOST_MOVES // width
    blocks: Value = ceil_div(count, most) if isinstance(count, int) else (count + (most - 1)) // most
    pitch = count * WORD
    with kernel.loop(blocks) as block:
        start = kernel.let(block * most)
        length = count if highest(count) <= most else kernel.let(minimum(most, count - start))
        rows, columns = start * WORD, start * (WORD * width)
        down: dict[str, Value] = {"stride0": pitch, "iter0": used, "stride1": WORD, "iter1": length}
        packed: dict[str, Value] = {"stride0": WORD, "iter0": used, "stride1": WORD * width, "iter1": length}
        first, second = (down, packed) if to_lanes else (packed, down)
        offsets = (rows, columns) if to_lanes else (columns, rows)
        kernel.emit(
            "td.gatherscatter",
            src0=source + offsets[0],
            dst=target + offsets[1],
            n=WORD,
            **{f"src_{name}": value for name, value in first.items()},
            **{f"dst_{name}": value for name, value in second.items()},
        )
