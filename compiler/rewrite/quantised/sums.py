"""Sums of dequantised bytes that are quantised again become one operator on bytes."""

from __future__ import annotations

import numpy as np

from compiler.graph import Node
from compiler.rewrite.engine import Replacement, Rewrite, RewrittenGraph, can_be_compiled, replacement

from .limits import limited
from .operands import dequantised, quantisation_of


def _summed(graph: RewrittenGraph, node: Node) -> Replacement | None:
    """A sum of two tensors of bytes of one shape with a Relu or Clip that is quantised again."""
    how = quantisation_of(graph, node)
    value = None if how is None else limited(graph, node.inputs[0], how)
    inner = None if value is None else graph.sole_producer(value.name, "Add", "Sum")
    if how is None or value is None or inner is None or len(inner.inputs) != 2:
        return None
    a, b = (dequantised(graph, name) for name in inner.inputs)
    if a is None or b is None or graph.shape(a[0]) != graph.shape(b[0]):
        return None
    if not all(np.isfinite(scale) and scale > 0 for scale in (a[1].scale, b[1].scale, how.scale)):
        return None
    build = graph.builder(node)
    made = build(
        "Int8Sum",
        a[0],
        b[0],
        a_scale=float(a[1].scale),
        a_zero=a[1].zero,
        b_scale=float(b[1].scale),
        b_zero=b[1].zero,
        y_scale=float(how.scale),
        y_zero=how.zero,
        low=value.low,
        high=value.high,
    )
    return replacement(build, made) if can_be_compiled(build) else None


SUMS = (Rewrite("quantised-sum", ("QuantizeLinear",), _summed),)
