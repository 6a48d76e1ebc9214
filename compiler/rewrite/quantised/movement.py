"""Operators that only move or choose bytes, between DequantizeLinear and QuantizeLinear of one scale."""

from __future__ import annotations

from compiler.graph import Node
from compiler.operators import OPERATORS
from compiler.rewrite.engine import RESHAPES, Replacement, Rewrite, RewrittenGraph, replacement

from .operands import dequantised, quantisation_of


def _moved(graph: RewrittenGraph, node: Node) -> Replacement | None:
    """Bytes are moved instead of floats: the elements keep their scale, so their bytes do not change."""
    how, inner = quantisation_of(graph, node), graph.producer(node.inputs[0])
    if inner is None or not OPERATORS[inner.op].keeps_elements or len(inner.outputs) > 1:
        return None
    x = dequantised(graph, inner.inputs[0])
    if x is None or x[1] != how:
        return None
    build = graph.builder(node)
    return replacement(build, build(inner.op, x[0], *inner.inputs[1:], **dict(inner.attrs)))


def _behind(graph: RewrittenGraph, node: Node) -> Replacement | None:
    """Bytes are moved before they become floats, so that a product after the move sees bytes."""
    inner = graph.sole_producer(node.inputs[0], "DequantizeLinear")
    if inner is None or dequantised(graph, node.inputs[0]) is None:
        return None
    build = graph.builder(node)
    moved = build(node.op, inner.inputs[0], *node.inputs[1:], **dict(node.attrs))
    return replacement(build, build("DequantizeLinear", moved, *inner.inputs[1:], **dict(inner.attrs)))


def _joined(graph: RewrittenGraph, node: Node) -> Replacement | None:
    """Parts are quantised before they are joined; parts with the scale of the result keep their bytes."""
    how, inner = quantisation_of(graph, node), graph.producer(node.inputs[0], "Concat")
    if how is None or inner is None:
        return None
    build = graph.builder(node)
    parts = []
    for name in inner.inputs:
        x = dequantised(graph, name)
        if x is None:
            return None
        same = x[1] == how
        parts.append(x[0] if same else build("QuantizeLinear", name, *node.inputs[1:], **dict(node.attrs)))
    return replacement(build, build("Concat", *parts, **dict(inner.attrs)))


def _same(graph: RewrittenGraph, node: Node) -> Replacement | None:
    """Bytes that are quantised again with the same scale do not change."""
    x = dequantised(graph, node.inputs[0])
    return Replacement((), x[0]) if x is not None and x[1] == quantisation_of(graph, node) else None


REWRITES = (
    Rewrite("bytes-moved-first", (*RESHAPES, "Transpose"), _behind),
    Rewrite("quantised-again", ("QuantizeLinear",), _same),
    Rewrite("moved-bytes", ("QuantizeLinear",), _moved),
    Rewrite("joined-bytes", ("QuantizeLinear",), _joined),
)
