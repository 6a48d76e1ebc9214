"""All-reduce, all-gather and reduce-scatter between chips."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from msgspec import UNSET

from compiler.codegen.expr import Value, minimum
from compiler.codegen.kernel import Kernel
from compiler.codegen.slices.tensors import DdrTensor, dma_format, stretches
from compiler.codegen.slices.vector import convert
from compiler.graph import GraphError
from compiler.lowering.record import Engine, Work, lowering
from compiler.operators.domains.chips.collectives import (
    ALL_GATHER,
    ALL_REDUCE,
    COLLECTIVES,
    DOUBLING,
    DUAL,
    REDUCE_SCATTER,
    RING,
    TREE,
    axis_from,
    groups_of,
    way_of,
)
from tx8isa.numbers.division import ceil_div, round_up
from tx8isa.numbers.layouts import LINE_BYTES

from .chunks import Chunks, add_to, whole_lines
from .member import GroupMember
from .registers import SUMS
from .routes import LinkPrice

GRAIN = 64
"""Chunks are multiples of this number of elements, and so are their halves in a dual ring."""
_MOST_TURNS, _SMALLEST_PART = 8, 1 << 15
"""Most parts of a tile's share, one after another, and least bytes of a part."""


def chunk_of(elements: int, members: int, way: str = RING) -> int:
    """Elements of a member's chunk; the last chunks may have fewer, or none."""
    return round_up(ceil_div(elements, members), 2 * GRAIN if way == DUAL else GRAIN)


@lowering(ALL_REDUCE, engines=(Engine.VECTOR,))
def all_reduce(kernel: Kernel, work: Work) -> None:
    """Reduce-scatter, then all-gather; every tile exchanges the same part of each chunk."""
    source, target = work.input(0), work.output
    member = member_of(kernel, work)
    if member.way == DOUBLING:
        _sums_of_pairs(kernel, source, target, member)
        return
    size = member.size
    each = chunk_of(source.size, size, member.way)
    extent = each // 2 if member.way == DUAL else each
    part = part_of(kernel, source, extent, 2 * size - 1, member.tiles)
    base, arrived = _buffers(kernel, source, part, size)
    if size * each > source.size or member.way == TREE:
        kernel.emit("td.memset.int8", dst=base, value=0, n=size * whole_lines(part * source.bytes_each))
    first = kernel.let(member.direction * extent)
    for begin, count in blocks_of(kernel, member, extent, part):
        chunks = Chunks(kernel, member, base, arrived, source.fmt, count)
        place = kernel.let(first + begin)

        def move(
            tensor: DdrTensor, engine: str, places: int, chunks: Chunks = chunks, place: Value = place
        ) -> None:
            """Load or store the part of a chunk, as far as the tensor has it."""
            with kernel.registers.scope():
                element = kernel.let(chunks.member.chunk(places) * each + place)
                here = kernel.let(chunks.at(places))
                with kernel.if_below(element, tensor.size):
                    there = minimum(chunks.elements, tensor.size - element)
                    copy(chunks, tensor, engine, tensor.at(element), here, n=there)

        chunks.open()
        move(source, "rdma", 1)
        kernel.emit("ncc.wait")
        for places in range(2, size + 1):
            move(source, "rdma", places)
        chunks.reduce()
        chunks.gather(lambda places: move(target, "wdma", places))
        kernel.emit("ncc.wait")
        member.sent()


def _sums_of_pairs(kernel: Kernel, source: DdrTensor, target: DdrTensor, member: GroupMember) -> None:
    """Recursive doubling: on each level a tile and its sibling add each other's elements.

    A sum is written where the sibling's elements arrived, because the member's own may still be in transit.
    """
    places = 1 + len(member.levels)
    part = part_of(kernel, source, source.size, places, member.tiles)
    each, token = whole_lines(part * source.bytes_each), dma_format(source.fmt).token
    sums = kernel.buffer("sums", each)
    arrived = kernel.buffer("arrived", (places - 1) * each)
    for begin, count in blocks_of(kernel, member, source.size, part):
        kernel.emit(f"rdma.{token}", dst=sums, src=source.at(begin), n=count)
        member.expects(count * source.bytes_each)
        kernel.receive(arrived)
        member.allow()
        kernel.emit("ncc.wait")
        now: Value = sums
        for level in range(len(member.levels)):
            more = arrived + level * each
            member.allowed(level + 1)
            member.send(now, more, count * source.bytes_each, (SUMS, level), level + 1)
            member.written(SUMS, level)
            add_to(kernel, more, now, count, source.fmt)
            now = more
        kernel.emit(f"wdma.{token}", dst=target.at(begin), src=now, n=count)
        kernel.emit("ncc.wait")
        member.sent()
        kernel.keep_alive(arrived)


