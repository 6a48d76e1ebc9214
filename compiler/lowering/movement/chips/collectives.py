"""All-reduce, all-gather, reduce-scatter and broadcast between chips."""

from __future__ import annotations

import math
from collections.abc import Iterator

from msgspec import UNSET

from compiler.codegen.expr import Value, minimum
from compiler.codegen.kernel import Kernel
from compiler.codegen.slices.tensors import DdrTensor, dma_format, stretches
from compiler.graph import GraphError
from compiler.lowering.record import Engine, Work, lowering
from compiler.operators.domains.chips.collectives import (
    ALL_GATHER,
    ALL_REDUCE,
    BROADCAST,
    REDUCE_SCATTER,
    axis_from,
    groups_of,
)
from tx8isa.numbers.division import ceil_div, round_up

from .member import RingMember
from .ring import Ring

GRAIN = 64
"""Chunks are multiples of so many elements."""
_MOST_TURNS, _SMALLEST_PART = 8, 1 << 15
"""Parts of its share that a tile has one after another, and bytes of the smallest of several."""
_RESERVED_BYTES = 4096
"""Scratchpad bytes for the ends of lines that buffers do not fill."""


def chunk_of(elements: int, members: int) -> int:
    """Elements of a member's chunk; the last chunks may have fewer, or none."""
    return round_up(ceil_div(elements, members), GRAIN)


@lowering(ALL_REDUCE, engines=(Engine.VECTOR,))
def all_reduce(kernel: Kernel, work: Work) -> None:
    """Every tile has the same part of each chunk: it makes the sums of these, and gives them to all."""
    source, target = work.input(0), work.output
    member = _member(kernel, work)
    each = chunk_of(source.size, member.size)
    part = _part(kernel, source, each, member.size)
    base = kernel.buffer("chunks", member.size * part * source.bytes_each)
    if member.size * each > source.size:
        kernel.emit("td.memset.int8", dst=base, value=0, n=member.size * part * source.bytes_each)
    for begin, count in _blocks(kernel, each, part):
        ring = Ring(kernel, member, base, source.fmt, count)
        _move(ring, source, "rdma", each, begin)
        kernel.emit("ncc.wait")
        member.expects(ring.bytes)
        ring.reduce()
        ring.gather()
        _move(ring, target, "wdma", each, begin)
        kernel.emit("ncc.wait")


def _blocks(kernel: Kernel, extent: int, size: int) -> Iterator[tuple[Value, int]]:
    """Code for each block of an axis that this tile has: where it begins, and how long it is."""
    first = 0
    for stretch in stretches(extent, size):
        with kernel.items(stretch.count, first) as item:
            yield kernel.let(item * stretch.size + stretch.start), stretch.size
        first += stretch.count


def _move(ring: Ring, tensor: DdrTensor, engine: str, each: int, begin: Value) -> None:
    """Load or store a part of every chunk, as far as the tensor has it."""
    kernel = ring.kernel
    for number in range(ring.member.size):
        rest = tensor.size - number * each
        if rest <= 0:
            return
        with kernel.if_below(begin, rest):
            count = minimum(ring.elements, rest - begin)
            _copy(ring, tensor, engine, tensor.at(begin + number * each), ring.chunk(number), n=count)


def _member(kernel: Kernel, work: Work) -> RingMember:
    chips = kernel.target.machine.chips
    if chips is UNSET:
        raise GraphError(
            [f"node '{work.name}' is for several chips; machine {kernel.target.machine.name} is one"]
        )
    return RingMember(kernel, chips, groups_of(work.spec))


