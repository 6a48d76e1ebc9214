"""Changes of the order of axes in DDR, which the layout passes insert, together with a cast.

The two orders store 64 channels in the same sequence. So slices of positions are loaded in one order and
stored in the other. To and from the order of the specification, matrices [C, positions] are transposed.
"""

from __future__ import annotations

import math
from dataclasses import replace

from compiler.codegen.kernel import Kernel
from compiler.codegen.slices.aligned import Grid, Place, load_slice, slice_buffer, store_slice
from compiler.codegen.slices.matrix_transpose import Side
from compiler.codegen.slices.tensors import BLOCK, DdrTensor, dma_format
from compiler.codegen.slices.vector import convert
from compiler.dialect.orders import Order
from compiler.dialect.planes import image_bytes
from compiler.lowering.record import Engine, Work, lowering
from tx8isa.numbers.layouts import LINE_BYTES, aligned_channels

from .transposition import shared_length, sliced, write_transposed


@lowering("tx8be.channel_norm", prefetch=True, engines=(Engine.DMA,))
def channel_norm(kernel: Kernel, work: Work) -> None:
    """Copy a tensor from one order of axes to another."""
    assert work.orders is not None
    before, after = work.orders
    source, target = (replace(each, fmt=dma_format(each.fmt)) for each in (work.input(0), work.output))
    if before is Order.PLAIN:
        batches, channels, *image = source.shape
        write_transposed(
            kernel, _channel_lines(source), _position_lines(target), (batches,), channels, math.prod(image)
        )
    elif after is Order.PLAIN:
        batches, channels, *image = target.shape
        write_transposed(
            kernel, _position_lines(source), _channel_lines(target), (batches,), math.prod(image), channels
        )
    else:
        _convert_planes(kernel, source, target)


def _channel_lines(tensor: DdrTensor) -> Side:
    """[N, C, ...] as matrices whose lines are the positions of a channel."""
    positions = math.prod(tensor.shape[2:])
    return Side(tensor, (tensor.shape[1] * positions,), positions)


def _position_lines(tensor: DdrTensor) -> Side:
    """[N, ..., C] as matrices whose lines are the channels of a position."""
    positions, channels = math.prod(tensor.shape[1:-1]), tensor.shape[-1]
    if not tensor.blocked:
        return Side(tensor, (positions * channels,), channels)
    batch = image_bytes(positions, channels, tensor.fmt.bits) // tensor.bytes_each
    return Side(tensor, (batch,), BLOCK, positions)


def _convert_planes(kernel: Kernel, source: DdrTensor, target: DdrTensor) -> None:
    """Load slices of positions with all channels, store them in the other order."""
    batches, *image, channels = source.shape
    positions = math.prod(image)
    kernel.await_earlier_phases()
    most = _slice_positions(kernel, source, target)
    for batch, position, count in sliced(kernel, batches, positions, most):
        at, grid = Place(batch, position), Grid(count, 1, count)
        data = load_slice(kernel, "x", source, at, grid, channels)
        if source.fmt is not target.fmt:
            converted = slice_buffer(kernel, "converted", target.fmt, grid, channels)
            convert(kernel, converted.base, data.base, data.elements, source.fmt, target.fmt)
            data = converted
        store_slice(kernel, data, target, at)


def _slice_positions(kernel: Kernel, source: DdrTensor, target: DdrTensor) -> int:
    """Positions of a slice: as many as fit twice, but few enough for every tile to have some."""
    batches, *image, channels = source.shape
    position_bytes = aligned_channels(channels, BLOCK) * (source.bytes_each + target.bytes_each)
    tail_bytes = (channels % BLOCK) * (source.bytes_each + target.bytes_each)
    fit = (kernel.budget // 2 - 4 * LINE_BYTES) // (position_bytes + tail_bytes)
    return max(1, min(fit, shared_length(kernel, batches, math.prod(image))))
