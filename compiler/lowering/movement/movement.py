"""Transpose, Expand, Pad and other operators that only move values, and casts of floats."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

import numpy as np

from compiler.codegen.kernel import Kernel, Target
from compiler.codegen.slices import scalar
from compiler.codegen.slices.boxes import box_plans, copy_boxes
from compiler.codegen.slices.matrix_transpose import Side
from compiler.codegen.slices.tensors import (
    DdrTensor,
    Space,
    View,
    broadcast_view,
    collapse,
    copy_views,
    dma_format,
    element_spaces,
    in_dma_elements,
    load_slab,
    plan_slabs,
    slabs,
    store_slab,
    whole,
)
from compiler.codegen.slices.vector import convert
from compiler.evaluation.sizes import here
from compiler.evaluation.storage import within_range
from compiler.graph import FLOATS
from compiler.lowering.record import EVERY_TYPE, Cut, Engine, Work, alias, lowering
from compiler.operators.record import Call
from compiler.operators.shapes.movement import permutation
from compiler.operators.shapes.slicing import pad_widths
from tx8isa.numbers.formats import Format

from .transposition import write_transposed

alias("Reshape", "Flatten", "Identity")


def permute(kernel: Kernel, source: DdrTensor, target: DdrTensor, perm: tuple[int, ...]) -> None:
    """Copy a tensor; axis i of the target is axis perm[i] of the source."""
    source, target = (replace(tensor, fmt=dma_format(tensor.fmt)) for tensor in (source, target))
    view = View(source, tuple(source.strides[axis] for axis in perm))
    space = collapse(target.shape, (view, whole(target)))
    if not _transpose_matrices(kernel, space):
        copy_views(kernel, target.shape, view, whole(target))


def _space_of_elements(work: Work) -> Space:
    """The space (source, target) of a Transpose, in elements that the DMA moves."""
    source, target = work.input(0), work.output
    view = View(source, tuple(source.strides[axis] for axis in permutation(work.spec)))
    shape, views = in_dma_elements(target.shape, (view, whole(target)))
    return collapse(shape, views)


_BOXES = "boxes"
"""The value of the choice ``way`` in cuts of a Transpose."""
_MOST_BOXES = 2


def _transpose_cuts(target: Target, work: Work) -> Iterator[Cut]:
    for box in islice(box_plans(target, _space_of_elements(work)), _MOST_BOXES):
        sizes = tuple((f"axis{axis}", extent) for axis, extent in enumerate(box))
        yield Cut(sizes=sizes, choices=(("way", _BOXES),))


_WIDTHS = (16, 32)
"""Bits of the elements that the matrix engine transposes."""
_FEWEST_COLUMNS = 16
_FEWEST_ELEMENTS = 256
"""Least elements of a tile; with fewer, strided reads take less time than the matrix engine."""


def _transpose_matrices(kernel: Kernel, space: Space) -> bool:
    """Transpose the matrices of a space (source, target) by products; False, without code, if that is
    slower."""
    source, target = space.views
    inner = source.strides.index(1) if 1 in source.strides else -1
    last = len(space.sizes) - 1
    small = here(space.elements) < _FEWEST_ELEMENTS * kernel.target.tiles
    if inner in (-1, last) or source.tensor.fmt.bits not in _WIDTHS or small:
        return False
    if here(space.sizes[inner]) < _FEWEST_COLUMNS:
        return False
    others = [axis for axis in range(last) if axis != inner]
    outer = tuple(space.sizes[axis] for axis in others)
    before = Side(source.tensor, tuple(source.strides[axis] for axis in others), source.strides[last])
    after = Side(target.tensor, tuple(target.strides[axis] for axis in others), target.strides[inner])
    write_transposed(kernel, before, after, outer, space.sizes[last], space.sizes[inner])
    return True


@lowering("Transpose", types=EVERY_TYPE, cuts=_transpose_cuts, engines=(Engine.DMA,))
def transpose(kernel: Kernel, work: Work) -> None:
    """Copy by strided reads, by products with the identity if the innermost axis changes, or by boxes if a
    cut says so."""
    if work.cut is not None and work.cut.choice("way", "") == _BOXES:
        copy_boxes(kernel, _space_of_elements(work), tuple(extent for _, extent in work.cut.sizes))
        return
    permute(kernel, work.input(0), work.output, permutation(work.spec))


@lowering("tx8be.cast", engines=(Engine.VECTOR,))
def cast(kernel: Kernel, work: Work) -> None:
    """A change of format that a pass inserted."""
    convert_tensor(kernel, work.input(0), work.output)


@lowering("Expand", types=EVERY_TYPE, engines=(Engine.DMA,))
def expand(kernel: Kernel, work: Work) -> None:
    """Reads with stride 0 along the axes that broadcast."""
    view = broadcast_view(work.input(0), work.output.shape)
    copy_views(kernel, work.output.shape, view, whole(work.output))


def convert_tensor(kernel: Kernel, source: DdrTensor, target: DdrTensor) -> None:
    """target = source, tensors in DDR, each in its own format."""
    for space in element_spaces([source], target):
        if source.fmt is target.fmt or {source.fmt, target.fmt} == {Format.INT8, Format.UINT8}:
            copy_views(kernel, space.sizes, *space.views)
        else:
            _convert_views(kernel, space)


def _convert_views(kernel: Kernel, space: Space) -> None:
    """Copy a view to one of another format."""
    source, target = (view.tensor for view in space.views)
    element_bytes = source.bytes_each + target.bytes_each + 4
    plan = plan_slabs(space.sizes, kernel.budget // element_bytes, kernel.target.tiles)
    with slabs(kernel, space, plan) as slab:
        before = kernel.buffer("before", plan.elements * source.bytes_each)
        after = kernel.buffer("after", plan.elements * target.bytes_each)
        load_slab(kernel, space.views[0], slab, before)
        convert(kernel, after, before, slab.elements, source.fmt, target.fmt)
        store_slab(kernel, space.views[1], slab, after)


def _check_pad(call: Call) -> str | None:
    computed = call.has(2) and call.values[2] is None
    return (
        f"a constant_value that is known when compiling; found '{call.tensor(2).name}'" if computed else None
    )


def _fills_integers(call: Call) -> bool:
    """where the border of a tensor of integers is filled"""
    return call.tensor(0).dtype not in FLOATS and any(max(pair) > 0 for pair in pad_widths(call))


@lowering("Pad", types=EVERY_TYPE, check=_check_pad, engines=(Engine.DMA,), on_core=_fills_integers)
def pad(kernel: Kernel, work: Work) -> None:
    """Copy the kept elements; fill the border as boxes without overlaps."""
    source, target = work.input(0), work.output
    widths = pad_widths(work.spec)
    starts = [max(begin, 0) for begin, _ in widths]
    cuts = [max(-begin, 0) for begin, _ in widths]
    kept = [size - cut - max(-end, 0) for size, cut, (_, end) in zip(source.shape, cuts, widths, strict=True)]
    if 0 not in kept:
        taken = View(source, source.strides, _offset(source, cuts))
        copy_views(kernel, tuple(kept), taken, View(target, target.strides, _offset(target, starts)))
    value = work.spec.values[2] if work.spec.has(2) else None
    number = 0 if value is None else value.reshape(()).item()  # an int64 stays exact
    for axis in range(len(widths)):
        before = (0, starts[axis])
        after = (starts[axis] + kept[axis], target.shape[axis])
        for low, high in (before, after):
            if low < high:
                origin = [*starts[:axis], low, *(0,) * (len(widths) - axis - 1)]
                shape = (*kept[:axis], high - low, *target.shape[axis + 1 :])
                _fill(kernel, View(target, target.strides, _offset(target, origin)), shape, number)


def _offset(tensor: DdrTensor, index: list[int]) -> int:
    return sum(step * i for step, i in zip(tensor.strides, index, strict=True))


def _fill(kernel: Kernel, view: View, shape: tuple[int, ...], number: int | float) -> None:
    """Store one number to every element of a view."""
    if 0 in shape:
        return
    if not view.tensor.fmt.is_float:
        scalar.fill(kernel, shape, view, int(number))
        return
    space = collapse(shape, (view,))
    element_bytes = view.tensor.bytes_each
    plan = plan_slabs(space.sizes, kernel.budget // element_bytes // 2, kernel.target.tiles)
    data = kernel.buffer("fill", plan.elements * element_bytes)
    fmt: Format = view.tensor.fmt
    value = float(within_range(np.array(number), fmt))
    kernel.emit(f"td.memset.{fmt.token}", dst=data, value=value, n=plan.elements)
    with slabs(kernel, space, plan) as slab:
        store_slab(kernel, space.views[0], slab, data)
