"""MaxPool and AveragePool on channels-last slices of output rows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from compiler.codegen.aligned import (
    BLOCK,
    Aligned,
    aligned_bytes,
    load_aligned,
    narrowed_slice,
    slice_buffer,
    store_aligned,
    widened_slice,
)
from compiler.codegen.expr import Value, add, ceil_div, multiply, round_up
from compiler.codegen.kernel import Kernel
from compiler.codegen.tensors import DdrTensor, stretches
from compiler.codegen.vector import Vector
from compiler.codegen.windows import Geometry, RowBlock, geometry, limits, row_block, rows_per_block
from compiler.graph import Array
from compiler.lowering.record import Order, Work, lowering
from compiler.operators.pool import pool_window
from compiler.operators.record import Call
from tx8isa.formats import Format
from tx8isa.layouts import SMALLEST_TAIL


def _check(call: Call) -> str | None:
    window = pool_window(call)
    if max(window.dilations) > 1:
        return f"dilations of 1; found {list(window.dilations)}"
    return limits(window)


Pooling = Callable[[RowBlock, Aligned], Aligned]


@lowering("MaxPool", order=Order.CHANNELS_LAST, check=_check)
def max_pool(k: Kernel, work: Work) -> None:
    """ct.pool.max, which ignores positions outside the image."""
    g = geometry(pool_window(work.spec))

    def pool(block: RowBlock, data: Aligned) -> Aligned:
        result = slice_buffer(k, "y", data.fmt, block.output, data.channels)
        _pool(k, "max", g, block, data, result)
        return result

    _pooled(k, work, g, pool, 0)


@lowering("AveragePool", order=Order.CHANNELS_LAST, check=_check)
def average_pool(k: Kernel, work: Work) -> None:
    """FP32 sums times the reciprocals of the numbers of elements that count at each position."""
    g = geometry(pool_window(work.spec))
    counts = _counts(work.spec, g)
    table = DdrTensor(k.constant("reciprocals", Format.FP32, (1.0 / counts).astype(np.float32)).symbol,
                      Format.FP32, (counts.size,))  # fmt: skip
    even = bool((counts == counts.flat[0]).all())

    def pool(block: RowBlock, data: Aligned) -> Aligned:
        wide = widened_slice(k, data)
        result = slice_buffer(k, "sum", Format.FP32, block.output, data.channels)
        _pool(k, "sum", g, block, wide, result)
        if even:
            Vector(k, Format.FP32, result.elements).vs(
                "mul", result.base, result.base, float(1.0 / counts.flat[0])
            )
        else:
            _by_position(k, result, table, multiply(block.begin, g.columns))
        return narrowed_slice(k, result, work.output.fmt)

    _pooled(k, work, g, pool, 4)


def _counts(call: Call, g: Geometry) -> Array:
    """Elements that a mean is taken over, per output position [rows, columns] (ONNX AveragePool)."""
    window = pool_window(call)
    include = bool(call.integer("count_include_pad"))
    axes = []
    ends = window.pads_end if len(window.pads_end) == 2 else (window.pads_end[0], 0)
    for axis, (size, outputs) in enumerate(((g.height, g.rows), (g.width, g.columns))):
        low = -g.begin[axis] if include else 0
        high = size + ends[axis] if include else size
        starts = np.arange(outputs) * g.strides[axis] - g.begin[axis]
        taps = starts[:, None] + np.arange(g.kernel[axis])
        axes.append(((taps >= low) & (taps < high)).sum(1))
    return np.asarray(np.multiply.outer(*axes))


def _by_position(k: Kernel, data: Aligned, table: DdrTensor, first: Value) -> None:
    """Multiply every plane by one factor per position, spread over the lanes by a stride of 0."""
    positions = data.grid.positions
    widths = [BLOCK] * data.planes + [data.tail] * bool(data.tail)
    for index, width in enumerate(widths):
        factors = k.buffer("factors", 4 * data.grid.room * data.grid.width * width)
        k.emit(
            "rdma.fp32", dst=factors, src=table.at(first), n=1,
            stride0=0, iter0=width, stride1=1, iter1=positions,
        )  # fmt: skip
        place = data.plane(index)
        Vector(k, Format.FP32, multiply(positions, width)).vv("mul", place, place, factors)


def _pool(k: Kernel, name: str, g: Geometry, block: RowBlock, data: Aligned, result: Aligned) -> None:
    window = [g.kernel[1], g.kernel[0], g.strides[1], g.strides[0]]
    k.emit(
        f"ct.pool.{name}.{data.fmt.token}", dst=result.base, src0=data.base, shape=data.shape,
        dst_shape=result.shape, pad=block.pad, window=[*window],
    )  # fmt: skip


def _pooled(k: Kernel, work: Work, g: Geometry, pool: Pooling, extra: int) -> None:
    """The loop over batches and blocks of rows; ``extra`` bytes per element beyond those of load and store.

    Channels are independent: where a row of all of them does not fit, they are taken in stretches.
    """
    source, target = work.input(0), work.output
    batch, channels = source.shape[0], source.shape[-1]
    each = 2 * source.bytes_each + 2 * extra
    taken = channels
    while taken > SMALLEST_TAIL and (g.columns + g.input_rows(1) * g.width) * taken * each + 4096 > k.budget:
        taken = round_up(ceil_div(taken, 2), BLOCK if taken > BLOCK else SMALLEST_TAIL)
    lanes = aligned_bytes(BLOCK, taken, Format.FP32) // 256  # stored elements per position
    rows = rows_per_block(k, g, lanes * each * g.columns, lanes * each * g.width, 4096, batch)
    blocks = ceil_div(g.rows, rows)
    for stretch in stretches(channels, taken):
        with k.items(stretch.count * batch * blocks) as item:
            image, block = k.let(item // blocks), row_block(k, g, k.let(item % blocks), rows)
            n, first = k.let(image // stretch.count), image % stretch.count
            channel = k.let(add(multiply(first, stretch.size), stretch.start))
            row = add(multiply(n, g.height), block.first)
            place = add(multiply(row, g.width * channels), channel)
            result = pool(block, load_aligned(k, "x", source, place, channels, block.input, stretch.size))
            row = add(multiply(n, g.rows), block.begin)
            place = add(multiply(row, g.columns * channels), channel)
            store_aligned(k, result, target, place, channels)
