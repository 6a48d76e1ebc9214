"""Turns of phrase that expansions share."""

from __future__ import annotations

import numpy as np

from compiler.graph import Array, Shape

from .expansion import Builder


def reshaped(b: Builder, x: str, *shape: int) -> str:
    """The same elements in another shape."""
    return b("Reshape", x, b.ints(*shape), allowzero=1)


def permuted(b: Builder, x: str, *perm: int) -> str:
    """The axes in another order."""
    return b("Transpose", x, perm=tuple(perm))


def swapped(b: Builder, x: str, axis: int) -> str:
    """``axis`` and the last one exchanged."""
    order = list(range(len(b.shape(x))))
    order[axis], order[-1] = order[-1], order[axis]
    return x if axis == len(order) - 1 else permuted(b, x, *order)


def cut(b: Builder, x: str, axis: int, start: int, end: int, step: int = 1) -> str:
    """Elements ``start`` to below ``end`` of one axis."""
    return b("Slice", x, b.ints(start), b.ints(end), b.ints(axis), b.ints(step))


def taken(b: Builder, x: str, axis: int, indices: Array) -> str:
    """Elements of one axis by known indices; runs of neighbours are moved together."""
    breaks = np.flatnonzero(np.diff(indices) != 1) + 1
    if len(breaks) >= _MOST_RUNS:
        return b("Gather", x, b.constant(indices, "int64"), axis=axis)
    runs = np.split(indices, breaks)
    pieces = [cut(b, x, axis, int(run[0]), int(run[-1]) + 1) for run in runs]
    return pieces[0] if len(pieces) == 1 else b("Concat", *pieces, axis=axis)


_MOST_RUNS = 8


def broadcast(b: Builder, x: str, shape: Shape) -> str:
    """The operand repeated to a shape."""
    return x if b.shape(x) == shape else b("Expand", x, b.ints(*shape))


def folded(b: Builder, x: str, axis: int, op: str) -> str:
    """A binary operator over all elements of an axis, in halves; the axis keeps one element."""
    while (size := b.shape(x)[axis]) > 1:
        half = size // 2
        made = b(op, cut(b, x, axis, 0, half), cut(b, x, axis, half, 2 * half))
        x = b("Concat", made, cut(b, x, axis, 2 * half, size), axis=axis) if size % 2 else made
    return x


def averaged(b: Builder, x: str, axes: tuple[int, ...]) -> str:
    """The mean over axes, which keep one element."""
    return b("ReduceMean", x, axes=axes, keepdims=1)


def normalized(b: Builder, x: str, axes: tuple[int, ...], epsilon: float) -> tuple[str, str, str]:
    """(x - mean) / sqrt(variance + epsilon); the mean; the factor."""
    mean = averaged(b, x, axes)
    centred = b("Sub", x, mean)
    variance = averaged(b, b("Mul", centred, centred), axes)
    factor = b("Reciprocal", b("Sqrt", b("Add", variance, b.like(variance, epsilon))))
    return b("Mul", centred, factor), mean, factor
