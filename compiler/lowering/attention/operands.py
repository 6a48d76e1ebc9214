"""The operands of attention in DDR: addresses of rows, loads of the mask, stores of the result."""

from __future__ import annotations

from collections.abc import Sequence

from compiler.codegen.expr import Value
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
from compiler.codegen.slices.tensors import BLOCK, DdrTensor, broadcast_view, unravel
from compiler.codegen.slices.vector import Vector
from compiler.evaluation.sizes import Size, always
from compiler.evaluation.sizes.size import Unsized
from compiler.operators.linear.strided import StridedView
from tx8isa.numbers.formats import Format
from tx8isa.numbers.layouts import aligned_channels

from .plan import HIDDEN, AttentionPlan


def load_mask(
    kernel: Kernel, plan: AttentionPlan, head: Value, rows: tuple[Value, int], keys: tuple[Value, int]
) -> list[Aligned]:
    """Load the mask [queries or 1, keys] of some rows and keys, each given as (first, count)."""
    tensor = plan.mask
    assert tensor is not None
    (row, row_count), (key, key_count) = rows, keys
    if tensor.shape[-2] == 1:
        row, row_count = 0, 1
    elif isinstance(key_count, Size) or isinstance(plan.m, Size):
        raise Unsized("a mask with a row for each query; possible are masks of one row")
    first = _mask_origin(plan, tensor, head) + (row * plan.n + key)
    if isinstance(plan.n, Size):
        data = _load_mask_row(kernel, tensor, first, key_count, plan.block_keys)
    else:
        data = load_aligned(kernel, "mask", tensor, first, plan.n, Grid(row_count, 1, row_count), key_count)
    data = data if data.fmt is plan.fmt else narrowed_slice(kernel, data, plan.fmt)
    least = HIDDEN.get(data.fmt, HIDDEN[Format.FP32])
    Vector(kernel, data.fmt, data.elements).vs("max", data.base, data.base, least)
    return split(kernel, data)


def _load_mask_row(kernel: Kernel, tensor: DdrTensor, first: Value, keys: int, most: int) -> Aligned:
    """Load one row of a mask: the channels of one position follow each other, however many they are."""
    lanes = aligned_channels(most, BLOCK)
    data = slice_buffer(kernel, "mask", tensor.fmt, Grid(1, 1, 1), lanes)
    kernel.emit(f"td.memset.{tensor.fmt.token}", dst=data.base, value=0.0, n=lanes)
    kernel.emit(f"rdma.{tensor.fmt.token}", dst=data.base, src=tensor.at(first), n=keys)
    return data


def _mask_origin(plan: AttentionPlan, tensor: DdrTensor, head: Value) -> Value:
    """The first element of the mask of a head."""
    leading = plan.operands[0].shape[:-2]
    matrix = tensor.shape[-2] * tensor.shape[-1]
    view = broadcast_view(tensor.viewed(*tensor.shape[:-2]), leading)
    return _offset_of_head(leading, [step * matrix for step in view.strides], head)


def store_result(kernel: Kernel, plan: AttentionPlan, head: Value, row: Value, rows: Aligned) -> None:
    """Store ``rows`` of a head's result from ``row`` on."""
    store_aligned(
        kernel, rows, plan.work.output, first_of_row(plan.result, head, row), plan.result.strides[-2]
    )


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
