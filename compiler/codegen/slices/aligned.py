"""Channel-blocked tensors in the scratchpad: loading, storing, and arithmetic with one value per channel.

The aligned layout stores planes of 64 channels and a narrower tail (``tx8isa.numbers.layouts``). Blocked
tensors have it in DDR too, and their slices are copied in long runs. Whole planes of a compact tensor are
copied directly; a tail whose stored width is not its number of channels is repacked by the TDMA. All planes
are repacked where that takes less time (``long_runs``).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from compiler.codegen.expr import Value
from compiler.codegen.kernel import Argument, Kernel
from compiler.dialect.planes import image_bytes
from compiler.evaluation.sizes import most
from compiler.graph import Array
from tx8isa.numbers.formats import Format
from tx8isa.numbers.layouts import LINE_BYTES, aligned_channels, full_blocks, tail_width
from tx8isa.numbers.limits import MOST_MOVES
from tx8isa.numbers.packing import storage_dtype

from .long_runs import CompactSlice, into_planes, out_of_planes, reorders, stored_width
from .tensors import BLOCK, DdrTensor, dma_loops
from .vector import WIDE, WORD, Vector, convert, repeat_rows, widened

TAIL_WIDTHS = (4, 8, 16, 32)
"""Stored channels of planes that are narrower (``tx8isa.numbers.layouts.tail_width``)."""

STORED_WIDTHS = (BLOCK, *reversed(TAIL_WIDTHS))
"""Stored channels of any plane, the widest first."""


@dataclass(frozen=True)
class Grid:
    """The positions of a slice: ``height`` rows, at most ``room``, of ``width`` positions.

    If ``columns`` is given, rows have that many positions, at most ``width``.
    """

    height: Value
    width: int
    room: int
    columns: Value | None = None

    @property
    def row(self) -> Value:
        """Positions of a row."""
        return self.width if self.columns is None else self.columns

    @property
    def positions(self) -> Value:
        return self.height * self.row

    @property
    def extents(self) -> tuple[Value, Value]:
        """Height and width for an instruction on all positions; if there is one row, its positions are the
        height."""
        return (1, self.height) if self.width == 1 else (self.height, self.row)


@dataclass(frozen=True)
class Aligned:
    """A channel-blocked slice in the scratchpad, one batch."""

    base: Value
    fmt: Format
    grid: Grid
    channels: int

    @property
    def planes(self) -> int:
        """Whole planes, a folded remainder included."""
        return full_blocks(self.channels, BLOCK)

    @property
    def tail(self) -> int:
        """Stored channels of the tail plane, 0 without one."""
        return tail_width(self.channels, BLOCK)

    @property
    def elements(self) -> Value:
        """Stored elements, padding included."""
        return self.grid.positions * aligned_channels(self.channels, BLOCK)

    @property
    def room(self) -> int:
        """The largest number of stored elements."""
        return self.grid.room * self.grid.width * aligned_channels(self.channels, BLOCK)

    @property
    def shape(self) -> list[Value]:
        """The packed shape operand."""
        return [1, self.grid.height, self.grid.row, self.channels]

    def plane(self, index: int) -> Value:
        """Address of a plane."""
        return self.base + self.grid.positions * (index * BLOCK * self.fmt.bits // 8)

    def at(self, base: Value, fmt: Format) -> Aligned:
        """This slice at another address, or in another format."""
        return replace(self, base=base, fmt=fmt)

    def by_planes(self, height: Value) -> Iterator[tuple[int, Aligned]]:
        """The first channel of each plane, and ``height`` of its rows as a slice in their place."""
        grid = replace(self.grid, height=height)
        for first in range(0, self.channels, BLOCK):
            channels = min(BLOCK, self.channels - first)
            yield first, Aligned(self.plane(first // BLOCK), self.fmt, grid, channels)


def aligned_bytes(positions: int, channels: int, fmt: Format) -> int:
    """Bytes of a slice. Engines write a tail plane in whole lines from its first byte, so it has one line
    more."""
    return image_bytes(positions, channels, fmt.bits) + LINE_BYTES


def slice_buffer(kernel: Kernel, name: str, fmt: Format, grid: Grid, channels: int) -> Aligned:
    """A new buffer for a slice."""
    base = kernel.buffer(name, aligned_bytes(grid.room * grid.width, channels, fmt))
    return Aligned(base, fmt, grid, channels)


@dataclass(frozen=True)
class Place:
    """The beginning of a slice of a tensor [N, ..., C]: image, position in it, channel.

    With a ``row_step`` of s the slice has every s-th row of the image. ``pitch``: positions of a row of the
    image, if the slice has a part of each row. A slice of a blocked tensor consists of whole planes, perhaps
    with the tail. If the tensor has whole planes only, it may consist of 4, 8, 16 or 32 channels of one
    plane, beginning at a multiple of that number.
    """

    image: Value
    position: Value
    lane: Value = 0
    row_step: int = 1
    pitch: int = 0


@dataclass(frozen=True)
class Run:
    """A DMA instruction of a slice: the first plane in the slice, the first element in the tensor, loops."""

    plane: int
    first: Value
    loops: dict[str, Argument]


def blocked_runs(tensor: DdrTensor, at: Place, grid: Grid, channels: int) -> list[Run]:
    """The DMA instructions for a slice of a blocked tensor: whole planes, and the tail or part of a plane."""
    hw, all_channels = math.prod(tensor.shape[1:-1]), tensor.shape[-1]
    start = at.image * (image_bytes(hw, all_channels, tensor.fmt.bits) // tensor.bytes_each)
    whole, tail = full_blocks(channels, BLOCK), tail_width(channels, BLOCK)
    if tail and all_channels % BLOCK == 0:
        first = at.lane // BLOCK * (hw * BLOCK) + at.lane % BLOCK
        place = start + (first + at.position * BLOCK)
        return [Run(0, place, _rows(at, grid, BLOCK, tail, []))]
    start = start + at.lane * hw
    runs = []
    if whole:
        place = start + at.position * BLOCK
        runs.append(Run(0, place, _rows(at, grid, BLOCK, BLOCK, [(whole, hw * BLOCK)])))
    if tail:
        place = start + (whole * BLOCK * hw + at.position * tail)
        runs.append(Run(whole, place, _rows(at, grid, tail, tail, [])))
    return runs


def _rows(
    at: Place, grid: Grid, step: int, width: int, outer: list[tuple[Value, int]]
) -> dict[str, Argument]:
    """Loops over ``outer`` (extent, stride), then over positions with ``width`` elements whose distance is
    ``step``."""
    if at.row_step == 1 and not at.pitch:
        inner = [(grid.positions, step), (width, 1)]
    else:
        pitch = at.row_step * (at.pitch or grid.width) * step
        inner = [(grid.height, pitch), (grid.row, step), (width, 1)]
    return dma_loops([stride for _, stride in outer + inner], [extent for extent, _ in outer + inner])


def load_slice(kernel: Kernel, name: str, tensor: DdrTensor, at: Place, grid: Grid, channels: int) -> Aligned:
    """Read ``channels`` channels of a grid of positions of a tensor [N, ..., C], blocked or compact."""
    if not tensor.blocked:
        first, step = _first(tensor, at), tensor.shape[-1]
        return load_aligned(kernel, name, tensor, first, step, grid, channels, at.row_step)
    target = slice_buffer(kernel, name, tensor.fmt, grid, channels)
    for run in blocked_runs(tensor, at, grid, channels):
        kernel.emit(
            f"rdma.{tensor.fmt.token}", dst=target.plane(run.plane), src=tensor.at(run.first), **run.loops
        )
    return target


def store_slice(kernel: Kernel, source: Aligned, tensor: DdrTensor, at: Place) -> None:
    """Write a slice of whole rows to its place in a tensor [N, ..., C], blocked or compact."""
    if not tensor.blocked:
        store_aligned(kernel, source, tensor, _first(tensor, at), tensor.shape[-1])
        return
    for run in blocked_runs(tensor, at, source.grid, source.channels):
        place = source.plane(run.plane)
        kernel.emit(f"wdma.{tensor.fmt.token}", dst=tensor.at(run.first), src=place, **run.loops)


def _first(tensor: DdrTensor, at: Place) -> Value:
    """First element of a slice of a compact tensor."""
    position = at.image * math.prod(tensor.shape[1:-1]) + at.position
    return position * tensor.shape[-1] + at.lane


def load_aligned(
    kernel: Kernel,
    name: str,
    tensor: DdrTensor,
    first: Value,
    step: int,
    grid: Grid,
    channels: int,
    row_step: int = 1,
    into: Value | None = None,
) -> Aligned:
    """Read a slice; position p begins at element ``first + p * step`` of the tensor.

    Rows of the slice are ``row_step`` rows apart. ``into`` is the address for it; None for a new buffer.
    """
    if into is None:
        target = slice_buffer(kernel, name, tensor.fmt, grid, channels)
    else:
        target = Aligned(into, tensor.fmt, grid, channels)
    at = Place(0, 0, row_step=row_step)
    if reorders(kernel, _compact(tensor, target, step, row_step), loading=True):
        compact = kernel.buffer(f"{name}_rows", grid.room * grid.width * channels * tensor.bytes_each)
        loops = _rows(at, grid, step, channels, [])
        kernel.emit(f"rdma.{tensor.fmt.token}", dst=compact, src=tensor.at(first), **loops)
        into_planes(kernel, tensor.fmt, target.base, compact, grid.extents, channels)
        return target
    whole, rest = divmod(channels, BLOCK)
    if whole:
        loops = _rows(at, grid, step, BLOCK, [(whole, BLOCK)])
        kernel.emit(f"rdma.{tensor.fmt.token}", dst=target.base, src=tensor.at(first), **loops)
    if rest:
        source, place = tensor.at(first + whole * BLOCK), target.plane(whole)
        loops = _rows(at, grid, step, rest, [])
        if rest == stored_width(rest):
            kernel.emit(f"rdma.{tensor.fmt.token}", dst=place, src=source, **loops)
        else:
            compact = kernel.buffer(f"{name}_tail", grid.room * grid.width * rest * tensor.bytes_each)
            kernel.emit(f"rdma.{tensor.fmt.token}", dst=compact, src=source, **loops)
            into_planes(kernel, tensor.fmt, place, compact, grid.extents, rest)
    return target


def store_aligned(kernel: Kernel, source: Aligned, tensor: DdrTensor, first: Value, step: int) -> None:
    """Write a slice; position p begins at element ``first + p * step`` of the tensor."""
    whole, rest = divmod(source.channels, BLOCK)
    positions, each = source.grid.positions, tensor.bytes_each
    if reorders(kernel, _compact(tensor, source, step), loading=False):
        compact = kernel.buffer("rows", source.grid.room * source.grid.width * source.channels * each)
        out_of_planes(kernel, tensor.fmt, source.base, compact, positions, source.channels)
        loops = dma_loops((step, 1), (positions, source.channels))
        kernel.emit(f"wdma.{tensor.fmt.token}", dst=tensor.at(first), src=compact, **loops)
        return
    if whole:
        loops = dma_loops((BLOCK, step, 1), (whole, positions, BLOCK))
        kernel.emit(f"wdma.{tensor.fmt.token}", dst=tensor.at(first), src=source.base, **loops)
    if rest:
        data, width = source.plane(whole), stored_width(rest)
        if rest != width:
            compact = kernel.buffer("compact", source.grid.room * source.grid.width * rest * each)
            out_of_planes(kernel, tensor.fmt, data, compact, positions, rest)
            data = compact
        loops = dma_loops((step, 1), (positions, rest))
        target = tensor.at(first + whole * BLOCK)
        kernel.emit(f"wdma.{tensor.fmt.token}", dst=target, src=data, **loops)


def _compact(tensor: DdrTensor, slice_: Aligned, step: int, row_step: int = 1) -> CompactSlice:
    """A slice in the form in which it is stored in DDR."""
    grid, together = slice_.grid, 1
    if step == slice_.channels:
        together = grid.width if row_step > 1 else grid.room * grid.width
    return CompactSlice(grid.room, grid.width, slice_.channels, tensor.bytes_each, together)


def widened_slice(kernel: Kernel, source: Aligned) -> Aligned:
    """The slice in FP32."""
    if source.fmt in WIDE:
        return source.at(source.base, Format.FP32)
    target = slice_buffer(kernel, "wide", Format.FP32, source.grid, source.channels)
    convert(kernel, target.base, source.base, source.elements, source.fmt, Format.FP32)
    return target


def narrowed_slice(kernel: Kernel, source: Aligned, fmt: Format) -> Aligned:
    """An FP32 slice rounded once to ``fmt``."""
    if fmt is Format.FP32:
        return source
    target = slice_buffer(kernel, "narrow", fmt, source.grid, source.channels)
    convert(kernel, target.base, source.base, source.elements, Format.FP32, fmt)
    return target


def per_channel(kernel: Kernel, name: str, data: Aligned, vector: Value) -> None:
    """data = data name vector, in place, with one FP32 element of ``vector`` per stored channel.

    Several planes are one instruction of the form with a loop, a single plane and the tail one without.
    """
    positions, token = data.grid.positions, data.fmt.token
    group = positions * BLOCK
    if data.planes > 1:
        kernel.emit(
            f"ct.{name}.vuv_loop.{token}",
            dst=data.base,
            src0=data.base,
            src1=vector,
            n=group,
            unit=BLOCK,
            full=group * data.planes,
            full_unit=BLOCK * data.planes,
        )
    elif data.planes:
        Vector(kernel, data.fmt, group).vuv(name, data.base, data.base, vector, BLOCK)
    if data.tail:
        place, unit = data.plane(data.planes), vector + data.planes * BLOCK * data.fmt.bits // 8
        Vector(kernel, data.fmt, positions * data.tail).vuv(name, place, place, unit, data.tail)


def spread(kernel: Kernel, target: Aligned, vector: Value) -> None:
    """Write ``vector``, one element of four bytes per stored channel, to every position of a slice."""
    together = max(1, MOST_MOVES // most(target.grid.room * target.grid.width))
    for first in range(0, target.planes, together):
        planes = min(together, target.planes - first)
        source = vector + 4 * BLOCK * first
        repeat_rows(kernel, target.plane(first), source, WORD * BLOCK, planes, target.grid.positions)
    if target.tail:
        place, source = target.plane(target.planes), vector + 4 * BLOCK * target.planes
        repeat_rows(kernel, place, source, WORD * target.tail, 1, target.grid.positions)


@dataclass(frozen=True)
class ChannelVector:
    """One value per channel in DDR; ``padded``: four bytes each, then zeros; else the compute format."""

    tensor: DdrTensor
    padded: bool


def channel_vector(kernel: Kernel, name: str, tensor: DdrTensor, scale: float = 1.0) -> ChannelVector:
    """A tensor of one value per channel as a vector; a constant keeps the precision of the graph.

    Constant integers stay integers.
    A constant is multiplied by ``scale``; ValueError for a scale of another tensor.
    """
    if tensor.value is None:
        if scale != 1.0:
            raise ValueError("a vector that is computed cannot be scaled here")
        return ChannelVector(tensor, False)
    values = np.asarray(tensor.value, np.float64).reshape(-1) * scale
    fmt = Format.INT32 if tensor.fmt is Format.INT32 else Format.FP32
    data: Array = np.concatenate([values, np.zeros(BLOCK)]).astype(storage_dtype(fmt))
    symbol = kernel.constant(name, fmt, data).symbol
    return ChannelVector(DdrTensor(symbol, fmt, data.shape), True)


def load_vector(kernel: Kernel, name: str, vector: ChannelVector, first: Value, channels: int) -> Value:
    """Read the values of ``channels`` channels, padded to the stored channels: FP32, or constant integers."""
    stored = aligned_channels(channels, BLOCK)
    tensor = vector.tensor
    target = kernel.buffer(name, stored * tensor.bytes_each)
    count = stored
    if not vector.padded:
        count = channels
        kernel.emit(f"td.memset.{tensor.fmt.token}", dst=target, value=0.0, n=stored)
    kernel.emit(f"rdma.{tensor.fmt.token}", dst=target, src=tensor.at(first), n=count)
    return target if vector.padded else widened(kernel, target, stored, stored, tensor.fmt)


def stored_elements(tensor: DdrTensor) -> int:
    """Elements of an image of a blocked tensor with its padding lanes, without the gap after it."""
    return math.prod(tensor.shape[1:-1]) * aligned_channels(tensor.shape[-1], BLOCK)


def within_plane(channels: int, part: int) -> bool:
    """Return True if parts of ``part`` channels are slices of a blocked tensor (see ``Place``)."""
    if part % BLOCK == 0:
        return True
    return channels % BLOCK == 0 and part in TAIL_WIDTHS
