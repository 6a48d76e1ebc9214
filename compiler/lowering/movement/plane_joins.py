"""Joins parts of several tensors to one plane of channels, in the scratchpad.

Stored separately, each part would need a run of DDR for each position. Every run costs time of the shared
DDR. So a tile loads the positions of all parts, moves them into one plane, and stores that as a single run.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from compiler.codegen.expr import Value, minimum
from compiler.codegen.kernel import Kernel
from compiler.codegen.slices.long_runs import ddr_cycles
from compiler.codegen.slices.tensors import BLOCK, DdrTensor, dma_format, zero_of
from compiler.dialect.planes import image_bytes
from compiler.evaluation.sizes import always, here, largest, least
from tx8isa.numbers.division import ceil_div
from tx8isa.numbers.layouts import full_blocks, tail_width
from tx8isa.numbers.limits import MOST_MOVES


@dataclass(frozen=True)
class PlanePart:
    """``count`` channels of a blocked tensor from ``channel``, all in one plane; ``lane``: their place in
    the result's plane."""

    tensor: DdrTensor
    channel: int
    count: int
    lane: int


def joins(kernel: Kernel, target: DdrTensor, plane: int, parts: Sequence[PlanePart]) -> bool:
    """True if joining a plane on the chip takes less time than storing each part separately."""
    machine_tiles = kernel.target.tiles
    each, positions = target.bytes_each, here(ceil_div(target.shape[0] * _positions(target), machine_tiles))
    apart, loaded, moved = 0.0, 0, 0.0
    timing = kernel.target.machine.timing
    for part in parts:
        width = _width(part.tensor, part.channel // BLOCK)
        runs = positions if part.count < width else 1
        size = positions * part.count * each
        apart += ddr_cycles(kernel.target, size, runs) + ddr_cycles(kernel.target, size, positions)
        loaded += positions * width * each
        block = max(timing.tdma.transfer.value, part.count * each / timing.tdma.rate.value)
        moved += timing.tdma.fixed.value + timing.issue.of("tdma").value + positions * block
    stored = positions * _width(target, plane) * each
    joined = ddr_cycles(kernel.target, loaded, len(parts)) + ddr_cycles(kernel.target, stored, 1)
    return joined + moved < apart


def join_plane(kernel: Kernel, target: DdrTensor, plane: int, parts: Sequence[PlanePart]) -> None:
    """Load the planes that the parts are in, move the parts to their lanes, and store the plane."""
    each, width, positions = target.bytes_each, _width(target, plane), _positions(target)
    widths = [_width(part.tensor, part.channel // BLOCK) for part in parts]
    fit = kernel.budget // (2 * (sum(widths) + width) * each)
    images = target.shape[0]
    wanted = ceil_div(positions, ceil_div(kernel.target.tiles, images))
    size = largest(1, least(fit, wanted, MOST_MOVES))
    blocks = ceil_div(positions, size)
    token = dma_format(target.fmt).token
    with kernel.items(images * blocks) as item:
        image, begin = kernel.let(item // blocks), kernel.let(item % blocks * size)
        count = size if always(positions % size == 0) else kernel.let(minimum(size, positions - begin))
        joined = kernel.buffer("joined", size * width * each)
        if sum(part.count for part in parts) < width:  # lanes without a channel
            kernel.emit(f"td.memset.{token}", dst=joined, value=zero_of(target.fmt), n=count * width)
        for part, stored in zip(parts, widths, strict=True):
            data = kernel.buffer("part", size * stored * each)
            source = part.tensor.at(_first(part.tensor, image, part.channel // BLOCK, begin))
            kernel.emit(f"rdma.{token}", dst=data, src=source, n=count * stored)
            kernel.emit(
                "td.gatherscatter",
                dst=joined + part.lane * each,
                src0=data + part.channel % BLOCK * each,
                n=part.count * each,
                src_stride0=stored * each,
                src_iter0=count,
                dst_stride0=width * each,
                dst_iter0=count,
            )
        place = target.at(_first(target, image, plane, begin))
        kernel.emit(f"wdma.{token}", dst=place, src=joined, n=count * width)


def _first(tensor: DdrTensor, image: Value, plane: int, position: Value) -> Value:
    """The first element of a position in a plane of an image."""
    positions = _positions(tensor)
    stride = image_bytes(positions, tensor.shape[-1], tensor.fmt.bits) // tensor.bytes_each
    return image * stride + (position * _width(tensor, plane) + plane * positions * BLOCK)


def _positions(tensor: DdrTensor) -> int:
    """Positions of an image."""
    return math.prod(tensor.shape[1:-1])


def _width(tensor: DdrTensor, plane: int) -> int:
    """Stored channels of each position of a plane."""
    channels = tensor.shape[-1]
    return BLOCK if plane < full_blocks(channels, BLOCK) else tail_width(channels, BLOCK)
