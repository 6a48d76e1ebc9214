"""All-reduce, all-gather and reduce-scatter between chips."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext

from msgspec import UNSET

from compiler.codegen.expr import Value, minimum
from compiler.codegen.kernel import Kernel
from compiler.codegen.slices.tensors import DdrTensor, dma_format, stretches
from compiler.graph import GraphError
from compiler.lowering.record import Engine, Work, lowering
from compiler.operators.domains.chips.collectives import (
    ALL_GATHER,
    ALL_REDUCE,
    DUAL,
    REDUCE_SCATTER,
    RING,
    axis_from,
    groups_of,
    way_of,
)
from tx8isa.numbers.division import ceil_div, round_up
from tx8isa.numbers.layouts import LINE_BYTES

from .chunks import Chunks, whole_lines
from .member import GroupMember
from .routes import LinkPrice

GRAIN = 64
"""Chunks are multiples of so many elements, and so are their halves in a dual ring."""
_MOST_TURNS, _SMALLEST_PART = 8, 1 << 15
"""Parts of its share that a tile has one after another, and bytes of the smallest of several."""


def chunk_of(elements: int, members: int, way: str = RING) -> int:
    """Elements of a member's chunk; the last chunks may have fewer, or none."""
    return round_up(ceil_div(elements, members), 2 * GRAIN if way == DUAL else GRAIN)


@lowering(ALL_REDUCE, engines=(Engine.VECTOR,))
def all_reduce(kernel: Kernel, work: Work) -> None:
    """Every tile has the same part of each chunk: it makes the sums of these, and gives them to all."""
    source, target = work.input(0), work.output
    member = member_of(kernel, work)
    size = member.size
    each = chunk_of(source.size, size, member.way)
    extent = each // 2 if member.way == DUAL else each
    part = part_of(kernel, source, extent, 2 * size - 1, member.tiles)
    base, arrived = _buffers(kernel, source, part, size)
    if size * each > source.size:
        kernel.emit("td.memset.int8", dst=base, value=0, n=size * whole_lines(part * source.bytes_each))
    first = kernel.let(member.direction * extent)
    for begin, count in blocks_of(kernel, member, extent, part):
        chunks = Chunks(kernel, member, base, arrived, source.fmt, count)
        place = kernel.let(first + begin)

        def move(
            tensor: DdrTensor, engine: str, places: int, chunks: Chunks = chunks, place: Value = place
        ) -> None:
            """Load or store the part of a chunk, as far as the tensor has it."""
            element = kernel.let(chunks.member.chunk(places) * each + place)
            with kernel.if_below(element, tensor.size):
                there = minimum(chunks.elements, tensor.size - element)
                copy(chunks, tensor, engine, tensor.at(element), chunks.at(places), n=there)

        chunks.open()
        move(source, "rdma", 1)
        kernel.emit("ncc.wait")
        for places in range(2, size + 1):
            move(source, "rdma", places)
        chunks.reduce()
        chunks.gather(lambda places: move(target, "wdma", places))
        kernel.emit("ncc.wait")
        member.sent()


def _buffers(kernel: Kernel, tensor: DdrTensor, part: int, members: int) -> tuple[Value, Value]:
    """Room for a part of each chunk, and for what comes to be added."""
    size = whole_lines(part * tensor.bytes_each)
    return kernel.buffer("chunks", members * size), kernel.buffer("arrived", (members - 1) * size)


def blocks_of(kernel: Kernel, member: GroupMember, extent: int, size: int) -> Iterator[tuple[Value, int]]:
    """Code for each block of an axis that this tile has: where it begins, and how long it is.

    The tiles of each direction of a dual ring share all blocks.
    """
    first, tiles = 0, member.tiles
    tile = kernel.let(kernel.tile % tiles)
    for stretch in stretches(extent, size):
        shift = -first % tiles
        with kernel.loop(stretch.count, (tile + shift) % tiles if shift else tile, tiles) as item:
            yield kernel.let(item * stretch.size + stretch.start), stretch.size
        first += stretch.count


def member_of(kernel: Kernel, work: Work) -> GroupMember:
    """This tile as a member of its group; GraphError on a machine without links."""
    chips = kernel.target.machine.chips
    if chips is UNSET:
        raise GraphError(
            [f"node '{work.name}' is for several chips; machine {kernel.target.machine.name} is one"]
        )
    groups, way = tuple(groups_of(work.spec)), way_of(work.spec)
    size = max(work.input(0).size, work.output.size) * work.output.bytes_each
    price = LinkPrice(kernel.target.machine, work.op, groups, size, kernel.target.tiles)
    kernel.links = round(price.cycles(way))
    return GroupMember(kernel, chips, groups, way)


