"""Building blocks of expansions: moving, slicing and folding a value.

Each adds nodes to a builder and returns the name of the new value.
"""

from __future__ import annotations

import numpy as np

from compiler.graph import Array, Shape

from .builder import Builder

_MOST_RUNS = 8
"""More runs of neighbours than this are gathered element by element."""


def reshaped(build: Builder, value: str, *shape: int) -> str:
    """Reshape a value to ``shape``."""
    return build("Reshape", value, build.ints(*shape), allowzero=1)


def permuted(build: Builder, value: str, *perm: int) -> str:
    """Permute the axes."""
    return build("Transpose", value, perm=tuple(perm))


def swapped(build: Builder, value: str, axis: int) -> str:
    """Exchange ``axis`` and the last axis."""
    order = list(range(len(build.shape(value))))
    order[axis], order[-1] = order[-1], order[axis]
    return value if axis == len(order) - 1 else permuted(build, value, *order)


def sliced(build: Builder, value: str, axis: int, start: int, end: int, step: int = 1) -> str:
    """Slice elements ``start`` to below ``end`` of one axis."""
    return build("Slice", value, build.ints(start), build.ints(end), build.ints(axis), build.ints(step))


def gathered(build: Builder, value: str, axis: int, indices: Array) -> str:
    """Gather elements of one axis by known indices; runs of neighbours are moved together.

    If there are many runs, for example of an image continued by its mirror image, only a very long one is
    moved as a whole.
    """
    breaks = np.flatnonzero(np.diff(indices) != 1) + 1
    runs = np.split(indices, breaks)
    if len(breaks) >= _MOST_RUNS:
        return _around_the_longest(build, value, axis, runs)
    pieces = [sliced(build, value, axis, int(run[0]), int(run[-1]) + 1) for run in runs]
    return pieces[0] if len(pieces) == 1 else build("Concat", *pieces, axis=axis)


def _around_the_longest(build: Builder, value: str, axis: int, runs: list[Array]) -> str:
    """Gather many runs: the longest is moved as a whole if it has over half of the elements."""
    longest = int(np.argmax([len(run) for run in runs]))
    total = sum(len(run) for run in runs)
    if 2 * len(runs[longest]) <= total:
        return build("Gather", value, build.constant(np.concatenate(runs), "int64"), axis=axis)
    groups = (runs[:longest], [runs[longest]], runs[longest + 1 :])
    pieces = [gathered(build, value, axis, np.concatenate(group)) for group in groups if group]
    return build("Concat", *pieces, axis=axis)


def broadcast(build: Builder, value: str, shape: Shape) -> str:
    """Broadcast the value to a shape."""
    return value if build.shape(value) == shape else build("Expand", value, build.ints(*shape))


def folded(build: Builder, value: str, axis: int, op: str) -> str:
    """Fold an axis to one element by a binary operator, whose operands are its halves, repeatedly."""
    while (size := build.shape(value)[axis]) > 1:
        half = size // 2
        halves = (sliced(build, value, axis, 0, half), sliced(build, value, axis, half, 2 * half))
        pairs = build(op, *halves)
        if size % 2:
            pairs = build("Concat", pairs, sliced(build, value, axis, 2 * half, size), axis=axis)
        value = pairs
    return value


def averaged(build: Builder, value: str, axes: tuple[int, ...]) -> str:
    """Return the mean over axes, which keep one element."""
    return build("ReduceMean", value, axes=axes, keepdims=1)


def moments(build: Builder, value: str, axes: tuple[int, ...]) -> tuple[str, str, str]:
    """Return the mean over axes, which keep one element; the value minus the mean; the variance."""
    mean = averaged(build, value, axes)
    centred = build("Sub", value, mean)
    return mean, centred, averaged(build, build("Mul", centred, centred), axes)


def inverse_deviation(build: Builder, variance: str, epsilon: float) -> str:
    """Return 1 / sqrt(variance + epsilon)."""
    return build("Reciprocal", build("Sqrt", build("Add", variance, build.like(variance, epsilon))))


def standardized(build: Builder, value: str, axes: tuple[int, ...], epsilon: float) -> tuple[str, str, str]:
    """Return (value - mean) / sqrt(variance + epsilon) over axes; the mean; the factor 1 / sqrt(...)."""
    mean, centred, variance = moments(build, value, axes)
    factor = inverse_deviation(build, variance, epsilon)
    return build("Mul", centred, factor), mean, factor
