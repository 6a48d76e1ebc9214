"""Tensors that are stacked along a new last axis, as layouts with the channels last do, and transposed later.

Such a Concat writes single elements, far apart. Stacked along the first axis they are written contiguously.
One transpose then moves the new axis last, and often cancels another one that moves it first again.
"""

from __future__ import annotations

import math

from compiler.graph import Node
from compiler.operators.expansion.parts import permuted, reshaped
from compiler.operators.shapes.movement import permutation
from compiler.rewrite.engine import Replacement, Rewrite, RewrittenGraph, replacement


def _stacked(graph: RewrittenGraph, node: Node) -> Replacement | None:
    """A Concat along a last axis of size 1 becomes one along the first axis, followed by a transpose."""
    shape = graph.shape(node.outputs[0])
    last = len(shape) - 1
    if graph.call(node).integer("axis") % len(shape) != last or len(node.inputs) < 2:
        return None
    if any(graph.shape(name)[last] != 1 for name in node.inputs) or math.prod(shape[:last]) == 1:
        return None
    build, rest = graph.builder(node), shape[:last]
    parts = [reshaped(build, name, 1, *rest) for name in node.inputs]
    return replacement(build, permuted(build, build("Concat", *parts, axis=0), *range(1, last + 1), 0))


def _transposed_parts(graph: RewrittenGraph, node: Node) -> Replacement | None:
    """A Concat of transposes that move the same axes becomes a transpose of a Concat."""
    if len(node.inputs) < 2 or len(set(node.inputs)) < len(node.inputs):
        return None
    inner = [graph.sole_producer(name, "Transpose") for name in node.inputs]
    perms = {permutation(graph.call(made)) for made in inner if made is not None}
    if None in inner or len(perms) != 1:
        return None
    (perm,) = perms
    build = graph.builder(node)
    axis = perm[graph.call(node).integer("axis") % len(perm)]
    joined = build("Concat", *(made.inputs[0] for made in inner if made is not None), axis=axis)
    return replacement(build, permuted(build, joined, *perm))


def _slice_between(graph: RewrittenGraph, node: Node) -> Replacement | None:
    """A Slice between two transposes moves before the first."""
    taken = graph.sole_producer(node.inputs[0], "Slice")
    inner = graph.sole_producer(taken.inputs[0], "Transpose") if taken is not None else None
    if taken is None or inner is None:
        return None
    given = [graph.array(name) for name in taken.inputs[1:]]
    if any(array is None for array in given):
        return None
    perm, rank = permutation(graph.call(inner)), len(graph.shape(node.inputs[0]))
    starts, ends = (array.reshape(-1) for array in given[:2] if array is not None)
    axes = given[2].reshape(-1) if len(given) > 2 and given[2] is not None else range(len(starts))
    steps = given[3].reshape(-1) if len(given) > 3 and given[3] is not None else [1] * len(starts)
    build = graph.builder(node)
    moved = (perm[int(axis) % rank] for axis in axes)
    operands = [[int(number) for number in numbers] for numbers in (starts, ends, moved, steps)]
    part = build("Slice", inner.inputs[0], *(build.ints(*numbers) for numbers in operands))
    order = tuple(perm[axis] for axis in permutation(graph.call(node)))
    return replacement(build, permuted(build, part, *order))


REWRITES = (
    Rewrite("stacked-last", ("Concat",), _stacked),
    Rewrite("concat-of-transposes", ("Concat",), _transposed_parts),
    Rewrite("slice-between-transposes", ("Transpose",), _slice_between),
)
