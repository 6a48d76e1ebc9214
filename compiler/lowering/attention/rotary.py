"""Rotary position embedding in one phase: y = x cos + rotated(x) sin.

The matrix engine rotates the features: a product with a matrix of zeros, ones and minus ones, which is exact.
A tile takes a block of positions. Each instruction computes as many heads as fit; the rows of the tables are
repeated for them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from compiler.codegen.expr import Value
from compiler.codegen.kernel import Argument, Kernel
from compiler.codegen.slices.aligned import Aligned, Grid, narrowed_slice, slice_buffer, widened_slice
from compiler.codegen.slices.long_runs import CompactSlice, into_planes, out_of_planes, reorders, stored_width
from compiler.codegen.slices.precision import engine_format, split
from compiler.codegen.slices.row_transposer import loaded_matrix
from compiler.codegen.slices.shards import coordinates, shard_of, slices
from compiler.codegen.slices.tensors import BLOCK, DdrTensor, broadcast_view, dma_loops, unravel
from compiler.codegen.slices.vector import Vector, repeat_rows
from compiler.lowering.record import Engine, Work, lowering
from compiler.operators.linear.rotary import features
from compiler.operators.record import Call
from tx8isa.numbers.division import ceil_div
from tx8isa.numbers.formats import Format
from tx8isa.numbers.layouts import aligned_channels
from tx8isa.numbers.limits import LARGEST_EXTENT

_BYTES_EACH = 40
"""Scratchpad bytes for an element of a row: FP32 rows, rotated rows and their sources twice, two tables."""


def _check(call: Call) -> str | None:
    """The limit of the engines' packed operands."""
    size = features(call).shape[-1]
    return f"heads of at most {LARGEST_EXTENT} features; found {size}" if size > LARGEST_EXTENT else None


@dataclass(frozen=True)
class _StridedRows:
    """The rows of a tensor in DDR: the offset of the first, and strides along all axes."""

    tensor: DdrTensor
    offset: int
    head_stride: int
    position_stride: int
    other_strides: tuple[int, ...]


@dataclass(frozen=True)
class _RotaryProblem:
    """A grid of ``heads`` x ``positions`` rows with ``size`` features, for each index of the axes
    ``others``."""

    size: int
    heads: int
    positions: int
    others: tuple[int, ...]
    rows: tuple[_StridedRows, ...]
    """The rows of x, cos, sin and y; cos and sin are the same for all heads."""


def _problem_of(work: Work) -> _RotaryProblem:
    """The rows of a work. Positions are the longest of the axes along which the tables differ."""
    x = features(work.spec)
    leading, size = x.shape[:-1], x.shape[-1]
    tensors = (work.input(0), work.input(1), work.input(2), work.output)
    tables = [_row_strides(tensors[at], leading) for at in (1, 2)]
    differ = [axis for axis in range(len(leading)) if tables[0][axis] or tables[1][axis]]
    position = max(differ or range(len(leading)), key=lambda at: leading[at])
    same = [axis for axis in range(len(leading)) if axis not in (*differ, position)]
    head = max(same, key=lambda at: leading[at], default=-1)
    others = [axis for axis in range(len(leading)) if axis not in (position, head)]
    strides = (x.strides[:-1], *tables, work.output.strides[:-1])
    rows = tuple(
        _StridedRows(
            tensor, offset, step[head] if same else 0, step[position], tuple(step[at] for at in others)
        )
        for tensor, offset, step in zip(tensors, (x.offset, 0, 0, 0), strides, strict=True)
    )
    heads = leading[head] if same else 1
    return _RotaryProblem(size, heads, leading[position], tuple(leading[at] for at in others), rows)


def _row_strides(table: DdrTensor, leading: Sequence[int]) -> tuple[int, ...]:
    """Distances in elements between rows of a table along each of the leading axes."""
    strides = broadcast_view(table.viewed(*table.shape[:-1]), tuple(leading)).strides
    return tuple(step * table.shape[-1] for step in strides)


