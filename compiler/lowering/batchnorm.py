"""BatchNormalization on channels-last slices, as the TX8 overview describes it.

Convert to FP32, subtract the mean, multiply by 1 / sqrt(variance + epsilon), scale, shift, convert back.
The parameters are per channel: whole channel blocks take the loop form of the vector instructions, tails
the plain VuV form.
"""

from __future__ import annotations

import math

from compiler.codegen.aligned import (
    BLOCK,
    MOST_POSITIONS,
    ChannelVector,
    Grid,
    aligned_bytes,
    channel_vector,
    load_aligned,
    load_vector,
    narrowed_slice,
    per_channel,
    store_aligned,
    widened_slice,
)
from compiler.codegen.expr import Value, add, ceil_div, minimum, multiply, round_up
from compiler.codegen.kernel import Kernel
from compiler.codegen.tensors import Stretch, stretches
from compiler.codegen.vector import Vector
from compiler.lowering.record import Order, Work, lowering
from tx8isa.formats import Format
from tx8isa.layouts import aligned_channels

_OPERANDS = {"scale": 1, "shift": 2, "mean": 3, "variance": 4}
_COLUMNS = 4096
"""Extent of one lane of a packed shape."""


@lowering("BatchNormalization", order=Order.CHANNELS_LAST)
def batch_normalization(k: Kernel, work: Work) -> None:
    """All positions of all batches are one row of positions: the parameters only depend on the channel."""
    source, target = work.input(0), work.output
    channels = source.shape[-1]
    positions = math.prod(source.shape[:-1])
    vectors = {name: channel_vector(k, f"{name}_data", work.input(at)) for name, at in _OPERANDS.items()}
    dealt = 0
    for stretch in stretches(channels, _channels_per_slice(k, channels, source.fmt)):
        rows = _positions_per_slice(k, positions, stretch.size, source.fmt)

        def prepare(block: Value, stretch: Stretch = stretch) -> tuple[Value, list[Value]]:
            channel = k.let(add(multiply(block, stretch.size), stretch.start))
            return channel, _parameters(k, work, vectors, channel, stretch.size)

        slices = ceil_div(positions, rows)
        with k.grouped_items(stretch.count, slices, dealt, prepare) as (_, item, (channel, parameters)):
            begin = k.let(multiply(item, rows))
            grid = Grid(k.let(minimum(rows, positions - begin)), 1, rows)
            first = k.let(add(multiply(begin, channels), channel))
            data = widened_slice(k, load_aligned(k, "x", source, first, channels, grid, stretch.size))
            for name, parameter in zip(("sub", "mul", "mul", "add"), parameters, strict=True):
                per_channel(k, name, data, parameter)
            store_aligned(k, narrowed_slice(k, data, target.fmt), target, first, channels)
        dealt += stretch.count * slices


def _parameters(
    k: Kernel, work: Work, vectors: dict[str, ChannelVector], first: Value, channels: int
) -> list[Value]:
    """Mean, 1 / sqrt(variance + epsilon), scale, shift, one FP32 value per stored channel."""
    loaded = {name: load_vector(k, name, vector, first, channels) for name, vector in vectors.items()}
    v = Vector(k, Format.FP32, aligned_channels(channels, BLOCK))
    v.vs("add", loaded["variance"], loaded["variance"], work.spec.number("epsilon"))
    v.unary("rsqrt", loaded["variance"], loaded["variance"])
    return [loaded["mean"], loaded["variance"], loaded["scale"], loaded["shift"]]


def _bytes_per_position(channels: int, fmt: Format) -> int:
    """Scratchpad bytes of a position: the slice before, in FP32 and after, and its tail twice."""
    each = 2 * aligned_bytes(BLOCK, channels, fmt) + aligned_bytes(BLOCK, channels, Format.FP32)
    return each // BLOCK + 2 * (channels % BLOCK) * fmt.bits // 8


def _parameter_bytes(channels: int) -> int:
    """Four FP32 vectors, as much again for what they are converted from, and line ends."""
    return 8 * aligned_channels(channels, BLOCK) * 4 + 4096


def _channels_per_slice(k: Kernel, channels: int, fmt: Format) -> int:
    """All of them, or as many whole blocks as fit with one position."""
    taken = channels
    while taken > BLOCK and _parameter_bytes(taken) + _bytes_per_position(taken, fmt) > k.budget:
        taken = round_up(ceil_div(taken, 2), BLOCK)
    return taken


def _positions_per_slice(k: Kernel, positions: int, channels: int, fmt: Format) -> int:
    """An even share for every tile, or what fits."""
    fit = max(1, (k.budget - _parameter_bytes(channels)) // max(_bytes_per_position(channels, fmt), 1))
    return min(fit, ceil_div(positions, k.target.tiles), _COLUMNS, MOST_POSITIONS)