def _buffers(kernel: Kernel, tensor: DdrTensor, part: int, members: int) -> tuple[Value, Value]:
    """Room for a part of each chunk, and for the chunks that arrive to be added."""
    size = whole_lines(part * tensor.bytes_each)
    return kernel.buffer("chunks", members * size), kernel.buffer("arrived", (members - 1) * size)


def blocks_of(kernel: Kernel, member: GroupMember, extent: int, size: int) -> Iterator[tuple[Value, int]]:
    """Code for each block of an axis that this tile has; yields its begin and its length.

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
    if work.op in COLLECTIVES:
        tensors = [tensor for tensor in (*work.inputs, work.output) if tensor is not None]
        size = max(tensor.size * tensor.bytes_each for tensor in tensors)
        price = LinkPrice(kernel.target.machine, work.op, groups, size, kernel.target.tiles)
        kernel.links = round(price.cycles(way))
    return GroupMember(kernel, chips, groups, way)


def part_of(kernel: Kernel, tensor: DdrTensor, extent: int, places: int, tiles: int) -> int:
    """Number of elements of a chunk that a tile exchanges at a time: ``tiles`` share ``extent`` elements.

    The scratchpad must have ``places`` times their room. A tile exchanges its share of a large tensor in
    several parts, so that links work while other tiles load and store.
    """
    fit = (kernel.budget // places - LINE_BYTES) // tensor.bytes_each // GRAIN * GRAIN
    share = ceil_div(extent, tiles)
    turns = min(_MOST_TURNS, max(1, share * tensor.bytes_each // _SMALLEST_PART))
    return max(GRAIN, min(fit, round_up(ceil_div(share, turns), GRAIN)))


@lowering(ALL_GATHER, engines=(Engine.DMA,), gives_fp32=True)
def all_gather(kernel: Kernel, work: Work) -> None:
    """Every tile has some rows of each member's tensor, or a part of them.

    Links carry data in the format of the operand; a result in FP32 is converted when it is stored.
    """
    source, target = work.input(0), work.output
    member, width = member_of(kernel, work), rows_of(work, source)[1]
    for block, chunks in _row_blocks(kernel, work, member, source):
        own, token = kernel.let(chunks.at(0)), dma_format(source.fmt).token
        size = member.size * whole_lines(chunks.bytes)
        kernel.emit("td.memset.int8", dst=chunks.base, value=0, n=size)
        kernel.emit(f"rdma.{token}", dst=own, src=source.at(block.own(width)), n=block.elements)
        kernel.emit("ncc.wait")
        chunks.open()
        for number in member.partners:
            member.allowed(number)

        wide: Value | None = None
        if target.fmt is not source.fmt:
            wide = kernel.buffer("wide", chunks.elements * target.bytes_each)

        def store(
            places: int, block: RowsOfMember = block, chunks: Chunks = chunks, wide: Value | None = wide
        ) -> None:
            here = chunks.at(places)
            if wide is not None:
                convert(kernel, wide, here, block.elements, source.fmt, target.fmt)
                here = wide
            _move_rows(chunks, target, "wdma", places, block, width, here)

        chunks.gather(store)
        kernel.emit("ncc.wait")
        member.sent()


@lowering(REDUCE_SCATTER, engines=(Engine.VECTOR,))
def reduce_scatter(kernel: Kernel, work: Work) -> None:
    """Every tile computes some rows of the member's sums, or a part of these rows."""
    source, target = work.input(0), work.output
    member, width = member_of(kernel, work), rows_of(work, target)[1]
    for block, chunks in _row_blocks(kernel, work, member, target):
        size = member.size * whole_lines(chunks.bytes)
        kernel.emit("td.memset.int8", dst=chunks.base, value=0, n=size)
        chunks.open()
        _move_rows(chunks, source, "rdma", 1, block, width)
        kernel.emit("ncc.wait")
        for places in range(2, member.size + 1):
            _move_rows(chunks, source, "rdma", places, block, width)
        chunks.reduce()
        own, token = kernel.let(chunks.at(0)), dma_format(source.fmt).token
        kernel.emit(f"wdma.{token}", dst=target.at(block.own(width)), src=own, n=block.elements)
        kernel.emit("ncc.wait")
        member.sent()


