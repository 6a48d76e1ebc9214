"""Rotary position embedding: x cos + turned(x) sin, where turned picks and negates features of x.

Exporters turn features by slices, negations and concatenations along the last axis, or along the axes that a
Reshape splits it into.
"""

from __future__ import annotations

import math

import numpy as np

from compiler.graph import Array, Node
from compiler.operators.shapes.slicing import slice_ranges
from compiler.operators.types import broadcast_shapes

from .engine import RESHAPES, Replacement, Rewrite, RewrittenGraph, can_be_compiled, replacement

PICKS = (*RESHAPES, "Neg", "Mul", "Slice", "Split", "Gather", "Concat")
"""Operators that move or negate features."""


def picked_features(graph: RewrittenGraph, name: str, source: str) -> Array | None:
    """Return the feature of ``source`` that a value has at each index of the axes after its leading ones.

    Features are numbered from 1, and negative if they are negated. None if the value has other elements too.
    """
    if name == source:
        return np.arange(1, graph.shape(source)[-1] + 1)
    leading = graph.shape(source)[:-1]
    node, shape = graph.producer(name, *PICKS), graph.shape(name)
    if node is None or shape[: len(leading)] != leading:
        return None
    if node.op == "Concat":
        return _joined(graph, node, source)
    operand = node.inputs[0]
    if node.op == "Mul":
        found = graph.with_number(node)
        if found is None or found[1] != -1.0:
            return None
        operand = found[0]
    before = picked_features(graph, operand, source)
    if before is None:
        return None
    if node.op in ("Neg", "Mul"):
        return -before
    if node.op in RESHAPES:
        keeps_leading = math.prod(shape) == math.prod(leading) * before.size
        return before.reshape(shape[len(leading) :]) if keeps_leading else None
    return _picked(graph, node, name, before, len(leading))


def _joined(graph: RewrittenGraph, node: Node, source: str) -> Array | None:
    leading = len(graph.shape(source)) - 1
    axis = graph.call(node).integer("axis") % len(graph.shape(node.outputs[0])) - leading
    parts = [picked_features(graph, name, source) for name in node.inputs] if axis >= 0 else [None]
    known = [part for part in parts if part is not None]
    return np.concatenate(known, axis) if len(known) == len(parts) else None


def _picked(graph: RewrittenGraph, node: Node, name: str, before: Array, leading: int) -> Array | None:
    """Return the features that a Slice, a Split or a Gather selects."""
    call, shape = graph.call(node), graph.shape(node.inputs[0])
    if node.op == "Slice":
        ranges = slice_ranges(call)
        if any(taken != range(size) for taken, size in zip(ranges[:leading], shape, strict=False)):
            return None
        return before[np.ix_(*ranges[leading:])]
    axis = call.integer("axis") % len(shape) - leading
    if axis < 0:
        return None
    if node.op == "Split":
        sizes = [graph.shape(output)[axis + leading] for output in node.outputs]
        start = sum(sizes[: node.outputs.index(name)])
        return np.take(before, range(start, start + graph.shape(name)[axis + leading]), axis)
    index = graph.array(node.inputs[1])
    return np.take(before, index, axis) if index is not None else None


def _rotary(graph: RewrittenGraph, node: Node) -> Replacement | None:
    """A sum of two products: x with one table, turned(x) with the other."""
    shape = graph.shape(node.outputs[0])
    factors = [
        product.inputs for name in node.inputs if (product := graph.sole_producer(name, "Mul")) is not None
    ]
    if len(factors) != 2 or not shape or not graph.tensor(node.outputs[0]).is_float:
        return None
    for plain, moved in (factors, factors[::-1]):
        for x, cosine in (plain, plain[::-1]):
            for turned, sine in (moved, moved[::-1]):
                turn = _turn(graph, x, turned)
                tables = [graph.shape(name) for name in (cosine, sine)]
                if (
                    turn is None
                    or graph.shape(x) != shape
                    or any(table[-1:] != shape[-1:] for table in tables)
                ):
                    continue
                if any(broadcast_shapes(table, shape) != shape for table in tables):
                    continue
                build = graph.builder(node)
                result = build("Rotary", x, cosine, sine, turn=turn)
                return replacement(build, result) if can_be_compiled(build) else None
    return None


def _turn(graph: RewrittenGraph, x: str, turned: str) -> tuple[int, ...] | None:
    """Return the attribute ``turn`` of a value that has the features of x in another order."""
    if x == turned or x in graph.constants or graph.producer(turned, "Concat", "Reshape") is None:
        return None
    found = (
        picked_features(graph, turned, x)
        if graph.shape(x) == graph.shape(turned) and len(graph.shape(x)) > 1
        else None
    )
    return tuple(int(at) for at in found) if found is not None else None


REWRITES = (Rewrite("rotary", ("Add",), _rotary),)
