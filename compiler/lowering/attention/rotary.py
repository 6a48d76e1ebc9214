"""Rotary position embedding in one phase: y = x cos + turned(x) sin.

The matrix engine turns features: a product with a matrix of zeros, ones and minus ones, which is exact. A
tile takes a block of positions; as many heads as fit are done by the same instructions, with the rows of the
tables repeated for each.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from compiler.codegen.expr import Value
from compiler.codegen.kernel import Argument, Kernel
from compiler.codegen.slices.aligned import BLOCK, Aligned, Grid, narrowed_slice, slice_buffer, widened_slice
from compiler.codegen.slices.dealing import coordinates, share, slices
from compiler.codegen.slices.lane_turner import loaded_matrix
from compiler.codegen.slices.precision import engine_format, split
from compiler.codegen.slices.tensors import DdrTensor, broadcast_view, dma_loops, unravel
from compiler.codegen.slices.vector import Vector
from compiler.lowering.record import Work, lowering
from compiler.operators.linear.rotary import features
from compiler.operators.record import Call
from tx8isa.numbers.division import ceil_div
from tx8isa.numbers.formats import Format
from tx8isa.numbers.layouts import aligned_channels, tail_width
from tx8isa.numbers.limits import LARGEST_EXTENT

_BYTES_EACH = 40
"""Scratchpad bytes for an element of a row: FP32 rows, turned rows and their sources twice, two tables."""


def _check(call: Call) -> str | None:
    """The engine's packed operands."""
    size = features(call).shape[-1]
    return f"heads of at most {LARGEST_EXTENT} features; found {size}" if size > LARGEST_EXTENT else None


@dataclass(frozen=True)
class _Rows:
    """Where the rows of a tensor are: strides of heads, of positions, and of all other axes."""

    tensor: DdrTensor
    offset: int
    head: int
    position: int
    others: tuple[int, ...]


@dataclass(frozen=True)
class _Problem:
    """``heads`` x ``positions`` rows of ``size`` features, for each index of axes ``others``.

    ``rows``: of x, cos, sin and y. The tables are the same for all heads.
    """

    size: int
    heads: int
    positions: int
    others: tuple[int, ...]
    rows: tuple[_Rows, ...]


def _problem(work: Work) -> _Problem:
    """The positions are the longest of the axes along which the tables differ."""
    seen = features(work.spec)
    leading, size = seen.shape[:-1], seen.shape[-1]
    tensors = (work.input(0), work.input(1), work.input(2), work.output)
    tables = [_steps(tensors[at], leading) for at in (1, 2)]
    differ = [axis for axis in range(len(leading)) if tables[0][axis] or tables[1][axis]]
    position = max(differ or range(len(leading)), key=lambda at: leading[at])
    same = [axis for axis in range(len(leading)) if axis not in (*differ, position)]
    head = max(same, key=lambda at: leading[at], default=-1)
    others = [axis for axis in range(len(leading)) if axis not in (position, head)]
    steps = (seen.strides[:-1], *tables, work.output.strides[:-1])
    rows = tuple(
        _Rows(tensor, offset, step[head] if same else 0, step[position], tuple(step[at] for at in others))
        for tensor, offset, step in zip(tensors, (seen.offset, 0, 0, 0), steps, strict=True)
    )
    heads = leading[head] if same else 1
    return _Problem(size, heads, leading[position], tuple(leading[at] for at in others), rows)


def _steps(table: DdrTensor, leading: Sequence[int]) -> tuple[int, ...]:
    """Elements of a table from one row to the next along each of the leading axes."""
    steps = broadcast_view(table.viewed(*table.shape[:-1]), tuple(leading)).strides
    return tuple(step * table.shape[-1] for step in steps)