def _part(kernel: Kernel, tensor: DdrTensor, each: int, members: int) -> int:
    """How many elements of a chunk a tile exchanges at a time: all tiles share a chunk of ``each`` elements.

    They must fit the scratchpad. A tile exchanges its share of a large tensor in several parts, so that links
    work while other tiles load and store.
    """
    fit = (kernel.budget - _RESERVED_BYTES) // ((members + 1) * tensor.bytes_each) // GRAIN * GRAIN
    share = ceil_div(each, kernel.target.tiles)
    turns = min(_MOST_TURNS, max(1, share * tensor.bytes_each // _SMALLEST_PART))
    return max(GRAIN, min(fit, round_up(ceil_div(share, turns), GRAIN)))


@lowering(ALL_GATHER, engines=(Engine.DMA,))
def all_gather(kernel: Kernel, work: Work) -> None:
    """Every tile has some rows of each member's tensor."""
    source, target = work.input(0), work.output
    member, width = _member(kernel, work), _rows(work, source)[1]
    for row, count, ring in _row_blocks(kernel, work, member, source):
        own, token = kernel.let(ring.chunk(member.place)), dma_format(source.fmt).token
        kernel.emit("td.memset.int8", dst=ring.base, value=0, n=member.size * ring.bytes)
        kernel.emit(f"rdma.{token}", dst=own, src=source.at(row * width), n=count * width)
        kernel.emit("ncc.wait")
        member.expects(ring.bytes)
        ring.gather()
        _move_rows(ring, target, "wdma", row, count, width)
        kernel.emit("ncc.wait")


@lowering(REDUCE_SCATTER, engines=(Engine.VECTOR,))
def reduce_scatter(kernel: Kernel, work: Work) -> None:
    """Every tile has some rows of the sums: the chunk of a member is what it has of them."""
    source, target = work.input(0), work.output
    member, width = _member(kernel, work), _rows(work, target)[1]
    for row, count, ring in _row_blocks(kernel, work, member, target):
        kernel.emit("td.memset.int8", dst=ring.base, value=0, n=member.size * ring.bytes)
        _move_rows(ring, source, "rdma", row, count, width)
        kernel.emit("ncc.wait")
        member.expects(ring.bytes)
        ring.reduce()
        own, token = kernel.let(ring.chunk(member.place)), dma_format(source.fmt).token
        kernel.emit(f"wdma.{token}", dst=target.at(row * width), src=own, n=count * width)
        kernel.emit("ncc.wait")


def _row_blocks(
    kernel: Kernel, work: Work, member: RingMember, tensor: DdrTensor
) -> Iterator[tuple[Value, int, Ring]]:
    """Code for each block of a member's rows that this tile has: the first one, how many, and their chunks.

    ``tensor`` is that of a member.
    """
    outer, width = _rows(work, tensor)
    fit = (kernel.budget - _RESERVED_BYTES) // ((member.size + 1) * tensor.bytes_each * width)
    rows = max(1, min(fit, ceil_div(outer, kernel.target.tiles)))
    base = kernel.buffer("chunks", member.size * round_up(rows * width, GRAIN) * tensor.bytes_each)
    for row, count in _blocks(kernel, outer, rows):
        yield row, count, Ring(kernel, member, base, tensor.fmt, round_up(count * width, GRAIN))


def _rows(work: Work, tensor: DdrTensor) -> tuple[int, int]:
    """A member's tensor as a matrix whose rows are apart in the tensor of all: their number and width."""
    axis = axis_from(work.spec)
    return math.prod(tensor.shape[:axis]), math.prod(tensor.shape[axis:])


def _move_rows(ring: Ring, tensor: DdrTensor, engine: str, row: Value, count: int, width: int) -> None:
    """Load or store some rows of every member in the tensor of all."""
    every = ring.member.size * width
    for number in range(ring.member.size):
        place, here = tensor.at(row * every + number * width), ring.chunk(number)
        _copy(ring, tensor, engine, place, here, n=width, stride0=every, iter0=count)


def _copy(ring: Ring, tensor: DdrTensor, engine: str, place: Value, here: Value, **extents: Value) -> None:
    """Load ``place`` of DDR into the scratchpad, or store it from there."""
    dst, src = (here, place) if engine == "rdma" else (place, here)
    ring.kernel.emit(f"{engine}.{dma_format(tensor.fmt).token}", dst=dst, src=src, **extents)


@lowering(BROADCAST, engines=(Engine.DMA,))
def broadcast(kernel: Kernel, work: Work) -> None:
    """Every tile gives on some elements of the first member's tensor."""
    source, target = work.input(0), work.output
    member = _member(kernel, work)
    part = _part(kernel, source, source.size, 1)
    base, token = kernel.buffer("chunks", part * source.bytes_each), dma_format(source.fmt).token
    for begin, count in _blocks(kernel, source.size, part):
        kernel.emit(f"rdma.{token}", dst=base, src=source.at(begin), n=count)
        kernel.emit("ncc.wait")
        ring = Ring(kernel, member, base, source.fmt, count)
        member.expects(ring.bytes)
        ring.broadcast()
        kernel.emit(f"wdma.{token}", dst=target.at(begin), src=base, n=count)
        kernel.emit("ncc.wait")
