"""Repeat and InsertZeros: upsampling of images by whole factors.

A piece of a row is loaded with all its channels. The TDMA repeats each position in the scratchpad, and the
result is stored once for each repetition of the row. Or the TDMA spreads the positions into zeros, and the
rows between are stored from zeros.
"""

from __future__ import annotations

import math

from compiler.codegen.expr import Value
from compiler.codegen.kernel import Kernel
from compiler.codegen.slices.aligned import (
    Aligned,
    Grid,
    Place,
    aligned_bytes,
    load_slice,
    slice_buffer,
    store_slice,
)
from compiler.codegen.slices.tensors import BLOCK, Stretch, stretches
from compiler.codegen.slices.vector import repeat_rows
from compiler.dialect.orders import Order
from compiler.evaluation.sizes import here, largest
from compiler.lowering.record import Engine, Work, lowering
from tx8isa.numbers.division import ceil_div
from tx8isa.numbers.limits import LARGEST_EXTENT, MOST_MOVES


@lowering("Repeat", "InsertZeros", order=Order.CHANNELS_LAST, blocked=True, engines=(Engine.DMA,))
def upsample(kernel: Kernel, work: Work) -> None:
    """Pieces of rows are distributed round robin; [N, C, L] is one row."""
    batches, *image, _ = work.input(0).shape
    rows, columns = math.prod(image[:-1]), image[-1]
    first = 0
    for stretch in stretches(columns, _columns(kernel, work, batches * rows, columns)):
        count = batches * rows * stretch.count
        zeros = _zeros(kernel, work, stretch) if work.op == "InsertZeros" else None
        with kernel.items(count, first) as item:
            pieces = largest(stretch.count, 1)  # a row may have no such columns, and then there is no turn
            line = item // pieces
            column = kernel.let(item % pieces * stretch.size + stretch.start)
            place = (kernel.let(line // rows), kernel.let(line % rows)), column, stretch
            if zeros is None:
                _repeat_piece(kernel, work, *place)
            else:
                _spread_piece(kernel, work, zeros, *place)
        first += count


def _repetitions(work: Work) -> tuple[int, int]:
    """The numbers of times that rows and columns are repeated."""
    times = work.spec.integers("times") or ()
    return (1, *times)[-2], times[-1]


def _repeat_piece(
    kernel: Kernel, work: Work, line: tuple[Value, Value], column: Value, stretch: Stretch
) -> None:
    """Repeat the columns ``stretch`` from ``column`` of a ``line``, an image and a row of it."""
    source, target, (down, across) = work.input(0), work.output, _repetitions(work)
    image, row = line
    columns, channels = source.shape[-2], source.shape[-1]
    at = Place(image, row * columns + column)
    data = load_slice(kernel, "x", source, at, Grid(1, stretch.size, 1), channels)
    wide = slice_buffer(kernel, "wide", data.fmt, Grid(1, stretch.size * across, 1), channels)
    _repeat_positions(kernel, data, wide, across)
    for repetition in range(down):
        below = (row * down + repetition) * (columns * across)
        store_slice(kernel, wide, target, Place(image, below + column * across))


def _zeros(kernel: Kernel, work: Work, stretch: Stretch) -> Aligned:
    """A piece of a row of the result that is zero."""
    grid = Grid(1, stretch.size * _repetitions(work)[1], 1)
    zeros = slice_buffer(kernel, "zeros", work.output.fmt, grid, work.output.shape[-1])
    kernel.emit(f"td.memset.{zeros.fmt.token}", dst=zeros.base, value=0.0, n=zeros.elements)
    return zeros


def _spread_piece(
    kernel: Kernel, work: Work, zeros: Aligned, line: tuple[Value, Value], column: Value, stretch: Stretch
) -> None:
    """Store the columns with zeros after each position, and rows of zeros."""
    source, target, (down, across) = work.input(0), work.output, _repetitions(work)
    image, row = line
    columns, channels = source.shape[-2], source.shape[-1]
    at = Place(image, row * columns + column)
    data = load_slice(kernel, "x", source, at, Grid(1, stretch.size, 1), channels)
    wide = slice_buffer(kernel, "wide", data.fmt, Grid(1, stretch.size * across, 1), channels)
    kernel.emit(f"td.memset.{wide.fmt.token}", dst=wide.base, value=0.0, n=wide.elements)
    for plane, moves, size in _plane_moves(data):
        kernel.emit(
            "td.gatherscatter",
            dst=wide.plane(plane),
            src0=data.plane(plane),
            n=size,
            src_stride0=size,
            src_iter0=moves,
            dst_stride0=size * across,
            dst_iter0=moves,
        )
    for below in range(down):
        first = (row * down + below) * (columns * across)
        store_slice(kernel, zeros if below else wide, target, Place(image, first + column * across))


def _plane_moves(data: Aligned) -> list[tuple[int, int, int]]:
    """The moves of whole planes, and of the tail: first plane, number of positions, bytes of each."""
    positions, each = data.grid.width, data.fmt.bits // 8
    parts = [(0, data.planes * positions, BLOCK * each)] if data.planes else []
    return [*parts, (data.planes, positions, data.tail * each)] if data.tail else parts


def _repeat_positions(kernel: Kernel, source: Aligned, target: Aligned, times: int) -> None:
    """Repeat every position of all planes ``times`` times."""
    for plane, moves, size in _plane_moves(source):
        repeat_rows(kernel, target.plane(plane), source.plane(plane), size, moves, times)


def _columns(kernel: Kernel, work: Work, lines: int, columns: int) -> int:
    """Columns of a piece: as many as fit twice, but few enough for every tile to have some."""
    source, across = work.input(0), _repetitions(work)[1]
    channels = source.shape[-1]
    planes = ceil_div(channels, BLOCK)
    limit = min(LARGEST_EXTENT, MOST_MOVES // planes) // across
    size = max(1, min(limit, ceil_div(here(columns * lines), kernel.target.tiles), here(columns)))

    def need(size: int) -> int:
        compact = (size * (1 + across)) * (channels % BLOCK) * source.bytes_each
        slices = sum(aligned_bytes(size * factor, channels, source.fmt) for factor in (1, across))
        zeros = aligned_bytes(size * across, channels, source.fmt) if work.op == "InsertZeros" else 0
        return 2 * (slices + (0 if source.blocked else compact)) + 2 * zeros

    while size > 1 and need(size) > kernel.budget:
        size = ceil_div(size, 2)
    return size
