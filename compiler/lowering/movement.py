"""Operators that only move values, and the casts and changes of order that passes insert."""

from __future__ import annotations

from compiler.codegen import core
from compiler.codegen.kernel import Kernel
from compiler.codegen.tensors import (
    DdrTensor,
    View,
    collapse,
    copy_views,
    load_slab,
    plan_slabs,
    slabs,
    store_slab,
    whole,
)
from compiler.codegen.vector import convert
from compiler.lowering.record import EVERY_TYPE, Work, alias, lowering
from compiler.operators.movement import permutation
from compiler.operators.record import Call
from compiler.operators.slicing import pad_widths, slice_ranges
from compiler.operators.types import normalized
from tx8isa.formats import Format

alias("Reshape", "Flatten", "Identity")


def permute(k: Kernel, source: DdrTensor, target: DdrTensor, perm: tuple[int, ...]) -> None:
    """Axis i of the target is axis perm[i] of the source."""
    strides = tuple(source.strides[axis] for axis in perm)
    copy_views(k, target.shape, View(source, strides), whole(target))


@lowering("Transpose", types=EVERY_TYPE)
def transpose(k: Kernel, work: Work) -> None:
    """Strided reads, consecutive writes."""
    permute(k, work.input(0), work.output, permutation(work.spec))


@lowering("tx8be.reorder")
def reorder(k: Kernel, work: Work) -> None:
    """A change of order that the layout pass inserted."""
    permute(k, work.input(0), work.output, work.extra["perm"])


@lowering("tx8be.cast")
def cast(k: Kernel, work: Work) -> None:
    """The same values in another format, or a copy."""
    source, target = work.input(0), work.output
    if source.fmt is target.fmt or {source.fmt, target.fmt} == {Format.INT8, Format.UINT8}:
        copy_views(k, (source.size,), View(source, (1,)), View(target, (1,)))
        return
    space = collapse((source.size,), (View(source, (1,)), View(target, (1,))))
    each = source.bytes_each + target.bytes_each + 4
    plan = plan_slabs(space.sizes, k.budget // each, k.target.tiles)
    with slabs(k, space, plan) as slab:
        before = k.buffer("before", plan.elements * source.bytes_each)
        after = k.buffer("after", plan.elements * target.bytes_each)
        load_slab(k, space.views[0], slab, before)
        convert(k, after, before, slab.elements, source.fmt, target.fmt)
        store_slab(k, space.views[1], slab, after)


@lowering("Slice", types=EVERY_TYPE)
def slice_(k: Kernel, work: Work) -> None:
    """Reads with the steps as strides, which an expansion has made positive."""
    source, ranges = work.input(0), slice_ranges(work.spec)
    strides = tuple(step * taken.step for step, taken in zip(source.strides, ranges, strict=True))
    offset = sum(step * taken.start for step, taken in zip(source.strides, ranges, strict=True))
    copy_views(k, work.output.shape, View(source, strides, offset), whole(work.output))


@lowering("Concat", types=EVERY_TYPE)
def concat(k: Kernel, work: Work) -> None:
    """Each piece is written to its place in the result."""
    axis = normalized(work.spec.integer("axis"), len(work.output.shape))
    step, begin = work.output.strides[axis], 0
    for tensor in work.inputs:
        if tensor is not None and tensor.size:
            copy_views(k, tensor.shape, whole(tensor), View(work.output, work.output.strides, begin * step))
            begin += tensor.shape[axis]


def _computed_fill(call: Call) -> str | None:
    computed = call.has(2) and call.values[2] is None
    return (
        f"a constant_value that is known when compiling; found '{call.tensor(2).name}'" if computed else None
    )


@lowering("Pad", types=EVERY_TYPE, check=_computed_fill)
def pad(k: Kernel, work: Work) -> None:
    """The kept part is copied; the border is written as boxes that do not overlap it or each other."""
    source, target = work.input(0), work.output
    widths = pad_widths(work.spec)
    starts = [max(begin, 0) for begin, _ in widths]
    cuts = [max(-begin, 0) for begin, _ in widths]
    kept = [size - cut - max(-end, 0) for size, cut, (_, end) in zip(source.shape, cuts, widths, strict=True)]
    if 0 not in kept:
        taken = View(source, source.strides, _offset(source, cuts))
        copy_views(k, tuple(kept), taken, View(target, target.strides, _offset(target, starts)))
    value = work.spec.values[2] if work.spec.has(2) else None
    number = 0.0 if value is None else float(value.reshape(()))
    for axis in range(len(widths)):
        before = (0, starts[axis])
        behind = (starts[axis] + kept[axis], target.shape[axis])
        for low, high in (before, behind):
            if low < high:
                origin = [*starts[:axis], low, *(0,) * (len(widths) - axis - 1)]
                shape = (*kept[:axis], high - low, *target.shape[axis + 1 :])
                _fill(k, View(target, target.strides, _offset(target, origin)), shape, number)


def _offset(tensor: DdrTensor, index: list[int]) -> int:
    return sum(step * i for step, i in zip(tensor.strides, index, strict=True))


def _fill(k: Kernel, view: View, shape: tuple[int, ...], number: float) -> None:
    """Write one value to every element of a view."""
    if 0 in shape:
        return
    if not view.tensor.fmt.is_float:
        core.fill(k, shape, view, int(number))
        return
    space = collapse(shape, (view,))
    each = view.tensor.bytes_each
    plan = plan_slabs(space.sizes, k.budget // each // 2, k.target.tiles)
    data = k.buffer("fill", plan.elements * each)
    fmt: Format = view.tensor.fmt
    k.emit(f"td.memset.{fmt.token}", dst=data, value=number, n=plan.elements)
    with slabs(k, space, plan) as slab:
        store_slab(k, space.views[0], slab, data)
