"""BatchNormalization on channel-blocked slices, as the TX8 overview describes it.

Data are converted to FP32, the mean is subtracted, they are multiplied by 1 / sqrt(variance + epsilon),
scaled, shifted and converted back. The parameters are one value per channel: for whole planes the
instructions have a loop form, tails take the plain VuV form.
"""

from __future__ import annotations

import math

from compiler.codegen.expr import Value
from compiler.codegen.kernel import Kernel
from compiler.codegen.slices.aligned import (
    ChannelVector,
    Grid,
    Place,
    aligned_bytes,
    channel_vector,
    load_slice,
    load_vector,
    narrowed_slice,
    per_channel,
    store_slice,
    widened_slice,
)
from compiler.codegen.slices.shards import coordinates, shard_of, sharded_blocks, slices
from compiler.codegen.slices.tensors import BLOCK
from compiler.codegen.slices.vector import Vector
from compiler.dialect.orders import Order
from compiler.lowering.pointwise.epilogue import AlignedResult, apply_steps, step_bytes
from compiler.lowering.record import Engine, Work, lowering
from tx8isa.numbers.division import ceil_div, round_up
from tx8isa.numbers.formats import Format
from tx8isa.numbers.layouts import aligned_channels
from tx8isa.numbers.limits import LARGEST_EXTENT, MOST_MOVES

_OPERANDS = {"scale": 1, "shift": 2, "mean": 3, "variance": 4}
_RESERVED_BYTES = 4096
"""Scratchpad bytes for the ends of lines that buffers do not fill."""


@lowering(
    "BatchNormalization", order=Order.CHANNELS_LAST, anchor=True, blocked=True, engines=(Engine.VECTOR,)
)
def batch_normalization(kernel: Kernel, work: Work) -> None:
    """The parameters depend on the channel alone, so compact images are computed as one."""
    source = work.input(0)
    channels, positions = source.shape[-1], math.prod(source.shape[1:-1])
    batch = source.shape[0]
    if not source.blocked:
        batch, positions = 1, batch * positions
    vectors = {name: channel_vector(kernel, f"{name}_data", work.input(at)) for name, at in _OPERANDS.items()}
    slice_channels = _channels_per_slice(kernel, work, channels)
    images = math.gcd(batch, kernel.target.tiles)
    parts = kernel.target.tiles // images
    image_place, position_place = coordinates(kernel, (images, parts))
    image_shard = shard_of(batch, images, image_place, 1)
    for stretch, channel_shard in sharded_blocks(channels, slice_channels, 1, 0):
        position_shard = shard_of(
            positions, parts, position_place, _positions_per_slice(kernel, work, positions, stretch.size)
        )
        with slices(kernel, channel_shard) as (block, _):
            lane = kernel.let(block * stretch.size + stretch.start)
            parameters = _parameters(kernel, work, vectors, lane, stretch.size)
            with slices(kernel, image_shard) as (number, _), slices(kernel, position_shard) as (begin, count):
                at = Place(number, begin, lane)
                _normalize(kernel, work, at, Grid(count, 1, position_shard.size), stretch.size, parameters)


def _normalize(
    kernel: Kernel, work: Work, at: Place, grid: Grid, channels: int, parameters: list[Value]
) -> None:
    """Normalize one slice."""
    data = widened_slice(kernel, load_slice(kernel, "x", work.input(0), at, grid, channels))
    for name, parameter in zip(("sub", "mul", "mul", "add"), parameters, strict=True):
        per_channel(kernel, name, data, parameter)
    apply_steps(AlignedResult(kernel, data, at), data.base, work.steps)
    store_slice(kernel, narrowed_slice(kernel, data, work.output.fmt), work.output, at)


def _parameters(
    kernel: Kernel, work: Work, vectors: dict[str, ChannelVector], first: Value, channels: int
) -> list[Value]:
    """Load mean, 1 / sqrt(variance + epsilon), scale and shift, one FP32 value per stored channel."""
    loaded = {name: load_vector(kernel, name, source, first, channels) for name, source in vectors.items()}
    vector = Vector(kernel, Format.FP32, aligned_channels(channels, BLOCK))
    vector.vs("add", loaded["variance"], loaded["variance"], work.spec.number("epsilon"))
    vector.unary("rsqrt", loaded["variance"], loaded["variance"])
    return [loaded["mean"], loaded["variance"], loaded["scale"], loaded["shift"]]


def _bytes_per_position(work: Work, channels: int) -> int:
    """Scratchpad bytes of a position: the slice before, in FP32 and after, its tail twice, the steps."""
    fmt = work.input(0).fmt
    block_bytes = 2 * aligned_bytes(BLOCK, channels, fmt) + aligned_bytes(BLOCK, channels, Format.FP32)
    steps = step_bytes(work.steps, Format.FP32) * aligned_channels(channels, BLOCK)
    return block_bytes // BLOCK + 2 * (channels % BLOCK) * fmt.bits // 8 + steps


def _parameter_bytes(channels: int) -> int:
    """Scratchpad bytes of four FP32 vectors, of their sources, which are as large, and of ends of lines."""
    return 8 * aligned_channels(channels, BLOCK) * 4 + _RESERVED_BYTES


def _channels_per_slice(kernel: Kernel, work: Work, channels: int) -> int:
    """All channels, or as many whole planes as fit for one position."""
    taken = channels
    while taken > BLOCK and _parameter_bytes(taken) + _bytes_per_position(work, taken) > kernel.budget:
        taken = round_up(ceil_div(taken, 2), BLOCK)
    return taken


def _positions_per_slice(kernel: Kernel, work: Work, positions: int, channels: int) -> int:
    """Equally many for every tile, or as many as fit."""
    fit = max(1, (kernel.budget - _parameter_bytes(channels)) // max(_bytes_per_position(work, channels), 1))
    return min(fit, ceil_div(positions, kernel.target.tiles), LARGEST_EXTENT, MOST_MOVES)
