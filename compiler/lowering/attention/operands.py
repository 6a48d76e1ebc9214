"""Where the rows of an attention's operands are in DDR; its mask and its result."""

from __future__ import annotations

from collections.abc import Sequence

from compiler.codegen.expr import Value
from compiler.codegen.kernel import Kernel
from compiler.codegen.slices.aligned import Aligned, Grid, load_aligned, narrowed_slice, store_aligned
from compiler.codegen.slices.precision import split
from compiler.codegen.slices.tensors import DdrTensor, View, broadcast_view, unravel
from compiler.codegen.slices.vector import Vector
from compiler.operators.linear.attention import Strided
from tx8isa.numbers.formats import Format

from .plan import HIDDEN, Problem


def load_mask(
    kernel: Kernel, p: Problem, head: Value, rows: tuple[Value, int], keys: tuple[Value, int]
) -> list[Aligned]:
    """The mask of some queries and keys, each from a first on; [queries or 1, keys]."""
    tensor = p.mask
    assert tensor is not None
    (row, count), (begin, width) = rows, keys
    if tensor.shape[-2] == 1:
        row, count = 0, 1
    first = _mask_origin(p, tensor, head) + (row * p.n + begin)
    data = load_aligned(kernel, "mask", tensor, first, p.n, Grid(count, 1, count), width)
    data = data if data.fmt is p.fmt else narrowed_slice(kernel, data, p.fmt)
    least = HIDDEN.get(data.fmt, HIDDEN[Format.FP32])
    Vector(kernel, data.fmt, data.elements).vs("max", data.base, data.base, least)
    return split(kernel, data)


def _mask_origin(p: Problem, tensor: DdrTensor, head: Value) -> Value:
    """First element of a head's mask."""
    leading = p.operands[0].shape[:-2]
    matrix = tensor.shape[-2] * tensor.shape[-1]
    view: View = broadcast_view(tensor.viewed(*tensor.shape[:-2]), leading)
    return _offset_of_head(leading, [step * matrix for step in view.strides], head)


def store_result(kernel: Kernel, p: Problem, head: Value, row: Value, rows: Aligned) -> None:
    """Rows of the result to their place."""
    store_aligned(kernel, rows, p.work.output, first_of_row(p.result, head, row), p.result.strides[-2])


def first_of_row(lies: Strided, head: Value, row: Value) -> Value:
    """The first element of a row of a head."""
    start = _offset_of_head(lies.shape[:-2], lies.strides[:-2], head) + lies.offset
    return start + row * lies.strides[-2]


def _offset_of_head(leading: Sequence[int], strides: Sequence[int], head: Value) -> Value:
    """Where a head is that is counted over the leading axes; axes that lie as they are counted are one."""
    axes: list[tuple[int, int]] = []
    for size, step in zip(leading, strides, strict=True):
        if size == 1:
            continue
        if axes and axes[-1][1] == size * step:
            axes[-1] = (axes[-1][0] * size, step)
        else:
            axes.append((size, step))
    offset: Value = 0
    for index, (_, step) in zip(unravel(head, [size for size, _ in axes]), axes, strict=True):
        offset = offset + index * step
    return offset