def part_of(kernel: Kernel, tensor: DdrTensor, extent: int, places: int, tiles: int) -> int:
    """How many elements of a chunk a tile exchanges at a time: ``tiles`` share ``extent`` elements.

    So many places for them must fit the scratchpad. A tile exchanges its share of a large tensor in several
    parts, so that links work while other tiles load and store.
    """
    fit = (kernel.budget // places - LINE_BYTES) // tensor.bytes_each // GRAIN * GRAIN
    share = ceil_div(extent, tiles)
    turns = min(_MOST_TURNS, max(1, share * tensor.bytes_each // _SMALLEST_PART))
    return max(GRAIN, min(fit, round_up(ceil_div(share, turns), GRAIN)))


@lowering(ALL_GATHER, engines=(Engine.DMA,))
def all_gather(kernel: Kernel, work: Work) -> None:
    """Every tile has some rows of each member's tensor."""
    source, target = work.input(0), work.output
    member, width = member_of(kernel, work), _rows(work, source)[1]
    for row, count, chunks in _row_blocks(kernel, work, member, source):
        own, token = kernel.let(chunks.at(0)), dma_format(source.fmt).token
        kernel.emit("td.memset.int8", dst=chunks.base, value=0, n=member.size * whole_lines(chunks.bytes))
        kernel.emit(f"rdma.{token}", dst=own, src=source.at(row * width), n=count * width)
        kernel.emit("ncc.wait")
        chunks.open()
        for number in member.partners:
            member.allowed(number)

        def store(places: int, row: Value = row, count: int = count, chunks: Chunks = chunks) -> None:
            _move_rows(chunks, target, "wdma", places, (row, count, width))

        chunks.gather(store)
        kernel.emit("ncc.wait")
        member.sent()


@lowering(REDUCE_SCATTER, engines=(Engine.VECTOR,))
def reduce_scatter(kernel: Kernel, work: Work) -> None:
    """Every tile has some rows of the sums: the chunk of a member is what it has of them."""
    source, target = work.input(0), work.output
    member, width = member_of(kernel, work), _rows(work, target)[1]
    for row, count, chunks in _row_blocks(kernel, work, member, target):
        kernel.emit("td.memset.int8", dst=chunks.base, value=0, n=member.size * whole_lines(chunks.bytes))
        chunks.open()
        for places in range(1, member.size + 1):
            _move_rows(chunks, source, "rdma", places, (row, count, width))
        kernel.emit("ncc.wait")
        chunks.reduce()
        own, token = kernel.let(chunks.at(0)), dma_format(source.fmt).token
        kernel.emit(f"wdma.{token}", dst=target.at(row * width), src=own, n=count * width)
        kernel.emit("ncc.wait")
        member.sent()


def _row_blocks(
    kernel: Kernel, work: Work, member: GroupMember, tensor: DdrTensor
) -> Iterator[tuple[Value, int, Chunks]]:
    """Code for each block of a member's rows that this tile has: the first one, how many, and their chunks.

    ``tensor`` is that of a member. A dual ring takes half of the rows in each direction.
    """
    outer, width = _rows(work, tensor)
    fit = (kernel.budget // (2 * member.size) - LINE_BYTES) // (tensor.bytes_each * width)
    rows = max(1, min(fit, ceil_div(outer, kernel.target.tiles)))
    base, arrived = _buffers(kernel, tensor, round_up(rows * width, GRAIN), member.size)
    half = ceil_div(outer, 2) if member.way == DUAL else outer
    for first, extent in ((0, half), (half, outer - half)):
        if not extent:
            continue
        with _in_direction(kernel, member, int(first > 0)):
            for begin, count in blocks_of(kernel, member, extent, rows):
                elements = round_up(count * width, GRAIN)
                row = kernel.let(begin + first)
                yield row, count, Chunks(kernel, member, base, arrived, tensor.fmt, elements)


def _in_direction(kernel: Kernel, member: GroupMember, direction: int) -> AbstractContextManager[None]:
    """The code inside runs on the tiles of a direction; on all unless there are two."""
    if member.way != DUAL:
        return nullcontext()
    return kernel.unless_zero(member.direction) if direction else kernel.if_zero(member.direction)


def _rows(work: Work, tensor: DdrTensor) -> tuple[int, int]:
    """A member's tensor as a matrix whose rows are apart in the tensor of all: their number and width."""
    axis = axis_from(work.spec)
    return math.prod(tensor.shape[:axis]), math.prod(tensor.shape[axis:])


def _move_rows(
    chunks: Chunks, tensor: DdrTensor, engine: str, places: int, rows: tuple[Value, int, int]
) -> None:
    """Load or store some rows of a member in the tensor of all: the first one, how many, and their width."""
    row, count, width = rows
    every = chunks.member.size * width
    there = chunks.kernel.let(row * every + chunks.member.chunk(places) * width)
    copy(chunks, tensor, engine, tensor.at(there), chunks.at(places), n=width, stride0=every, iter0=count)


def copy(chunks: Chunks, tensor: DdrTensor, engine: str, place: Value, here: Value, **extents: Value) -> None:
    """Load ``place`` of DDR into the scratchpad, or store it from there."""
    dst, src = (here, place) if engine == "rdma" else (place, here)
    chunks.kernel.emit(f"{engine}.{dma_format(tensor.fmt).token}", dst=dst, src=src, **extents)