@dataclass(frozen=True)
class RowsOfMember:
    """Rows of a member's tensor, or a part of a row: ``columns`` elements from ``first``."""

    row: Value
    rows: int
    first: Value
    columns: int

    @property
    def elements(self) -> int:
        return self.rows * self.columns

    def own(self, width: int) -> Value:
        """The first element, in the tensor of a member whose rows have ``width`` elements."""
        return self.row * width + self.first


def _row_blocks(
    kernel: Kernel, work: Work, member: GroupMember, tensor: DdrTensor
) -> Iterator[tuple[RowsOfMember, Chunks]]:
    """Code for each block of a member's rows that this tile has, and its chunks.

    ``tensor`` is that of a member. If there are few rows, these are cut into parts. Each direction of a dual
    ring takes half of the rows, or half of each part.
    """
    outer, width = rows_of(work, tensor)
    few = outer < kernel.target.tiles
    fit = (kernel.budget // (2 * member.size + 1) - LINE_BYTES) // (tensor.bytes_each * width)
    rows = max(1, min(fit, ceil_div(outer, kernel.target.tiles)))
    extent = width if few else outer
    half = min(round_up(ceil_div(extent, 2), GRAIN if few else 1), extent) if member.way == DUAL else extent
    part = min(part_of(kernel, tensor, outer * half, 2 * member.size + 1, member.tiles), half)
    base, arrived = _buffers(kernel, tensor, part if few else round_up(rows * width, GRAIN), member.size)
    for first, length in ((0, half), (half, extent - half)):
        if not length:
            continue
        with _in_direction(kernel, member, int(first > 0)):
            if few:
                blocks = _parts_of_rows(kernel, member, outer, (first, length, part))
            else:
                blocks = (
                    RowsOfMember(kernel.let(begin + first), count, 0, width)
                    for begin, count in blocks_of(kernel, member, length, rows)
                )
            for block in blocks:
                elements = round_up(block.elements, GRAIN)
                yield block, Chunks(kernel, member, base, arrived, tensor.fmt, elements)


def _parts_of_rows(
    kernel: Kernel, member: GroupMember, outer: int, part: tuple[int, int, int]
) -> Iterator[RowsOfMember]:
    """Code for each part of each row: a tile's columns, ``part`` of them at a time."""
    first, length, size = part
    for stretch in stretches(length, size):
        for begin, _ in blocks_of(kernel, member, outer * stretch.count, 1):
            column = kernel.let(begin % stretch.count * stretch.size + (first + stretch.start))
            yield RowsOfMember(kernel.let(begin // stretch.count), 1, column, stretch.size)


def _in_direction(kernel: Kernel, member: GroupMember, direction: int) -> AbstractContextManager[None]:
    """Run the code inside on the tiles of one direction; on all tiles if there is one direction."""
    if member.way != DUAL:
        return nullcontext()
    return kernel.unless_zero(member.direction) if direction else kernel.if_zero(member.direction)


def rows_of(work: Work, tensor: DdrTensor) -> tuple[int, int]:
    """A member's tensor as a matrix whose rows have gaps between them in the joined tensor: their number and
    width."""
    axis = axis_from(work.spec)
    return math.prod(tensor.shape[:axis]), math.prod(tensor.shape[axis:])


def _move_rows(
    chunks: Chunks,
    tensor: DdrTensor,
    engine: str,
    places: int,
    block: RowsOfMember,
    width: int,
    here: Value | None = None,
) -> None:
    """Load or store a block of a member in the joined tensor; a member's row has ``width`` elements.

    ``here`` is the address in the scratchpad if it is not the chunk's.
    """
    every = chunks.member.size * width
    with chunks.kernel.registers.scope():
        there = chunks.kernel.let(block.row * every + chunks.member.chunk(places) * width + block.first)
        extents = {"n": block.columns, "stride0": every, "iter0": block.rows}
        copy(chunks, tensor, engine, tensor.at(there), chunks.at(places) if here is None else here, **extents)


def copy(chunks: Chunks, tensor: DdrTensor, engine: str, place: Value, here: Value, **extents: Value) -> None:
    """Load ``place`` of DDR into the scratchpad, or store it from there."""
    dst, src = (here, place) if engine == "rdma" else (place, here)
    chunks.kernel.emit(f"{engine}.{dma_format(tensor.fmt).token}", dst=dst, src=src, **extents)
