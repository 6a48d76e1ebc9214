"""Parts of tensors that have the elements of another tensor, in another shape."""

from __future__ import annotations

import math
from collections.abc import Iterator

from compiler.graph import Box, Shape


def before_reshape(before: Shape, after: Shape, box: Box) -> Box:
    """Return the smallest box of a tensor that holds the elements of a box of its reshaped form.

    Axes are compared in the smallest groups that have as many elements in both shapes. Within a group all
    elements from the first to the last one are included, which is exact for whole rows.
    """
    intervals: list[tuple[int, int]] = [(0, 1)] * len(before)
    for own, others in _groups(before, after):
        shape = tuple(after[axis] for axis in others)
        part = Box(tuple(box.intervals[axis] for axis in others))
        first, last = ends_of(shape, part)
        found = box_between(tuple(before[axis] for axis in own), first, last)
        for axis, interval in zip(own, found.intervals, strict=True):
            intervals[axis] = interval
    return Box(tuple(intervals))


def _groups(before: Shape, after: Shape) -> Iterator[tuple[list[int], list[int]]]:
    """Yield the smallest runs of axes with equal sizes in both shapes, without the axes of one element."""
    own = [axis for axis, size in enumerate(before) if size != 1]
    others = [axis for axis, size in enumerate(after) if size != 1]
    while own:
        left, right = [own.pop(0)], [others.pop(0)]
        sizes = before[left[0]], after[right[0]]
        while sizes[0] != sizes[1]:
            shorter, axes, shape = (left, own, before) if sizes[0] < sizes[1] else (right, others, after)
            shorter.append(axes.pop(0))
            more = shape[shorter[-1]]
            sizes = (sizes[0] * more, sizes[1]) if sizes[0] < sizes[1] else (sizes[0], sizes[1] * more)
        yield left, right


def ends_of(shape: Shape, box: Box) -> tuple[int, int]:
    """Return the numbers of the first and the last element of a box, in the order of the tensor."""
    steps = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
    first = sum(begin * step for (begin, _), step in zip(box.intervals, steps, strict=True))
    last = sum((end - 1) * step for (_, end), step in zip(box.intervals, steps, strict=True))
    return first, last


def box_between(shape: Shape, first: int, last: int) -> Box:
    """Return the smallest box that contains all elements from one row-major number to another."""
    intervals: list[tuple[int, int]] = []
    for axis in range(len(shape)):
        step = math.prod(shape[axis + 1 :])
        begin, end = first // step, last // step + 1
        intervals.append((begin, end))
        if end - begin > 1:
            return Box((*intervals, *((0, size) for size in shape[axis + 1 :])))
        first, last = first % step, last % step
    return Box(tuple(intervals))
