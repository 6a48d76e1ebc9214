"""Rows of DDR whose places are computed when the program runs: the core finds them, the DMA moves them.

An index costs one instruction of the DMA, whatever the length of its row. So embeddings and caches go row by
row; elements that stand alone are left to the core (``lowering/indexing.py``).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from compiler.codegen.expr import Value, minimum
from compiler.codegen.kernel import Kernel
from compiler.codegen.slices.tensors import DdrTensor, dma_loops, unravel
from tx8isa.numbers.division import ceil_div, round_up
from tx8isa.numbers.formats import Format

Place = Callable[[Value], Value]
"""The element at which the row of a number begins, in units of rows' elements."""

FEWEST = 16
"""Elements of a row from which on an instruction of the DMA takes less time than the core."""

_ROOM = 1 << 16
"""Bytes of a block of rows: the next one is loaded while it is stored."""
_SHORTEST = 256
"""Bytes below which rows are not shared out among tiles: a shorter run of DDR takes no less time."""


@dataclass(frozen=True)
class Rows:
    """``count`` rows; each is ``outer`` pieces of ``inner`` neighbouring elements."""

    count: int
    inner: int
    outer: int = 1

    @property
    def elements(self) -> int:
        """Elements of a row."""
        return self.outer * self.inner


@dataclass(frozen=True)
class _Blocks:
    """Rows cut along pieces, rows and elements of a piece: ``size`` at a time, at the end what is left."""

    rows: Rows
    size: Rows

    @property
    def axes(self) -> tuple[tuple[int, int], ...]:
        """Extent and size of a block along each axis."""
        rows, size = self.rows, self.size
        return (rows.outer, size.outer), (rows.count, size.count), (rows.inner, size.inner)

    @property
    def counts(self) -> list[int]:
        return [ceil_div(extent, size) for extent, size in self.axes]

    @property
    def items(self) -> int:
        return math.prod(self.counts)


def _blocks(rows: Rows, room: int, shortest: int, tiles: int) -> _Blocks:
    """Blocks of at most ``room`` elements; rows are dealt to tiles, then pieces, then elements."""
    inner = min(rows.inner, room)
    outer = min(rows.outer, max(room // inner, 1))
    count = min(rows.count, max(room // (inner * outer), 1))
    blocks = _Blocks(rows, Rows(count, inner, outer))
    for name, least in (("count", 1), ("outer", 1), ("inner", shortest)):
        extent, size = getattr(rows, name), getattr(blocks.size, name)
        wanted = tiles // (blocks.items // ceil_div(extent, size))
        fewer = round_up(ceil_div(extent, max(wanted, 1)), least)
        blocks = replace(blocks, size=replace(blocks.size, **{name: min(size, fewer)}))
    return blocks


def gather_rows(
    kernel: Kernel, source: DdrTensor, target: DdrTensor, rows: Rows, pitch: int, place: Place
) -> None:
    """Row n of the target begins as the source does at element ``place(n)``.

    Pieces of a row are ``pitch`` elements apart in the source; the target has them as [outer, count, inner].
    """
    (source, target), scale = _movable(source, target)
    rows, each = replace(rows, inner=rows.inner * scale), source.bytes_each
    room = min(_ROOM, kernel.budget // 2) // each
    blocks = _blocks(rows, room, _SHORTEST // each, kernel.target.tiles)
    with kernel.items(blocks.items) as item:
        begins, (outer, count, inner) = _block(kernel, blocks, item)
        data = kernel.buffer("rows", blocks.size.count * blocks.size.elements * each)
        base, step = kernel.let(data), kernel.let(outer * inner * each)
        inside = kernel.let(begins[0] * (pitch * scale) + begins[2])
        with kernel.loop(count) as row:
            first = place(begins[1] + row) * scale + inside
            loops = dma_loops((pitch * scale, 1), (outer, inner))
            goal = base + row * step
            kernel.emit(f"rdma.{source.fmt.token}", dst=goal, src=source.at(first), **loops)
        strides = (rows.inner, rows.count * rows.inner, 1)
        first = begins[0] * strides[1] + begins[1] * rows.inner + begins[2]
        loops = dma_loops(strides, (count, outer, inner))
        kernel.emit(f"wdma.{target.fmt.token}", dst=target.at(first), src=base, **loops)


def _block(kernel: Kernel, blocks: _Blocks, item: Value) -> tuple[list[Value], list[Value]]:
    """Where a block begins along the axes, and its sizes."""
    numbers = unravel(item, blocks.counts)
    begins = [kernel.let(number * size) for number, (_, size) in zip(numbers, blocks.axes, strict=True)]
    sizes = [
        _at_most(kernel, size, extent, begin)
        for (extent, size), begin in zip(blocks.axes, begins, strict=True)
    ]
    return begins, sizes


def _at_most(kernel: Kernel, size: int, extent: int, begin: Value) -> Value:
    """The size of the block that begins at ``begin``."""
    return size if extent % size == 0 else kernel.let(minimum(size, extent - begin))


def scatter_rows(kernel: Kernel, source: DdrTensor, target: DdrTensor, rows: Rows, place: Place) -> None:
    """Row n of the source goes to element ``place(n)`` of the target; of equal places the last row stays.

    Tiles share the elements of rows, so that each place is written by one tile, in order.
    """
    (source, target), scale = _movable(source, target)
    inner, each = rows.inner * scale, source.bytes_each
    width = min(inner, max(round_up(ceil_div(inner, kernel.target.tiles), _SHORTEST // each), 1))
    width = min(width, max(min(_ROOM, kernel.budget // 2) // each, 1))
    most = min(rows.count, max(min(_ROOM, kernel.budget // 2) // (width * each), 1))
    with kernel.items(ceil_div(inner, width)) as item:
        begin = kernel.let(item * width)
        some = _at_most(kernel, width, inner, begin)
        with kernel.loop(ceil_div(rows.count, most)) as block:
            first = kernel.let(block * most)
            count = _at_most(kernel, most, rows.count, first)
            base = kernel.let(kernel.buffer("rows", most * width * each))
            start, step = first * inner + begin, kernel.let(some * each)
            loops = dma_loops((inner, 1), (count, some))
            kernel.emit(f"rdma.{source.fmt.token}", dst=base, src=source.at(start), **loops)
            with kernel.loop(count) as row:
                goal = place(first + row) * scale + begin
                data = base + row * step
                kernel.emit(f"wdma.{target.fmt.token}", dst=target.at(goal), src=data, n=some)


def _movable(*tensors: DdrTensor) -> tuple[tuple[DdrTensor, ...], int]:
    """The tensors in a format that the DMA moves, and how many of its elements are one of theirs."""
    fmt = {Format.UINT8: Format.INT8, Format.INT64: Format.INT32}.get(tensors[0].fmt, tensors[0].fmt)
    return tuple(replace(tensor, fmt=fmt) for tensor in tensors), tensors[0].fmt.bits // fmt.bits
