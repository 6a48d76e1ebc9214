"""Transposes matrices in DDR: by products, or by moves of the TDMA for dynamic sizes.

The matrix engine is faster, but transposes pieces whose form depends on the size of the matrices. The TDMA
moves a slice of any length.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from compiler.codegen.expr import Operation, Value, Variable
from compiler.codegen.kernel import Kernel
from compiler.codegen.slices.aligned import Grid, Place, load_slice, slice_buffer, store_slice
from compiler.codegen.slices.long_runs import into_planes, out_of_planes
from compiler.codegen.slices.matrix_transpose import Side, transpose
from compiler.codegen.slices.tensors import dma_loops, stretches, unravel
from compiler.codegen.slices.vector import convert
from compiler.evaluation.sizes import Size, here, largest, most
from tx8isa.numbers.division import ceil_div
from tx8isa.numbers.formats import Format
from tx8isa.numbers.layouts import LINE_BYTES
from tx8isa.numbers.limits import LARGEST_EXTENT, MOST_MOVES


def write_transposed(
    kernel: Kernel, source: Side, target: Side, outer: tuple[int, ...], rows: int, columns: int
) -> None:
    """Write column c of the source's ``rows`` lines as line c of the target, in the target's format.

    ``outer`` are the extents of the outer axes that both sides have.
    """
    if isinstance(rows, Size) or isinstance(columns, Size):
        _by_moves(kernel, source, target, outer, rows, columns)
    else:
        transpose(kernel, source, target, outer, rows, columns)


@dataclass(frozen=True)
class _Part:
    """Lines from ``row``, columns from ``column``, of the matrix ``index``."""

    index: list[Value]
    row: Value
    rows: int
    column: Value
    columns: int

    @property
    def elements(self) -> int:
        return self.rows * self.columns


def _by_moves(
    kernel: Kernel, source: Side, target: Side, outer: tuple[int, ...], rows: int, columns: int
) -> None:
    for part in _parts(kernel, source, target, outer, rows, columns):
        lines = _loaded(kernel, source, part)
        turned = _turned(kernel, lines, part, source.tensor.bytes_each)
        turned = _converted(kernel, turned, part, source.tensor.fmt, target.tensor.fmt)
        _store(kernel, target, part, turned)


def _turned(kernel: Kernel, lines: Value, part: _Part, each: int) -> Value:
    """Load the columns of a part, one after the other; returns their address."""
    turned = kernel.buffer("turned", part.elements * each)
    kernel.emit(
        "td.gatherscatter",
        dst=turned,
        src0=lines,
        n=each,
        src_stride0=part.columns * each,
        src_iter0=part.rows,
        src_stride1=each,
        src_iter1=part.columns,
        dst_stride0=each,
        dst_iter0=part.rows,
        dst_stride1=part.rows * each,
        dst_iter1=part.columns,
    )
    return turned


def _parts(
    kernel: Kernel, source: Side, target: Side, outer: tuple[int, ...], rows: int, columns: int
) -> Iterator[_Part]:
    """This tile's parts: some rows with all columns, or some columns with all rows; two parts fit."""
    kernel.await_earlier_phases()
    by_rows, matrices = isinstance(rows, Size), math.prod(outer)
    cut, whole = (rows, columns) if by_rows else (columns, rows)
    bytes_each = 3 * most(whole) * (source.tensor.bytes_each + target.tensor.bytes_each)
    fit = min((kernel.budget // 2 - 8 * LINE_BYTES) // bytes_each, MOST_MOVES // most(whole))
    size = max(1, min(fit, shared_length(kernel, matrices, cut)))
    for number, begin, count in sliced(kernel, matrices, cut, size):
        index = [kernel.let(at) for at in unravel(number, outer)]
        yield _Part(index, begin, count, 0, columns) if by_rows else _Part(index, 0, rows, begin, count)


def shared_length(kernel: Kernel, batches: int, extent: int) -> int:
    """The length of an axis's slices, such that every tile has some; at most as many as an instruction
    addresses."""
    return min(ceil_div(here(extent), ceil_div(kernel.target.tiles, here(batches))), LARGEST_EXTENT)


def sliced(kernel: Kernel, batches: int, extent: int, size: int) -> Iterator[tuple[Value, Value, int]]:
    """This tile's slices of at most ``size`` of an axis: the batch, the beginning, the length."""
    first = 0
    for stretch in stretches(extent, size):
        count, each = batches * stretch.count, largest(stretch.count, 1)
        with kernel.items(count, first) as item:
            if isinstance(item, Variable | Operation):
                item = replace(item, high=largest(count - 1, 0))  # there may be no item of this length
            begin = kernel.let(item % each * stretch.size + stretch.start)
            yield kernel.let(item // each), begin, stretch.size
        first += count


def _loaded(kernel: Kernel, side: Side, part: _Part) -> Value:
    """Load the lines of a part, one after the other; returns their address."""
    tensor = side.tensor
    lines = kernel.buffer("lines", part.elements * tensor.bytes_each)
    if side.planes:
        (batch,), grid = part.index, Grid(part.rows, 1, part.rows)
        data = load_slice(kernel, "planes", tensor, Place(batch, part.row), grid, part.columns)
        out_of_planes(kernel, tensor.fmt, data.base, lines, part.rows, part.columns)
        return lines
    first = side.matrix(part.index) + part.row * side.step + part.column
    loops = dma_loops((side.step, 1), (part.rows, part.columns))
    kernel.emit(f"rdma.{tensor.fmt.token}", dst=lines, src=tensor.at(first), **loops)
    return lines


def _store(kernel: Kernel, side: Side, part: _Part, lines: Value) -> None:
    """Write the columns of a part, which are one after the other, as lines of the target."""
    tensor = side.tensor
    if side.planes:
        (batch,), grid = part.index, Grid(part.columns, 1, part.columns)
        data = slice_buffer(kernel, "planes", tensor.fmt, grid, part.rows)
        into_planes(kernel, tensor.fmt, data.base, lines, grid.extents, part.rows)
        store_slice(kernel, data, tensor, Place(batch, part.column))
        return
    first = side.matrix(part.index) + part.column * side.step + part.row
    loops = dma_loops((side.step, 1), (part.columns, part.rows))
    kernel.emit(f"wdma.{tensor.fmt.token}", dst=tensor.at(first), src=lines, **loops)


def _converted(kernel: Kernel, lines: Value, part: _Part, before: Format, after: Format) -> Value:
    """A part in another format: its address."""
    if before is after:
        return lines
    converted = kernel.buffer("converted", part.elements * after.bits // 8)
    convert(kernel, converted, lines, part.elements, before, after)
    return converted
