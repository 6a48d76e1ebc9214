"""Strided views: operands of attention and rotary embedding as parts of wider values."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from compiler.graph import Array, Box, Shape
from compiler.operators.boxes.reshaping import box_between
from compiler.operators.record import Call


@dataclass(frozen=True)
class StridedView:
    """Element i of a tensor of ``shape`` is element ``offset + sum(i * strides)`` of an operand."""

    offset: int
    shape: Shape
    strides: tuple[int, ...]

    @property
    def numbers(self) -> tuple[int, ...]:
        """The value of an attribute that holds the view: offset, extents, strides."""
        return (self.offset, *self.shape, *self.strides)

    @property
    def last(self) -> int:
        """The largest element number it reaches."""
        reach = zip(self.shape, self.strides, strict=True)
        return self.offset + sum((size - 1) * step for size, step in reach)

    def part(self, operand: Shape, box: Box) -> Box:
        """A box of an operand of a shape that holds what the view shows of it in a box of its own.

        Exact where every axis of the view goes along one axis of the operand.
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

    def of(self, operand: Array) -> Array:
        """The elements of an operand that it shows, read-only."""
        flat = np.ascontiguousarray(operand).reshape(-1)
        strides = [step * flat.itemsize for step in self.strides]
        return np.lib.stride_tricks.as_strided(flat[self.offset :], self.shape, strides, writeable=False)


def compact(shape: Shape) -> StridedView:
    """All elements in their order."""
    return StridedView(0, shape, tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape))))


def view_of(call: Call, index: int, attribute: str) -> StridedView:
    """The view of operand ``index`` that an attribute holds; without the attribute the whole operand."""
    numbers = call.integers(attribute)
    if not numbers:
        return compact(call.shape(index))
    rank = len(numbers) // 2
    return StridedView(numbers[0], numbers[1 : rank + 1], numbers[rank + 1 :])
