"""GlobalAveragePool, and LargestPosition, the maximum over all positions, on channel-blocked slices."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from compiler.codegen.kernel import Kernel
from compiler.codegen.slices.aligned import (
    Aligned,
    Grid,
    Place,
    aligned_bytes,
    load_slice,
    slice_buffer,
    widened_slice,
)
from compiler.codegen.slices.shards import coordinates, shard_of, sharded_blocks, slices
from compiler.codegen.slices.tensors import BLOCK, DdrTensor
from compiler.codegen.slices.vector import Vector
from compiler.codegen.teams.collective import COMBINE
from compiler.dialect.orders import Order
from compiler.lowering.conv.layer import is_exact
from compiler.lowering.conv.pooling import finish_pool
from compiler.lowering.record import Engine, Work, lowering
from compiler.lowering.rows.long_reductions import IDENTITY
from tx8isa.numbers.division import ceil_div, round_up
from tx8isa.numbers.formats import Format
from tx8isa.numbers.limits import LARGEST_EXTENT

from . import long_pool

_RESERVED_BYTES = 4096
"""Scratchpad bytes for the vectors of one value per channel."""


@dataclass(frozen=True)
class PositionFold:
    """The reduction of positions to one: by one instruction; or in FP32 as a ``sum`` or ``max``, in pieces.

    ``result`` names the reduced value. ``averages``: the pieces' sum is divided by the number of positions.
    """

    result: str
    instruction: str
    piece: str
    averages: bool


POOLS: dict[str, PositionFold] = {}
"""Operators that reduce all positions of each channel to one."""


def global_pool(kernel: Kernel, work: Work) -> None:
    """All positions of each channel, in pieces where they do not fit."""
    fold = POOLS[work.op]
    if long_pool.is_shared(kernel.target, work):
        long_pool.pool_shared(kernel, work, fold.piece, fold.averages)
        return
    source = work.input(0)
    positions, channels = math.prod(source.shape[1:-1]), source.shape[-1]
    direct = is_exact(work.steps)
    taken, length = _sizes(kernel, source, positions, channels, direct)
    groups = ceil_div(channels, taken)
    images = min(source.shape[0], max(1, kernel.target.tiles // groups))
    image_place, channel_place = coordinates(kernel, (images, kernel.target.tiles // images))
    own_images = shard_of(source.shape[0], images, image_place, 1)
    for stretch, own in sharded_blocks(channels, taken, kernel.target.tiles // images, channel_place):
        with slices(kernel, own) as (number, _), slices(kernel, own_images) as (image, _):
            at = Place(image, 0, kernel.let(number * stretch.size + stretch.start))
            if length == positions and direct:
                grid = Grid(positions, 1, positions)
                result = _at_once(kernel, fold, load_slice(kernel, "x", source, at, grid, stretch.size))
            else:
                result = _in_pieces(kernel, fold, source, at, (positions, length), stretch.size)
            finish_pool(kernel, work, result, at)


def pool_positions(kernel: Kernel, work: Work, data: Aligned, at: Place) -> None:
    """Pool a slice with all positions of some channels, and store the result; ``at``: place of the slice."""
    fold, positions = POOLS[work.op], math.prod(work.input(0).shape[1:-1])
    data = replace(data, grid=Grid(positions, 1, positions))
    if is_exact(work.steps):
        result = _at_once(kernel, fold, data)
    else:
        result = _piece(kernel, fold, widened_slice(kernel, data))
        if fold.averages:
            Vector(kernel, Format.FP32, result.elements).vs("div", result.base, result.base, positions)
    finish_pool(kernel, work, result, Place(at.image, 0, at.lane))


def _sizes(kernel: Kernel, source: DdrTensor, positions: int, channels: int, direct: bool) -> tuple[int, int]:
    """Channels and positions of a slice: few channels rather than pieces of the positions."""
    widest = Format.FP32 if not direct else source.fmt
    wanted = max(1, ceil_div(channels, max(1, kernel.target.tiles // source.shape[0])))
    taken = min(channels, round_up(wanted, BLOCK))

    def need(length: int, lanes: int) -> int:
        compact = 0 if source.blocked else length * (lanes % BLOCK) * source.bytes_each
        wide = aligned_bytes(length, lanes, widest) if widest is not source.fmt or length < positions else 0
        return aligned_bytes(length, lanes, source.fmt) + wide + compact + _RESERVED_BYTES

    length = min(positions, LARGEST_EXTENT)
    while need(length, taken) > kernel.budget and taken > BLOCK:
        taken = round_up(ceil_div(taken, 2), BLOCK)
    while need(length, taken) > kernel.budget and length > 1:
        length = ceil_div(length, 2)
    return taken, length


def _at_once(kernel: Kernel, fold: PositionFold, data: Aligned) -> Aligned:
    """The positions by one instruction, which divides the FP32 sum of a mean once."""
    name, token = fold.instruction, data.fmt.token
    result = slice_buffer(kernel, fold.result, data.fmt, Grid(1, 1, 1), data.channels)
    kernel.emit(f"ct.reduce.{name}.{token}", dst=result.base, src0=data.base, shape=data.shape, dims="h")
    return result


def _piece(kernel: Kernel, fold: PositionFold, data: Aligned) -> Aligned:
    """The sum or the largest of the positions of FP32 data."""
    part = slice_buffer(kernel, "part", Format.FP32, Grid(1, 1, 1), data.channels)
    kernel.emit(f"ct.reduce.{fold.piece}.fp32", dst=part.base, src0=data.base, shape=data.shape, dims="h")
    return part


def _in_pieces(
    kernel: Kernel, fold: PositionFold, source: DdrTensor, at: Place, sizes: tuple[int, int], channels: int
) -> Aligned:
    """Fold each piece of the positions in FP32, and combine the results."""
    positions, length = sizes
    total = slice_buffer(kernel, "total", Format.FP32, Grid(1, 1, 1), channels)
    v = Vector(kernel, Format.FP32, total.elements)
    kernel.emit("td.memset.fp32", dst=total.base, value=IDENTITY[fold.piece], n=total.elements)
    with slices(kernel, shard_of(positions, 1, 0, length)) as (begin, count):
        piece = replace(at, position=begin)
        data = widened_slice(kernel, load_slice(kernel, "x", source, piece, Grid(count, 1, length), channels))
        v.vv(COMBINE[fold.piece], total.base, total.base, _piece(kernel, fold, data).base)
    if fold.averages:
        v.vs("div", total.base, total.base, positions)
    return total


def _define(op: str, fold: PositionFold) -> None:
    POOLS[op] = fold
    lowering(
        op,
        order=Order.CHANNELS_LAST,
        cuts=long_pool.long_pool_cuts,
        anchor=True,
        blocked=True,
        engines=(Engine.VECTOR,),
    )(global_pool)


_define("GlobalAveragePool", PositionFold("mean", "avg", "sum", averages=True))
_define("LargestPosition", PositionFold("largest", "max", "max", averages=False))