@lowering("Rotary", check=_check, takes_fp32=True, engines=(Engine.MATRIX, Engine.VECTOR))
def rotary(kernel: Kernel, work: Work) -> None:
    """Tiles divide the positions, and the heads if there are fewer positions than tiles."""
    problem, compute = _problem_of(work), work.arithmetic
    rotation = _rotation_matrix(kernel, work.spec.integers("turn") or (), compute)
    by_positions, by_heads = _divide_tiles(kernel.target.tiles, problem)
    place = coordinates(kernel, (by_positions, by_heads))
    room = max(1, kernel.budget // (_BYTES_EACH * aligned_channels(problem.size, BLOCK)))
    positions = shard_of(
        problem.positions, by_positions, place[0], min(room, ceil_div(problem.positions, by_positions))
    )
    tile_heads = problem.heads // by_heads
    heads_at_once = max(
        n for n in range(1, tile_heads + 1) if tile_heads % n == 0 and (n == 1 or n * positions.size <= room)
    )
    with kernel.loop(math.prod(problem.others)) as other, slices(kernel, positions) as (begin, count):
        block = _RowBlock(
            kernel,
            problem,
            heads_at_once,
            Grid(heads_at_once * count, 1, heads_at_once * positions.size),
            count,
            begin,
            unravel(other, problem.others),
        )
        tables = [block.table(name, problem.rows[at]) for at, name in ((1, "cos"), (2, "sin"))]
        with kernel.loop(tile_heads // heads_at_once) as group:
            head = kernel.let((place[1] * (tile_heads // heads_at_once) + group) * heads_at_once)
            _rotate_rows(block, head, compute, rotation, tables)


def _divide_tiles(tiles: int, problem: _RotaryProblem) -> tuple[int, int]:
    """The numbers of parts of positions and of heads: little work for each tile, equally many heads."""
    ways = [
        (parts, tiles // parts)
        for parts in range(1, tiles + 1)
        if tiles % parts == 0 and problem.heads % (tiles // parts) == 0
    ]
    return min(ways, key=lambda way: (ceil_div(problem.positions, way[0]) * problem.heads // way[1], -way[0]))


def _rotation_matrix(kernel: Kernel, turn: Sequence[int], compute: Format) -> Value:
    """The address of the matrix: row j has 1 or -1 at the feature that becomes feature j."""
    matrix = np.zeros((len(turn), len(turn)))
    matrix[np.arange(len(turn)), np.abs(turn) - 1] = np.sign(turn)
    return loaded_matrix(kernel, "turn", matrix, engine_format(compute))


@dataclass(frozen=True)
class _PlaneRange:
    """``count`` planes from ``first`` on with ``width`` features each, stored as ``stored`` channels."""

    first: int
    count: int
    width: int
    stored: int


@dataclass(frozen=True)
class _RowBlock:
    """Rows of ``heads`` heads at ``count`` positions from ``begin`` on, in the scratchpad as ``grid``."""

    kernel: Kernel
    problem: _RotaryProblem
    heads: int
    grid: Grid
    count: Value
    begin: Value
    other: Sequence[Value]

    def _plane_ranges(self) -> list[_PlaneRange]:
        """Whole planes, and the tail."""
        count, tail = divmod(self.problem.size, BLOCK)
        ranges = [_PlaneRange(0, count, BLOCK, BLOCK)] if count else []
        if tail:
            ranges.append(_PlaneRange(count, 1, tail, stored_width(tail)))
        return ranges

    def _first_element(self, rows: _StridedRows, head: Value) -> Value:
        """The first element of the rows in DDR."""
        element = rows.offset + (head * rows.head_stride + self.begin * rows.position_stride)
        for index, step in zip(self.other, rows.other_strides, strict=True):
            element = element + index * step
        return element

    def load(self, name: str, rows: _StridedRows, head: Value, heads: int) -> Aligned:
        """Load the rows of ``heads`` heads, in the format of the tensor."""
        kernel, token = self.kernel, rows.tensor.fmt.token
        grid = self.grid if heads == self.heads else Grid(self.count, 1, self.grid.room // self.heads)
        target = slice_buffer(kernel, name, rows.tensor.fmt, grid, self.problem.size)
        piece = self._compact(rows, grid)
        if reorders(kernel, piece, loading=True):
            compact = kernel.buffer(f"{name}_rows", piece.bytes)
            address, loops = self._long_runs(rows, head, heads)
            kernel.emit(f"rdma.{token}", dst=compact, src=address, **loops)
            into_planes(kernel, rows.tensor.fmt, target.base, compact, grid.extents, piece.channels)
            return target
        for planes in self._plane_ranges():
            address, loops = self._dma_operands(planes, rows, head, heads)
            if planes.width == planes.stored:
                kernel.emit(f"rdma.{token}", dst=target.plane(planes.first), src=address, **loops)
                continue
            compact = kernel.buffer(f"{name}_tail", grid.room * planes.width * rows.tensor.bytes_each)
            shape: list[Value] = [1, grid.height, 1, planes.width]
            kernel.emit(f"rdma.{token}", dst=compact, src=address, **loops)
            kernel.emit(
                f"td.channelnorm.{token}",
                dst=target.plane(planes.first),
                src0=compact,
                shape=shape,
                dst_shape=shape,
            )
        return target

    def store(self, data: Aligned, rows: _StridedRows, head: Value) -> None:
        """Write the rows of all heads of the block."""
        kernel, element_bytes = self.kernel, rows.tensor.bytes_each
        piece = self._compact(rows, self.grid)
        if reorders(kernel, piece, loading=False):
            compact = kernel.buffer("rows", piece.bytes)
            out_of_planes(kernel, data.fmt, data.base, compact, self.grid.height, piece.channels)
            address, loops = self._long_runs(rows, head, self.heads)
            kernel.emit(f"wdma.{rows.tensor.fmt.token}", dst=address, src=compact, **loops)
            return
        for planes in self._plane_ranges():
            source = data.plane(planes.first)
            address, loops = self._dma_operands(planes, rows, head, self.heads)
            if planes.width != planes.stored:
                compact = kernel.buffer("compact", self.grid.room * planes.width * element_bytes)
                kernel.emit(
                    "td.gatherscatter",
                    dst=compact,
                    src0=source,
                    n=planes.width * element_bytes,
                    src_stride0=planes.stored * element_bytes,
                    src_iter0=self.grid.height,
                    dst_stride0=planes.width * element_bytes,
                    dst_iter0=self.grid.height,
                )
                source = compact
            kernel.emit(f"wdma.{rows.tensor.fmt.token}", dst=address, src=source, **loops)

    def _compact(self, rows: _StridedRows, grid: Grid) -> CompactSlice:
        """Bytes of the rows of a grid in the form in which DDR holds them."""
        return CompactSlice(grid.room, 1, self.problem.size, rows.tensor.bytes_each, 1)

    def _long_runs(self, rows: _StridedRows, head: Value, heads: int) -> tuple[Value, dict[str, Argument]]:
        """The address in DDR of the rows of some heads, and the loops of the DMA over whole rows."""
        steps = (rows.head_stride, rows.position_stride, 1)
        address = rows.tensor.at(self._first_element(rows, head))
        return address, dma_loops(steps, (heads, self.count, self.problem.size))

    def _dma_operands(
        self, planes: _PlaneRange, rows: _StridedRows, head: Value, heads: int
    ) -> tuple[Value, dict[str, Argument]]:
        """The address in DDR of some planes of the rows, and the loops of the DMA over them."""
        address = rows.tensor.at(self._first_element(rows, head) + planes.first * BLOCK)
        steps = (BLOCK, rows.head_stride, rows.position_stride, 1)
        return address, dma_loops(steps, (planes.count, heads, self.count, planes.width))

    def table(self, name: str, rows: _StridedRows) -> Aligned:
        """The rows of a table in FP32, repeated for each head."""
        once = widened_slice(self.kernel, self.load(name, rows, 0, 1))
        if self.heads == 1:
            return once
        target = slice_buffer(self.kernel, f"{name}s", Format.FP32, self.grid, self.problem.size)
        for planes in self._plane_ranges():
            size = self.count * (4 * planes.stored)
            place = target.plane(planes.first)
            repeat_rows(self.kernel, place, once.plane(planes.first), size, planes.count, self.heads)
        return target


def _rotate_rows(
    block: _RowBlock, head: Value, compute: Format, rotation: Value, tables: Sequence[Aligned]
) -> None:
    """The rows of some heads, computed in FP32 and rounded once."""
    kernel, (x, _, _, y) = block.kernel, block.problem.rows
    loaded = block.load("x", x, head, block.heads)
    fp32 = widened_slice(kernel, loaded)
    rounded = loaded if loaded.fmt is compute else narrowed_slice(kernel, fp32, compute)
    rotated = slice_buffer(kernel, "turned", Format.FP32, block.grid, block.problem.size)
    for step, part in enumerate(split(kernel, rounded)):
        psum: dict[str, Value] = {"psum": rotated.base} if step else {}
        kernel.emit(
            f"ne.gemm.{engine_format(compute).token}",
            a=part.base,
            b=rotation,
            out=rotated.base,
            m=block.grid.height,
            k=block.problem.size,
            n=block.problem.size,
            out_format="fp32",
            **psum,
        )
    vector = Vector(kernel, Format.FP32, fp32.elements)
    total = slice_buffer(kernel, "total", Format.FP32, block.grid, block.problem.size)
    vector.vv("mul", total.base, fp32.base, tables[0].base)
    vector.vv("mul", rotated.base, rotated.base, tables[1].base)
    vector.vv("add", total.base, total.base, rotated.base)
    block.store(narrowed_slice(kernel, total, y.tensor.fmt), y, head)
