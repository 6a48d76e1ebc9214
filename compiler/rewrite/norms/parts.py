"""Recognises the parts of normalizations: squares, roots, means and variances, in any shape.

A reduction keeps its axes or drops them, and exporters reshape and repeat its result until it broadcasts.
"""

from __future__ import annotations

import numpy as np

from compiler.graph import Array
from compiler.operators.reductions.axes import reduced_axes
from compiler.rewrite.engine import RESHAPES, RewrittenGraph

Reduced = tuple[str, tuple[int, ...]]
"""The reduced value, and the axes."""


def square(graph: RewrittenGraph, name: str) -> str | None:
    """Return x, if the value is x * x or x**2."""
    node = graph.producer(name, "Pow", "Mul")
    if node is None:
        return None
    squared = (
        node.inputs[0] == node.inputs[1] if node.op == "Mul" else graph.is_number(node.inputs[1], 2.0, 0.0)
    )
    return node.inputs[0] if squared else None


def root(graph: RewrittenGraph, name: str) -> str | None:
    """Return v, if the value is the square root of v."""
    node = graph.producer(name, "Sqrt", "Pow")
    if node is None:
        return None
    return node.inputs[0] if node.op == "Sqrt" or graph.is_number(node.inputs[1], 0.5, 0.0) else None


def inverse_root(graph: RewrittenGraph, name: str) -> str | None:
    """Return v, if the value is 1 / sqrt(v)."""
    node = graph.producer(name, "Reciprocal", "Pow", "Div")
    if node is None:
        return None
    if node.op == "Pow":
        return node.inputs[0] if graph.is_number(node.inputs[1], -0.5, 0.0) else None
    if node.op == "Reciprocal":
        return root(graph, node.inputs[0])
    return root(graph, node.inputs[1]) if graph.is_number(node.inputs[0], 1.0, 0.0) else None


def shown(graph: RewrittenGraph, name: str) -> str:
    """Return the value before reshapes and repetitions; ``kept`` is True if these change nothing."""
    while (node := graph.producer(name, *RESHAPES, "Expand")) is not None:
        name = node.inputs[0]
    return name


def kept(graph: RewrittenGraph, name: str, reduced: Reduced) -> bool:
    """Return True if a value has one number of a reduction at every index that it keeps.

    Its shape is the reduction's, with or without the reduced axes; or, once repeated along them, the shape of
    the reduced value. The same holds for all values that ``shown`` looks through.
    """
    full, axes = graph.shape(reduced[0]), reduced[1]
    ones = tuple(1 if axis in axes else size for axis, size in enumerate(full))
    dropped = tuple(size for axis, size in enumerate(full) if axis not in axes)
    while True:
        node = graph.producer(name, *RESHAPES, "Expand")
        allowed = (ones, full) if node is not None and node.op == "Expand" else (ones, dropped)
        if graph.shape(name) not in allowed:
            return False
        if node is None:
            return True
        name = node.inputs[0]
        if node.op == "Expand" and graph.shape(name) != ones:
            return False


def broadcasts(graph: RewrittenGraph, name: str, reduced: Reduced) -> bool:
    """Return True if a ``kept`` value pairs with the reduced value index by index, as operands of one
    operator."""
    full, axes = graph.shape(reduced[0]), reduced[1]
    ones = tuple(1 if axis in axes else size for axis, size in enumerate(full))
    return graph.shape(name) in (ones, full) and kept(graph, name, reduced)


def mean_of(graph: RewrittenGraph, name: str) -> Reduced | None:
    """Return the value whose mean this one is, and the axes."""
    node = graph.producer(shown(graph, name), "ReduceMean")
    if node is None:
        return None
    found = node.inputs[0], reduced_axes(graph.call(node))
    return found if kept(graph, name, found) else None


def centred(graph: RewrittenGraph, name: str) -> Reduced | None:
    """Return x and axes, if the value is x minus its mean."""
    node = graph.producer(name, "Sub")
    mean = mean_of(graph, node.inputs[1]) if node is not None else None
    if node is None or mean is None or mean[0] != node.inputs[0]:
        return None
    return mean if broadcasts(graph, node.inputs[1], mean) else None


def variance_of(graph: RewrittenGraph, name: str) -> Reduced | None:
    """Return x and axes, if the value is the mean of (x - mean)², or of x² minus the square of the mean."""
    inner = shown(graph, name)
    limited = graph.producer(inner, "Max")
    if limited is not None and len(limited.inputs) == 2:
        given = graph.with_number(limited)
        if given is None or given[1] != 0.0:
            return None
        inner = shown(graph, given[0])
    found = _mean_of_squares(graph, inner) or _difference_of_moments(graph, inner)
    return found if found is not None and kept(graph, name, found) else None


def _mean_of_squares(graph: RewrittenGraph, name: str) -> Reduced | None:
    mean = mean_of(graph, name)
    deviation = square(graph, mean[0]) if mean is not None else None
    found = centred(graph, deviation) if deviation is not None else None
    return found if mean is not None and found is not None and found[1] == mean[1] else None


def _difference_of_moments(graph: RewrittenGraph, name: str) -> Reduced | None:
    node = graph.producer(name, "Sub")
    second = mean_of(graph, node.inputs[0]) if node is not None else None
    squared = square(graph, second[0]) if second is not None else None
    if node is None or second is None or squared is None:
        return None
    first = square(graph, shown(graph, node.inputs[1]))
    mean = mean_of(graph, first) if first is not None else None
    return mean if mean == (squared, second[1]) else None


def along(array: Array, shape: tuple[int, ...], axes: tuple[int, ...]) -> Array | None:
    """Return a constant that broadcasts to ``shape`` as an array over ``axes``; None if other axes vary."""
    if array.ndim > len(shape):
        return None
    whole = np.asarray(array, np.float64).reshape((1,) * (len(shape) - array.ndim) + array.shape)
    if any(size != 1 and axis not in axes for axis, size in enumerate(whole.shape)):
        return None
    inner = tuple(whole.shape[axis] for axis in axes)
    return np.broadcast_to(whole.reshape(inner), tuple(shape[axis] for axis in axes))
