"""Operators that change nothing or undo each other: copies, shapes of shapes, transposes of transposes."""

from __future__ import annotations

import math

import numpy as np

from compiler.graph import Node
from compiler.operators.elements.casting import cast_dtype
from compiler.operators.expansion.parts import reshaped, sliced
from compiler.operators.shapes.movement import permutation

from .engine import Replacement, Rewrite, Rewriting, made

_SHAPES = ("Reshape", "Flatten", "Squeeze", "Unsqueeze")


def _copy(graph: Rewriting, node: Node) -> Replacement | None:
    """An Identity remains where an output of the graph needs a node of its own."""
    if node.op == "Identity" and node.outputs[0] in graph.outputs:
        return None
    if node.op == "Cast" and cast_dtype(graph.call(node)) != graph.tensor(node.inputs[0]).dtype:
        return None
    return Replacement((), node.inputs[0])


def _neutral(graph: Rewriting, node: Node) -> Replacement | None:
    """Times 1, divided by 1, plus 0, minus 0."""
    neutral = 1.0 if node.op in ("Mul", "Div") else 0.0
    x, other = node.inputs
    if node.op in ("Mul", "Add") and graph.number(x) is not None:
        x, other = other, x
    if graph.number(other) != neutral or graph.shape(x) != graph.shape(node.outputs[0]):
        return None
    return Replacement((), x)


def _shape(graph: Rewriting, node: Node) -> Replacement | None:
    """The last of several shapes is the one that counts."""
    x, shape = node.inputs[0], graph.shape(node.outputs[0])
    if graph.shape(x) == shape:
        return Replacement((), x)
    inner = graph.maker(x, *_SHAPES)
    if inner is None:
        return None
    build = graph.builder(node)
    return made(build, reshaped(build, inner.inputs[0], *shape))


def _transpose(graph: Rewriting, node: Node) -> Replacement | None:
    """Transposes in a row are one, or none, or a change of shape."""
    perm, x = permutation(graph.call(node)), node.inputs[0]
    inner = graph.maker(x, "Transpose")
    before = permutation(graph.call(inner)) if inner is not None else None
    if inner is not None and before is not None:
        perm, x = tuple(before[axis] for axis in perm), inner.inputs[0]
    if perm == tuple(range(len(perm))):
        return Replacement((), x)
    build = graph.builder(node)
    moved = [axis for axis in perm if graph.shape(x)[axis] != 1]
    if moved == sorted(moved):
        return made(build, reshaped(build, x, *graph.shape(node.outputs[0])))
    return made(build, build("Transpose", x, perm=perm)) if inner is not None else None


def _shape_behind(graph: Rewriting, node: Node) -> Replacement | None:
    """Matrices numbered by one axis while they are transposed keep their axes: the shape comes first."""
    inner = graph.sole(node.inputs[0], "Transpose")
    if inner is None or graph.maker(inner.inputs[0], *_SHAPES) is None:
        return None
    perm, before, after = (
        permutation(graph.call(inner)),
        graph.shape(inner.inputs[0]),
        graph.shape(node.outputs[0]),
    )
    fixed = next((axis for axis, moved in enumerate(perm) if moved != axis), len(perm))
    own = len(perm) - fixed  # axes that change places
    if not fixed or len(after) <= own or after[-own:] != tuple(before[axis] for axis in perm[fixed:]):
        return None
    build, lead = graph.builder(node), len(after) - own
    x = reshaped(build, inner.inputs[0], *after[:lead], *before[fixed:])
    return made(
        build, build("Transpose", x, perm=(*range(lead), *(axis - fixed + lead for axis in perm[fixed:])))
    )


def _taken(graph: Rewriting, node: Node) -> Replacement | None:
    """Known neighbours along an axis, or elements in equal steps, are a slice of it."""
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
    return made(build, part if indices.ndim == 1 else reshaped(build, part, *graph.shape(node.outputs[0])))


def _taken_by_rows(graph: Rewriting, node: Node) -> Replacement | None:
    """A GatherND by known indices of everything in its order is a shape; by those of one axis a Gather."""
    x, indices, shape = node.inputs[0], graph.array(node.inputs[1]), graph.shape(node.inputs[0])
    if indices is None or indices.size == 0 or x in graph.constants or graph.call(node).integer("batch_dims"):
        return None
    depth = indices.shape[-1]
    places = np.moveaxis(indices, -1, 0).reshape(depth, -1) % np.array(shape[:depth])[:, None]
    flat = np.ravel_multi_index(tuple(places), shape[:depth])
    build = graph.builder(node)
    if np.array_equal(flat, np.arange(math.prod(shape[:depth]))):
        return made(build, reshaped(build, x, *graph.shape(node.outputs[0])))
    return (
        made(build, build("Gather", x, build.constant(indices[..., 0], "int64"), axis=0))
        if depth == 1
        else None
    )


REWRITES = (
    Rewrite("copy", ("Identity", "Dropout", "Cast"), _copy),
    Rewrite("neutral", ("Mul", "Div", "Add", "Sub"), _neutral),
    Rewrite("shape", _SHAPES, _shape),
    Rewrite("shape-behind-transpose", _SHAPES, _shape_behind),
    Rewrite("gather", ("Gather",), _taken),
    Rewrite("gather-rows", ("GatherND",), _taken_by_rows),
    Rewrite("transpose", ("Transpose",), _transpose),
)
