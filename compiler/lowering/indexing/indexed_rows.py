"""Copies of rows whose positions the core computes when the program runs; the DMA copies them.

An index costs one instruction of the DMA, whatever the length of its row, so embeddings and caches are copied
row by row. Single elements are left to the core (indexing.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from compiler.codegen.expr import Value, minimum
from compiler.codegen.kernel import Kernel
from compiler.codegen.slices.tensors import DdrTensor, dma_format, dma_loops, unravel
from compiler.evaluation.sizes import always, largest, least
from tx8isa.numbers.division import ceil_div, round_up
from tx8isa.numbers.formats import Format

RowStart = Callable[[Value], Value]
"""Emits code for the first element of the row with a number; returns the element."""

FEWEST_ELEMENTS = 16
"""Least elements of a row for which the DMA takes less time than the core."""

_BLOCK_BYTES = 1 << 16
"""Bytes of a block of rows; the next block is loaded while one is stored."""
_SHORTEST_RUN = 256
"""Bytes of the shortest part of a row for a tile: the time of shorter runs of DDR is the same."""


@dataclass(frozen=True)
class IndexedRows:
    """``count`` rows, each of ``outer`` pieces of ``inner`` adjacent elements."""

    count: int
    inner: int
    outer: int = 1

    @property
    def elements(self) -> int:
        """Elements of a row."""
        return self.outer * self.inner


@dataclass(frozen=True)
class _Blocks:
    """Rows in blocks of at most ``size``, which divide pieces, rows and the elements of a piece."""

    rows: IndexedRows
    size: IndexedRows

    @property
    def axes(self) -> tuple[tuple[int, int], ...]:
        """Extent and size of a block along each axis."""
        rows, size = self.rows, self.size
        return (rows.outer, size.outer), (rows.count, size.count), (rows.inner, size.inner)

    @property
    def counts(self) -> list[int]:
        """Blocks along each axis."""
        return [ceil_div(extent, size) for extent, size in self.axes]

    @property
    def items(self) -> int:
        """Number of blocks."""
        return math.prod(self.counts)


def _cut_into_blocks(rows: IndexedRows, room: int, shortest: int, tiles: int) -> _Blocks:
    """Blocks of at most ``room`` elements; tiles divide rows first, then pieces of rows, then elements of
    pieces."""
    inner = least(rows.inner, room)
    outer = least(rows.outer, largest(room // inner, 1))
    count = least(rows.count, largest(room // (inner * outer), 1))
    blocks = _Blocks(rows, IndexedRows(count, inner, outer))
    for name, unit in (("count", 1), ("outer", 1), ("inner", shortest)):
        extent, size = getattr(rows, name), getattr(blocks.size, name)
        wanted = tiles // (blocks.items // ceil_div(extent, size))
        fewer = round_up(ceil_div(extent, largest(wanted, 1)), unit)
        blocks = replace(blocks, size=replace(blocks.size, **{name: least(size, fewer)}))
    return blocks


def gather_rows(
    kernel: Kernel, source: DdrTensor, target: DdrTensor, rows: IndexedRows, pitch: int, row_start: RowStart
) -> None:
    """Copy to row n of the target the row that begins at element ``row_start(n)`` of the source.

    Pieces of a row are ``pitch`` elements apart in the source; the target is [outer, count, inner].
    """
    (source, target), scale = _in_dma_format(source, target)
    rows, each = replace(rows, inner=rows.inner * scale), source.bytes_each
    room = min(_BLOCK_BYTES, kernel.budget // 2) // each
    blocks = _cut_into_blocks(rows, room, _SHORTEST_RUN // each, kernel.target.tiles)
    with kernel.items(blocks.items) as item:
        begins, (outer, count, inner) = _locate_block(kernel, blocks, item)
        data = kernel.buffer("rows", blocks.size.count * blocks.size.elements * each)
        base, step = kernel.let(data), kernel.let(outer * inner * each)
        inside = kernel.let(begins[0] * (pitch * scale) + begins[2])
        with kernel.loop(count) as row:
            first = row_start(begins[1] + row) * scale + inside
            loops = dma_loops((pitch * scale, 1), (outer, inner))
            target_element = base + row * step
            kernel.emit(f"rdma.{source.fmt.token}", dst=target_element, src=source.at(first), **loops)
        strides = (rows.inner, rows.count * rows.inner, 1)
        first = begins[0] * strides[1] + begins[1] * rows.inner + begins[2]
        loops = dma_loops(strides, (count, outer, inner))
        kernel.emit(f"wdma.{target.fmt.token}", dst=target.at(first), src=base, **loops)


def _locate_block(kernel: Kernel, blocks: _Blocks, item: Value) -> tuple[list[Value], list[Value]]:
    """The begin and the size of a block along each axis."""
    numbers = unravel(item, blocks.counts)
    begins = [kernel.let(number * size) for number, (_, size) in zip(numbers, blocks.axes, strict=True)]
    sizes = [
        _block_size(kernel, size, extent, begin)
        for (extent, size), begin in zip(blocks.axes, begins, strict=True)
    ]
    return begins, sizes


def _block_size(kernel: Kernel, size: int, extent: int, begin: Value) -> Value:
    """The size of the block that begins at ``begin``."""
    return size if always(extent % size == 0) else kernel.let(minimum(size, extent - begin))


def scatter_rows(
    kernel: Kernel, source: DdrTensor, target: DdrTensor, rows: IndexedRows, row_start: RowStart
) -> None:
    """Copy row n of the source to element ``row_start(n)`` of the target; of several rows for one place the
    last remains.

    Tiles divide the elements of rows, so that each element is written by one tile, in order.
    """
    (source, target), scale = _in_dma_format(source, target)
    inner, each = rows.inner * scale, source.bytes_each
    width = min(inner, max(round_up(ceil_div(inner, kernel.target.tiles), _SHORTEST_RUN // each), 1))
    width = min(width, max(min(_BLOCK_BYTES, kernel.budget // 2) // each, 1))
    most = least(rows.count, largest(min(_BLOCK_BYTES, kernel.budget // 2) // (width * each), 1))
    with kernel.items(ceil_div(inner, width)) as item:
        begin = kernel.let(item * width)
        length = _block_size(kernel, width, inner, begin)
        with kernel.loop(ceil_div(rows.count, most)) as block:
            first = kernel.let(block * most)
            count = _block_size(kernel, most, rows.count, first)
            base = kernel.let(kernel.buffer("rows", most * width * each))
            start, step = first * inner + begin, kernel.let(length * each)
            loops = dma_loops((inner, 1), (count, length))
            kernel.emit(f"rdma.{source.fmt.token}", dst=base, src=source.at(start), **loops)
            with kernel.loop(count) as row:
                target_element = row_start(first + row) * scale + begin
                data = base + row * step
                kernel.emit(f"wdma.{target.fmt.token}", dst=target.at(target_element), src=data, n=length)


def _in_dma_format(*tensors: DdrTensor) -> tuple[tuple[DdrTensor, ...], int]:
    """The tensors in a format that the DMA copies, and how many elements of that format make one of
    theirs."""
    fmt = Format.INT32 if tensors[0].fmt is Format.INT64 else dma_format(tensors[0].fmt)
    return tuple(replace(tensor, fmt=fmt) for tensor in tensors), tensors[0].fmt.bits // fmt.bits
