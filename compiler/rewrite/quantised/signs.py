"""Makes all bytes inside a graph signed: unsigned bytes become 128 less at the graph's inputs and outputs.

Two such changes in a row cancel, so they remain only there.
"""

from __future__ import annotations

import numpy as np

from compiler.graph import Node
from compiler.operators.expansion.builder import Builder
from compiler.operators.quantised.integers import OFFSET
from compiler.rewrite.engine import Replacement, Rewrite, RewrittenGraph, replacement


def _zero_point(graph: RewrittenGraph, build: Builder, node: Node) -> str | None:
    """Return the zero point of unsigned bytes for signed ones; None if it is computed."""
    name = node.inputs[2] if len(node.inputs) > 2 else ""
    given = graph.array(name) if name else np.zeros(graph.shape(node.inputs[1]), np.uint8)
    return None if given is None else build.constant(given.astype(np.int64) - OFFSET, "int8")


def _quantised(graph: RewrittenGraph, node: Node) -> Replacement | None:
    """A QuantizeLinear to unsigned bytes becomes one to signed bytes."""
    if graph.tensor(node.outputs[0]).dtype != "uint8":
        return None
    build = graph.builder(node)
    zero = _zero_point(graph, build, node)
    if zero is None:
        return None
    attrs = {**dict(node.attrs), "output_dtype": 0}
    signed = build("QuantizeLinear", *node.inputs[:2], zero, **attrs)
    return replacement(build, build("OffsetBinary", signed))


def _dequantised(graph: RewrittenGraph, node: Node) -> Replacement | None:
    """A DequantizeLinear of unsigned bytes becomes one of signed bytes."""
    if graph.tensor(node.inputs[0]).dtype != "uint8":
        return None
    build = graph.builder(node)
    zero = _zero_point(graph, build, node)
    if zero is None:
        return None
    signed = build("OffsetBinary", node.inputs[0])
    made = build.kept("DequantizeLinear", signed, node.inputs[1], zero, **dict(node.attrs))
    return replacement(build, made)


def _twice(graph: RewrittenGraph, node: Node) -> Replacement | None:
    """A change of signs and back cancel."""
    inner = graph.producer(node.inputs[0], "OffsetBinary")
    return None if inner is None else Replacement((), inner.inputs[0])


REWRITES = (
    Rewrite("signed-quantise", ("QuantizeLinear",), _quantised),
    Rewrite("signed-dequantise", ("DequantizeLinear",), _dequantised),
    Rewrite("signs-twice", ("OffsetBinary",), _twice),
)
