"""Removes operators that change nothing or cancel: copies, reshapes of reshapes, transposes of transposes."""

from __future__ import annotations

import math

import numpy as np

from compiler.graph import Node
from compiler.operators.elements.casting import cast_dtype
from compiler.operators.expansion.parts import reshaped, sliced
from compiler.operators.shapes.movement import permutation
from compiler.rewrite.engine import RESHAPES, Replacement, Rewrite, RewrittenGraph, replacement


def _copy(graph: RewrittenGraph, node: Node) -> Replacement | None:
    """A copy is dropped, except an Identity that makes an output of the graph."""
    if node.op == "Identity" and node.outputs[0] in graph.outputs:
        return None
    if node.op == "Cast" and cast_dtype(graph.call(node)) != graph.tensor(node.inputs[0]).dtype:
        return None
    return Replacement((), node.inputs[0])


def _neutral(graph: RewrittenGraph, node: Node) -> Replacement | None:
    """A product or quotient with 1, a sum or difference with 0, is its operand."""
    neutral = 1.0 if node.op in ("Mul", "Div") else 0.0
    x, other = node.inputs
    if node.op in ("Mul", "Add") and graph.number(x) is not None:
        x, other = other, x
    if graph.number(other) != neutral or graph.shape(x) != graph.shape(node.outputs[0]):
        return None
    return Replacement((), x)


def _whole(graph: RewrittenGraph, node: Node) -> Replacement | None:
    """An Expand to the present shape, and a Slice that takes everything in order, are their operand."""
    x = node.inputs[0]
    if graph.shape(x) != graph.shape(node.outputs[0]):
        return None
    if node.op == "Slice" and len(node.inputs) > 4 and node.inputs[4]:
        steps = graph.array(node.inputs[4])
        if steps is None or np.any(steps < 0):
            return None
    return Replacement((), x)


def _limit(graph: RewrittenGraph, node: Node) -> Replacement | None:
    """The larger of a value and minus infinity, or the smaller of it and infinity, is the value."""
    found = graph.with_number(node) if len(node.inputs) == 2 else None
    if found is None or found[1] != (-math.inf if node.op == "Max" else math.inf):
        return None
    return Replacement((), found[0])


def _shape(graph: RewrittenGraph, node: Node) -> Replacement | None:
    """Erase all but the last of several successive reshapes."""
    x, shape = node.inputs[0], graph.shape(node.outputs[0])
    if graph.shape(x) == shape:
        return Replacement((), x)
    inner = graph.producer(x, *RESHAPES)
    if inner is None:
        return None
    build = graph.builder(node)
    return replacement(build, reshaped(build, inner.inputs[0], *shape))


def _transpose(graph: RewrittenGraph, node: Node) -> Replacement | None:
    """Two consecutive transposes become one or none; one that only moves axes of size 1 becomes a reshape."""
    perm, x = permutation(graph.call(node)), node.inputs[0]
    inner = graph.producer(x, "Transpose")
    before = permutation(graph.call(inner)) if inner is not None else None
    if inner is not None and before is not None:
        perm, x = tuple(before[axis] for axis in perm), inner.inputs[0]
    if perm == tuple(range(len(perm))):
        return Replacement((), x)
    build = graph.builder(node)
    moved = [axis for axis in perm if graph.shape(x)[axis] != 1]
    if moved == sorted(moved):
        return replacement(build, reshaped(build, x, *graph.shape(node.outputs[0])))
    return replacement(build, build("Transpose", x, perm=perm)) if inner is not None else None


def _transpose_of_ones(graph: RewrittenGraph, node: Node) -> Replacement | None:
    """Two transposes between which only axes of size 1 are added or removed are one transpose."""
    shaped = graph.sole_producer(node.inputs[0], *RESHAPES)
    inner = graph.sole_producer(shaped.inputs[0], "Transpose") if shaped is not None else None
    if shaped is None or inner is None:
        return None
    before, after = graph.shape(shaped.inputs[0]), graph.shape(node.inputs[0])
    if [size for size in before if size != 1] != [size for size in after if size != 1]:
        return None
    x = inner.inputs[0]
    first, second = permutation(graph.call(inner)), permutation(graph.call(node))
    moved = [first[axis] for axis, size in enumerate(before) if size != 1]
    at = [axis for axis, size in enumerate(after) if size != 1]
    sources = [moved[at.index(axis)] for axis in second if after[axis] != 1]
    build, kept = graph.builder(node), sorted(sources)
    value = reshaped(build, x, *(graph.shape(x)[axis] for axis in kept))
    if sources != kept:
        value = build("Transpose", value, perm=tuple(kept.index(axis) for axis in sources))
    return replacement(build, reshaped(build, value, *graph.shape(node.outputs[0])))


