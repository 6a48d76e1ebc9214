"""Blocks under other shapes: repeated, with more axes, transposed, reshaped."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from compiler.frontend.triton.kernels.values import (
    STILL,
    Indices,
    KernelValue,
    Pointers,
    Region,
    Shape,
    Span,
    Splat,
    SpmBlock,
    UnsupportedOperation,
    everywhere,
)

from .blocks import BlockCode
from .exchange import exchange


def splat(value: KernelValue, shape: Shape) -> KernelValue:
    """Return a scalar as a block of equal elements."""
    if isinstance(value, Indices):
        return Indices(value.offset, (STILL,) * len(shape), shape)
    if isinstance(value, Pointers):
        return replace(value, indices=Indices(value.indices.offset, (STILL,) * len(shape), shape))
    if isinstance(value, Region):
        return replace(everywhere(shape), conditions=value.conditions)
    if isinstance(value, Splat):
        return replace(value, shape=shape)
    assert isinstance(value, SpmBlock)
    return value.viewed(shape, (False,) * len(shape))


def expand_dims(value: KernelValue, axis: int) -> KernelValue:
    """Add an axis of extent 1."""
    shape: Shape = (*value.shape[:axis], 1, *value.shape[axis:])
    if isinstance(value, Pointers):
        indices = expand_dims(value.indices, axis)
        assert isinstance(indices, Indices)
        return replace(value, indices=indices)
    if isinstance(value, Indices):
        return replace(value, axes=(*value.axes[:axis], STILL, *value.axes[axis:]), shape=shape)
    if isinstance(value, Region):
        return replace(value, spans=(*value.spans[:axis], Span(0, 1), *value.spans[axis:]), shape=shape)
    if isinstance(value, Splat):
        return replace(value, shape=shape)
    assert isinstance(value, SpmBlock)
    return value.viewed(shape, (*value.stored[:axis], False, *value.stored[axis:]))


def without_axis(value: KernelValue, axis: int) -> KernelValue:
    """Remove an axis of extent 1."""
    shape: Shape = (*value.shape[:axis], *value.shape[axis + 1 :])
    if isinstance(value, Pointers):
        indices = without_axis(value.indices, axis)
        assert isinstance(indices, Indices)
        return replace(value, indices=indices)
    if isinstance(value, Indices):
        steps = value.axes[axis]
        offset = value.offset + steps.start * steps.step if steps.modulus else value.offset
        return Indices(offset, (*value.axes[:axis], *value.axes[axis + 1 :]), shape)
    if isinstance(value, Region):
        span, spans = value.spans[axis], (*value.spans[:axis], *value.spans[axis + 1 :])
        more = () if value.whole(axis) else ((span.low, 1), (0, span.high))
        return Region(spans, (*value.conditions, *more), shape)
    if isinstance(value, Splat):
        return replace(value, shape=shape)
    assert isinstance(value, SpmBlock)
    return value.viewed(shape, (*value.stored[:axis], *value.stored[axis + 1 :]))


def with_unit_axes(value: KernelValue, shape: Shape) -> KernelValue:
    """Reshape a value to a shape that differs only in axes of extent 1."""
    for axis in reversed([axis for axis, extent in enumerate(value.shape) if extent == 1]):
        value = without_axis(value, axis)
    for axis in [axis for axis, extent in enumerate(shape) if extent == 1]:
        value = expand_dims(value, axis)
    return value


def broadcast(value: KernelValue, shape: Shape) -> KernelValue:
    """Repeat axes of extent 1."""
    if isinstance(value, Pointers):
        indices = broadcast(value.indices, shape)
        assert isinstance(indices, Indices)
        return replace(value, indices=indices)
    repeated = [old == 1 < new for old, new in zip(value.shape, shape, strict=True)]
    if isinstance(value, Indices):
        offset, axes = value.offset, list(value.axes)
        for number, axis in enumerate(value.axes):
            if repeated[number]:
                offset = offset + axis.start * axis.step if axis.modulus else offset
                axes[number] = STILL
        return Indices(offset, tuple(axes), shape)
    if isinstance(value, Region):
        return _broadcast_region(value, shape, repeated)
    if isinstance(value, Splat):
        return replace(value, shape=shape)
    assert isinstance(value, SpmBlock)
    stored = tuple(kept and not again for kept, again in zip(value.stored, repeated, strict=True))
    return value.viewed(shape, stored)


def _broadcast_region(value: Region, shape: Shape, repeated: Sequence[bool]) -> Region:
    """Broadcast a mask.

    The bounds of a repeated axis hold for all its indices or none, so they become conditions.
    """
    spans, conditions = [], list(value.conditions)
    for axis, (span, extent) in enumerate(zip(value.spans, shape, strict=True)):
        if repeated[axis] and not value.whole(axis):
            conditions.append((span.low, span.high))
        spans.append(Span(0, extent) if repeated[axis] else span)
    return Region(tuple(spans), tuple(conditions), shape)


class ShapeCode:
    """Writes transposes and reshapes with the blocks of a kernel."""

    def __init__(self, blocks: BlockCode) -> None:
        self.blocks = blocks

    def transpose(self, value: KernelValue, order: Sequence[int]) -> KernelValue:
        """Permute the axes."""
        if sorted(order) != list(range(len(value.shape))):
            raise UnsupportedOperation(f"order {tuple(order)} of a block with {len(value.shape)} axes")
        shape = tuple(value.shape[axis] for axis in order)
        if isinstance(value, Pointers):
            return replace(value, indices=_permuted(value.indices, order, shape))
        if isinstance(value, Indices):
            return _permuted(value, order, shape)
        if isinstance(value, Region):
            return replace(value, spans=tuple(value.spans[axis] for axis in order), shape=shape)
        if isinstance(value, Splat):
            return replace(value, shape=shape)
        assert isinstance(value, SpmBlock)
        if [axis for axis in order if value.kept[axis] > 1] == _long_axes(value):
            return value.viewed(shape, tuple(value.stored[axis] for axis in order))
        if len(order) != 2:
            return self._moved(self.blocks.full(value), order)
        return self.blocks.as_stored(value) if value.turned else turned(value)

    def _moved(self, data: SpmBlock, order: Sequence[int]) -> SpmBlock:
        """Permute the axes of a written-out block: one after the other moves forward."""
        axes = list(range(len(order)))
        for place, axis in enumerate(order):
            at = axes.index(axis)
            if at == place:
                continue
            extents = [data.shape[each] for each in axes]
            outer, rows = math.prod(extents[:place]), math.prod(extents[place:at])
            columns, inner = extents[at], math.prod(extents[at + 1 :])
            moved = self.blocks.empty(data.element, data.fmt, data.shape, data.stored)
            exchange(self.blocks.kernel, moved, data, (outer, rows, columns), inner)
            axes.insert(place, axes.pop(at))
            data = moved
        shape = tuple(data.shape[axis] for axis in order)
        return data.viewed(shape, (True,) * len(shape))

    def reshape(self, value: KernelValue, shape: Shape) -> KernelValue:
        """Return the elements in their row-major order under another shape."""
        if math.prod(value.shape) != math.prod(shape):
            raise UnsupportedOperation(f"{value.shape} as {shape}: other numbers of elements")
        if isinstance(value, Splat):
            return replace(value, shape=shape)
        if isinstance(value, Indices) and value.uniform:
            return Indices(value.offset, (STILL,) * len(shape), shape)
        if isinstance(value, SpmBlock):
            return self.blocks.full(value).viewed(shape, (True,) * len(shape))
        raise UnsupportedOperation("a reshape of positions; supported is one of numbers")


def turned(value: SpmBlock) -> SpmBlock:
    """Return the transpose of a matrix, without moving it."""
    whole = all(kept or extent == 1 for kept, extent in zip(value.stored, value.shape, strict=True))
    shape, stored = value.shape[::-1], value.stored[::-1]
    return replace(value, shape=shape, stored=stored, turned=whole and min(shape) > 1)


def _long_axes(value: SpmBlock) -> list[int]:
    return [axis for axis, extent in enumerate(value.kept) if extent > 1]


def _permuted(value: Indices, order: Sequence[int], shape: Shape) -> Indices:
    return Indices(value.offset, tuple(value.axes[axis] for axis in order), shape)
