"""Strided views: operands of attention and rotary embedding as parts of wider values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from compiler.graph import Array, Box, Shape
from compiler.operators.boxes.reshaping import box_between
from compiler.operators.record import Call


@dataclass(frozen=True)
class StridedView:
    """A view: element i of a tensor of ``shape`` is element ``offset + sum(i * strides)`` of an operand."""

    offset: int
    shape: Shape
    strides: tuple[int, ...]

    @property
    def numbers(self) -> tuple[int, ...]:
        """The value of an attribute that holds the view: offset, extents, strides."""
        return (self.offset, *self.shape, *self.strides)

    @property
    def last(self) -> int:
        """The largest element number that the view reaches."""
        reach = zip(self.shape, self.strides, strict=True)
        return self.offset + sum((size - 1) * step for size, step in reach)

    def part(self, operand: Shape, box: Box) -> Box:
        """Return a box of an operand that holds the elements in a box of the view.

        It is exact if every axis of the view runs along one axis of the operand.
        """
        steps = compact(operand).strides
        low = [self.offset // step % size for step, size in zip(steps, operand, strict=True)]
        high, first, last = list(low), self.offset, self.offset
        for (begin, end), stride in zip(box.intervals, self.strides, strict=True):
            first, last = first + begin * stride, last + (end - 1) * stride
            axis = next(at for at, step in enumerate(steps) if step <= max(stride, 1))
            often = stride // steps[axis]
            low[axis] += begin * often
            high[axis] += (end - 1) * often + (operand[axis] if stride % steps[axis] else 0)
        if any(place >= size for place, size in zip(high, operand, strict=True)):
            return box_between(operand, first, last)
        return Box(tuple((begin, end + 1) for begin, end in zip(low, high, strict=True)))

    def transposed(self, order: Sequence[int]) -> StridedView:
        """Return the view with its axes in another order."""
        shape, strides = (tuple(of[axis] for axis in order) for of in (self.shape, self.strides))
        return StridedView(self.offset, shape, strides)

    def expanded(self, shape: Shape) -> StridedView:
        """Repeat axes of one element as in ``shape``, after adding new axes before them."""
        new = len(shape) - len(self.shape)
        old = zip((1,) * new + self.shape, (0,) * new + self.strides, shape, strict=True)
        return StridedView(
            self.offset, shape, tuple(step if size == wanted else 0 for size, step, wanted in old)
        )

    def sliced(self, ranges: Sequence[range]) -> StridedView | None:
        """Slice every axis; None for empty parts and negative steps."""
        if any(taken.step < 0 or not taken for taken in ranges):
            return None
        starts = (taken.start * step for taken, step in zip(ranges, self.strides, strict=True))
        strides = tuple(taken.step * step for taken, step in zip(ranges, self.strides, strict=True))
        return StridedView(self.offset + sum(starts), tuple(map(len, ranges)), strides)

    def reshaped(self, shape: Shape) -> StridedView | None:
        """Return the view in another shape; None if the new axes have no strides.

        Axes of both shapes are compared, beginning with the first. An axis of one element has the stride that
        it would have with more elements. So the stride has one formula if the extent of that axis is dynamic.
        """
        old, new = list(zip(self.shape, self.strides, strict=True)), list(shape)
        strides: list[int] = []
        while old and new:
            merged, split = old.pop(0), [new.pop(0)]
            while merged[0] != math.prod(split):
                if merged[0] > math.prod(split):
                    split.append(new.pop(0))
                    continue
                both = _merged(merged, old.pop(0))
                if both is None:
                    return None
                merged = both
            strides += [merged[1] * math.prod(split[axis + 1 :]) for axis in range(len(split))]
        last = strides[-1:] or [1]
        return StridedView(self.offset, shape, (*strides, *last * len(new)))

    def of(self, operand: Array) -> Array:
        """Return the elements of an operand that the view shows, read-only."""
        flat = np.ascontiguousarray(operand).reshape(-1)
        strides = [step * flat.itemsize for step in self.strides]
        return np.lib.stride_tricks.as_strided(flat[self.offset :], self.shape, strides, writeable=False)


def _merged(outer: tuple[int, int], inner: tuple[int, int]) -> tuple[int, int] | None:
    """Merge two axes, given by extent and stride; None if the result has no stride."""
    if 1 in (outer[0], inner[0]):
        return inner if outer[0] == 1 else outer
    return (outer[0] * inner[0], inner[1]) if outer[1] == inner[0] * inner[1] else None


def compact(shape: Shape) -> StridedView:
    """Return the view of all elements in their order."""
    return StridedView(0, shape, tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape))))


def view_of(call: Call, index: int, attribute: str) -> StridedView:
    """Return the view of operand ``index`` in an attribute; without the attribute the whole operand."""
    numbers = call.integers(attribute)
    if not numbers:
        return compact(call.shape(index))
    rank = len(numbers) // 2
    return StridedView(numbers[0], numbers[1 : rank + 1], numbers[rank + 1 :])