def _channels_of_a_line(graph: RewrittenGraph, node: Node) -> Replacement | None:
    """The channels of an image of one row or column are moved last before it loses that axis.

    Images can be stored with their channels last, so that such a transpose moves nothing.
    """
    shaped = graph.sole_producer(node.inputs[0], *RESHAPES)
    if shaped is None or permutation(graph.call(node)) != (0, 2, 1):
        return None
    x = shaped.inputs[0]
    before, after = graph.shape(x), graph.shape(node.inputs[0])
    if len(before) != 4 or graph.producer(x, *_OF_IMAGES) is None or 1 not in before[2:]:
        return None
    if after != (before[0], before[1], math.prod(before[2:])):
        return None
    build = graph.builder(node)
    last = build("Transpose", x, perm=(0, 2, 3, 1))
    return replacement(build, reshaped(build, last, *graph.shape(node.outputs[0])))


_OF_IMAGES = ("Conv", "MaxPool", "AveragePool")
"""Operators whose results are images."""


def _shape_before_transpose(graph: RewrittenGraph, node: Node) -> Replacement | None:
    """A reshape of the outer axes after a transpose of the inner ones is moved before it."""
    inner = graph.sole_producer(node.inputs[0], "Transpose")
    if inner is None or graph.producer(inner.inputs[0], *RESHAPES) is None:
        return None
    perm, before, after = (
        permutation(graph.call(inner)),
        graph.shape(inner.inputs[0]),
        graph.shape(node.outputs[0]),
    )
    fixed = next((axis for axis, moved in enumerate(perm) if moved != axis), len(perm))
    own = len(perm) - fixed  # axes that the transpose moves
    if not fixed or len(after) <= own or after[-own:] != tuple(before[axis] for axis in perm[fixed:]):
        return None
    build, lead = graph.builder(node), len(after) - own
    x = reshaped(build, inner.inputs[0], *after[:lead], *before[fixed:])
    return replacement(
        build, build("Transpose", x, perm=(*range(lead), *(axis - fixed + lead for axis in perm[fixed:])))
    )


def _taken(graph: RewrittenGraph, node: Node) -> Replacement | None:
    """A Gather with known indices in equal steps is a Slice."""
    x, indices = node.inputs[0], graph.array(node.inputs[1])
    if indices is None or indices.size == 0 or x in graph.constants:
        return None
    axis = graph.call(node).integer("axis") % len(graph.shape(x))
    flat = indices.reshape(-1) % graph.shape(x)[axis]
    steps = np.diff(flat)
    if steps.size and (steps[0] <= 0 or np.any(steps != steps[0])):
        return None
    build = graph.builder(node)
    part = sliced(build, x, axis, int(flat[0]), int(flat[-1]) + 1, int(steps[0]) if steps.size else 1)
    return replacement(
        build, part if indices.ndim == 1 else reshaped(build, part, *graph.shape(node.outputs[0]))
    )


def _taken_by_rows(graph: RewrittenGraph, node: Node) -> Replacement | None:
    """A GatherND of everything in order is a Reshape.

    One along a single axis is a Gather. Indices are known.
    """
    x, indices, shape = node.inputs[0], graph.array(node.inputs[1]), graph.shape(node.inputs[0])
    if indices is None or indices.size == 0 or x in graph.constants or graph.call(node).integer("batch_dims"):
        return None
    depth = indices.shape[-1]
    places = np.moveaxis(indices, -1, 0).reshape(depth, -1) % np.array(shape[:depth])[:, None]
    flat = np.ravel_multi_index(tuple(places), shape[:depth])
    build = graph.builder(node)
    if np.array_equal(flat, np.arange(math.prod(shape[:depth]))):
        return replacement(build, reshaped(build, x, *graph.shape(node.outputs[0])))
    return (
        replacement(build, build("Gather", x, build.constant(indices[..., 0], "int64"), axis=0))
        if depth == 1
        else None
    )


REWRITES = (
    Rewrite("copy", ("Identity", "Dropout", "Cast"), _copy),
    Rewrite("neutral", ("Mul", "Div", "Add", "Sub"), _neutral),
    Rewrite("whole", ("Expand", "Slice"), _whole),
    Rewrite("limit", ("Max", "Min"), _limit),
    Rewrite("shape", RESHAPES, _shape),
    Rewrite("shape-after-transpose", RESHAPES, _shape_before_transpose),
    Rewrite("gather", ("Gather",), _taken),
    Rewrite("gather-rows", ("GatherND",), _taken_by_rows),
    Rewrite("channels-of-a-line", ("Transpose",), _channels_of_a_line),
    Rewrite("transpose", ("Transpose",), _transpose),
    Rewrite("transpose-of-ones", ("Transpose",), _transpose_of_ones),
)
