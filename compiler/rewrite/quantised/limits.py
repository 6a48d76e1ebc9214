"""Turns activations between a product and its QuantizeLinear into limits of the bytes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from compiler.graph import Node
from compiler.operators import OPERATORS
from compiler.operators.expansion.builder import widened
from compiler.rewrite.engine import RewrittenGraph

from .operands import INT8, Quantisation


@dataclass(frozen=True)
class LimitedValue:
    """A value by its name, and the limits that activations after it set to its bytes."""

    name: str
    low: int
    high: int


def limited(graph: RewrittenGraph, name: str, how: Quantisation) -> LimitedValue | None:
    """Return the value before activations, and their limits; None if limits are computed."""
    low, high = int(INT8.min), int(INT8.max)
    while (activation := graph.sole_producer(name)) is not None and OPERATORS[activation.op].limits:
        limits = _limits(graph, activation, how)
        if limits is None:
            return None
        low, high = (min(max(limit, limits[0]), limits[1]) for limit in (low, high))
        name = activation.inputs[0]
    return LimitedValue(name, low, high)


def _limits(graph: RewrittenGraph, node: Node, how: Quantisation) -> tuple[int, int] | None:
    """Return the bytes that an activation limits its result to; None if they are computed.

    They are the bytes of its results for the least and the largest of all numbers.
    """
    call = graph.call(node)
    others = call.values[1 : len(node.inputs)]
    if any(name and array is None for name, array in zip(node.inputs[1:], others, strict=True)):
        return None
    found = []
    for infinity in (-np.inf, np.inf):
        x = np.full((1,) * call.tensor(0).rank, infinity)
        known = (None if array is None else widened(array) for array in others)
        (end,) = OPERATORS[node.op].reference(call, x, *known)
        whole = float(np.rint(np.float32(end.reshape(())) / how.scale)) + how.zero
        found.append(int(min(max(whole, INT8.min), INT8.max)))
    return found[0], found[1]
