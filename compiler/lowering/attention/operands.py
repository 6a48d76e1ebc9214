"""The operands of attention in DDR: addresses of rows, loads of the mask, stores of the result."""

from __future__ import annotations

from collections.abc import Sequence

from compiler.codegen.expr import Value, minimum
from compiler.codegen.kernel import Kernel
from compiler.codegen.slices.aligned import (
    Aligned,
    Grid,
    load_aligned,
    narrowed_slice,
    slice_buffer,
    store_aligned,
)
from compiler.codegen.slices.precision import split
from compiler.codegen.slices.shards import within
from compiler.codegen.slices.tensors import BLOCK, DdrTensor, broadcast_view, dma_loops, unravel
from compiler.codegen.slices.vector import Vector
from compiler.evaluation.sizes import Size, always, ever, least
from compiler.operators.linear.strided import StridedView
from tx8isa.numbers.layouts import aligned_channels

from .plan import AttentionPlan, hidden_score


def load_mask(
    kernel: Kernel, plan: AttentionPlan, head: Value, rows: tuple[Value, int], keys: tuple[Value, int]
) -> list[Aligned]:
    """Load the mask [queries or 1, keys] of some rows and keys, each given as (first, count)."""
    tensor = plan.mask
    assert tensor is not None
    (row, row_count), (key, key_count) = rows, keys
    if not plan.mask_rows:
        row, row_count = 0, 1
    first = _mask_origin(plan, tensor, head) + (row * plan.n + key)
    if plan.sized_mask:
        data = _load_mask_rows(
            kernel, plan, first, (queries_from(plan, row, row_count), row_count), key_count
        )
    elif isinstance(plan.n, Size):
        data = _load_mask_row(kernel, tensor, first, key_count, plan.block_keys)
    else:
        data = load_aligned(kernel, "mask", tensor, first, plan.n, Grid(row_count, 1, row_count), key_count)
    data = data if data.fmt is plan.fmt else narrowed_slice(kernel, data, plan.fmt)
    least = hidden_score(data.fmt)
    Vector(kernel, data.fmt, data.elements).vs("max", data.base, data.base, least)
    return split(kernel, data)


def _load_mask_row(kernel: Kernel, tensor: DdrTensor, first: Value, keys: int, most: int) -> Aligned:
    """Load one row of a mask: the channels of one position follow each other, however many they are."""
    lanes = aligned_channels(most, BLOCK)
    data = slice_buffer(kernel, "mask", tensor.fmt, Grid(1, 1, 1), lanes)
    kernel.emit(f"td.memset.{tensor.fmt.token}", dst=data.base, value=0.0, n=lanes)
    kernel.emit(f"rdma.{tensor.fmt.token}", dst=data.base, src=tensor.at(first), n=keys)
    return data


def _load_mask_rows(
    kernel: Kernel, plan: AttentionPlan, first: Value, rows: tuple[Value, int], keys: int
) -> Aligned:
    """Load rows of a mask, given as (count, most), into planes as wide and high as those of a whole block.

    Missing lanes and rows are 0: nothing uses the lanes, and the rows are multiplied by 0.
    """
    tensor, (count, most) = plan.mask, rows
    assert tensor is not None
    each, token = tensor.bytes_each, tensor.fmt.token
    data = slice_buffer(kernel, "mask", tensor.fmt, Grid(most, 1, most), plan.mask_lanes)
    width = min(plan.mask_lanes, BLOCK)
    kernel.emit(f"td.memset.{token}", dst=data.base, value=0.0, n=data.elements)
    compact = kernel.buffer("mask_rows", most * plan.block_keys * each)
    kernel.emit(f"rdma.{token}", dst=compact, src=tensor.at(first), **dma_loops((plan.n, 1), (count, keys)))
    for begin in range(0, plan.block_keys, width):
        if ever(keys > begin):
            with kernel.if_below(begin, keys):
                kernel.emit(
                    "td.gatherscatter",
                    dst=data.plane(begin // width),
                    src0=compact + begin * each,
                    n=least(keys - begin, width) * each,
                    src_stride0=keys * each,
                    src_iter0=count,
                    dst_stride0=width * each,
                    dst_iter0=count,
                )
    return data


def queries_from(plan: AttentionPlan, row: Value, most: int) -> Value:
    """Number of queries, from 1 to ``most``, of the block that begins at ``row``."""
    if not isinstance(plan.m, Size):
        return most
    return within(minimum(most, plan.m - row), 1, most)


def _mask_origin(plan: AttentionPlan, tensor: DdrTensor, head: Value) -> Value:
    """The first element of the mask of a head."""
    leading = plan.operands[0].shape[:-2]
    matrix = tensor.shape[-2] * tensor.shape[-1]
    view = broadcast_view(tensor.viewed(*tensor.shape[:-2]), leading)
    return _offset_of_head(leading, [step * matrix for step in view.strides], head)


def store_result(kernel: Kernel, plan: AttentionPlan, head: Value, row: Value, rows: Aligned) -> None:
    """Store ``rows`` of a head's result, starting at ``row``, without those after the last query."""
    first, step = first_of_row(plan.result, head, row), plan.result.strides[-2]
    if not isinstance(plan.m, Size):
        store_aligned(kernel, rows, plan.work.output, first, step)
        return
    for lane, part in rows.by_planes(queries_from(plan, row, rows.grid.room)):
        store_aligned(kernel, part, plan.work.output, first + lane, step)


def first_of_row(matrix: StridedView, head: Value, row: Value) -> Value:
    """The first element of a row of a head."""
    start = _offset_of_head(matrix.shape[:-2], matrix.strides[:-2], head) + matrix.offset
    return start + row * matrix.strides[-2]


def _offset_of_head(leading: Sequence[int], strides: Sequence[int], head: Value) -> Value:
    """The offset of a head, whose number counts all leading axes; axes that are contiguous are merged."""
    axes: list[tuple[int, int]] = []
    for size, step in zip(leading, strides, strict=True):
        if always(size == 1):
            continue
        if axes and always(axes[-1][1] == size * step):
            axes[-1] = (axes[-1][0] * size, step)
        else:
            axes.append((size, step))
    offset: Value = 0
    for index, (_, step) in zip(unravel(head, [size for size, _ in axes]), axes, strict=True):
        offset = offset + index * step
    return offset