@lowering("Rotary", check=_check, rounds=True)
def rotary(kernel: Kernel, work: Work) -> None:
    """Positions are dealt, and heads where there are fewer positions than tiles."""
    p, compute = _problem(work), work.arithmetic
    turner = _turner(kernel, work.spec.integers("turn") or (), compute)
    by_positions, by_heads = _shares(kernel.target.tiles, p)
    place = coordinates(kernel, (by_positions, by_heads))
    room = max(1, kernel.budget // (_BYTES_EACH * aligned_channels(p.size, BLOCK)))
    positions = share(p.positions, by_positions, place[0], min(room, ceil_div(p.positions, by_positions)))
    own = p.heads // by_heads
    together = max(n for n in range(1, own + 1) if own % n == 0 and (n == 1 or n * positions.size <= room))
    with kernel.loop(math.prod(p.others)) as other, slices(kernel, positions) as (begin, count):
        block = _Block(
            kernel,
            p,
            together,
            Grid(together * count, 1, together * positions.size),
            count,
            begin,
            unravel(other, p.others),
        )
        tables = [block.table(name, p.rows[at]) for at, name in ((1, "cos"), (2, "sin"))]
        with kernel.loop(own // together) as group:
            head = kernel.let((place[1] * (own // together) + group) * together)
            _turn_rows(block, head, compute, turner, tables)


def _shares(tiles: int, p: _Problem) -> tuple[int, int]:
    """In how many parts positions and heads are dealt: little work for each tile, equal parts of heads."""
    ways = [
        (by, tiles // by) for by in range(1, tiles + 1) if tiles % by == 0 and p.heads % (tiles // by) == 0
    ]
    return min(ways, key=lambda way: (ceil_div(p.positions, way[0]) * p.heads // way[1], -way[0]))


def _turner(kernel: Kernel, turn: Sequence[int], compute: Format) -> Value:
    """The matrix that turns features: row j has a one where feature j comes from."""
    matrix = np.zeros((len(turn), len(turn)))
    matrix[np.arange(len(turn)), np.abs(turn) - 1] = np.sign(turn)
    return loaded_matrix(kernel, "turn", matrix, engine_format(compute))


class _Part(NamedTuple):
    """Planes from ``first`` on: ``width`` features of each, which take ``stored`` lanes."""

    first: int
    planes: int
    width: int
    stored: int


@dataclass(frozen=True)
class _Block:
    """Rows of ``heads`` heads at ``count`` positions from ``begin`` on, in the scratchpad as ``grid``."""

    kernel: Kernel
    p: _Problem
    heads: int
    grid: Grid
    count: Value
    begin: Value
    other: Sequence[Value]

    def _parts(self) -> list[_Part]:
        """Whole planes, and the tail."""
        whole, rest = divmod(self.p.size, BLOCK)
        parts = [_Part(0, whole, BLOCK, BLOCK)] if whole else []
        return [*parts, _Part(whole, 1, rest, tail_width(rest, BLOCK) or BLOCK)] if rest else parts

    def _first(self, rows: _Rows, head: Value) -> Value:
        element = rows.offset + (head * rows.head + self.begin * rows.position)
        for index, step in zip(self.other, rows.others, strict=True):
            element = element + index * step
        return element

    def load(self, name: str, rows: _Rows, head: Value, heads: int) -> Aligned:
        """Rows of ``heads`` heads, in the format in which they lie."""
        kernel, token = self.kernel, rows.tensor.fmt.token
        grid = self.grid if heads == self.heads else Grid(self.count, 1, self.grid.room // self.heads)
        target = slice_buffer(kernel, name, rows.tensor.fmt, grid, self.p.size)
        for part in self._parts():
            place, loops = self._in_ddr(part, rows, head, heads)
            if part.width == part.stored:
                kernel.emit(f"rdma.{token}", dst=target.plane(part.first), src=place, **loops)
                continue
            compact = kernel.buffer(f"{name}_tail", grid.room * part.width * rows.tensor.bytes_each)
            shape: list[Value] = [1, grid.height, 1, part.width]
            kernel.emit(f"rdma.{token}", dst=compact, src=place, **loops)
            kernel.emit(
                f"td.channelnorm.{token}",
                dst=target.plane(part.first),
                src0=compact,
                shape=shape,
                dst_shape=shape,
            )
        return target

    def store(self, data: Aligned, rows: _Rows, head: Value) -> None:
        kernel, each = self.kernel, rows.tensor.bytes_each
        for part in self._parts():
            source, (place, loops) = data.plane(part.first), self._in_ddr(part, rows, head, self.heads)
            if part.width != part.stored:
                compact = kernel.buffer("compact", self.grid.room * part.width * each)
                kernel.emit(
                    "td.gatherscatter",
                    dst=compact,
                    src0=source,
                    n=part.width * each,
                    src_stride0=part.stored * each,
                    src_iter0=self.grid.height,
                    dst_stride0=part.width * each,
                    dst_iter0=self.grid.height,
                )
                source = compact
            kernel.emit(f"wdma.{rows.tensor.fmt.token}", dst=place, src=source, **loops)

    def _in_ddr(self, part: _Part, rows: _Rows, head: Value, heads: int) -> tuple[Value, dict[str, Argument]]:
        """Where a part of the rows is in DDR, and the loops of the DMA over it."""
        place = rows.tensor.at(self._first(rows, head) + part.first * BLOCK)
        steps = (BLOCK, rows.head, rows.position, 1)
        return place, dma_loops(steps, (part.planes, heads, self.count, part.width))

    def table(self, name: str, rows: _Rows) -> Aligned:
        """Rows of a table in FP32, for each head once more."""
        once = widened_slice(self.kernel, self.load(name, rows, 0, 1))
        if self.heads == 1:
            return once
        target = slice_buffer(self.kernel, f"{name}s", Format.FP32, self.grid, self.p.size)
        for part in self._parts():
            size = self.count * (4 * part.stored)
            self.kernel.emit(
                "td.gatherscatter",
                dst=target.plane(part.first),
                src0=once.plane(part.first),
                n=size,
                src_stride0=0,
                src_iter0=self.heads,
                src_stride1=size,
                src_iter1=part.planes,
                dst_stride0=size,
                dst_iter0=self.heads * part.planes,
            )
        return target


def _turn_rows(block: _Block, head: Value, compute: Format, turner: Value, tables: Sequence[Aligned]) -> None:
    """The rows of some heads, in FP32, rounded once."""
    kernel, (x, _, _, y) = block.kernel, block.p.rows
    loaded = block.load("x", x, head, block.heads)
    wide = widened_slice(kernel, loaded)
    narrow = loaded if loaded.fmt is compute else narrowed_slice(kernel, wide, compute)
    turned = slice_buffer(kernel, "turned", Format.FP32, block.grid, block.p.size)
    for step, part in enumerate(split(kernel, narrow)):
        psum: dict[str, Value] = {"psum": turned.base} if step else {}
        kernel.emit(
            f"ne.gemm.{engine_format(compute).token}",
            a=part.base,
            b=turner,
            out=turned.base,
            m=block.grid.height,
            k=block.p.size,
            n=block.p.size,
            out_format="fp32",
            **psum,
        )
    vector = Vector(kernel, Format.FP32, wide.elements)
    total = slice_buffer(kernel, "total", Format.FP32, block.grid, block.p.size)
    vector.vv("mul", total.base, wide.base, tables[0].base)
    vector.vv("mul", turned.base, turned.base, tables[1].base)
    vector.vv("add", total.base, total.base, turned.base)
    block.store(narrowed_slice(kernel, total, y.tensor.fmt), y, head)
