"""Turns activations between a product and its QuantizeLinear into limits of the bytes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from compiler.graph import Array, Node
from compiler.rewrite.engine import RewrittenGraph

from .operands import INT8, Quantisation

_ACTIVATIONS = ("Relu", "Clip")


@dataclass(frozen=True)
class LimitedValue:
    """A value by its name, and the limits that activations after it set to its bytes."""

    name: str
    low: int
    high: int


def limited(graph: RewrittenGraph, name: str, how: Quantisation) -> LimitedValue | None:
    """Return the value before activations, and their limits; None if limits are computed."""
    low, high = int(INT8.min), int(INT8.max)
    while (activation := graph.sole_producer(name, *_ACTIVATIONS)) is not None:
        limits = _limits(graph, activation, how)
        if limits is None:
            return None
        low, high = (min(max(limit, limits[0]), limits[1]) for limit in (low, high))
        name = activation.inputs[0]
    return LimitedValue(name, low, high)


def _limits(graph: RewrittenGraph, node: Node, how: Quantisation) -> tuple[int, int] | None:
    """Return the bytes that an activation limits its result to; None if they are computed."""
    given: list[Array | None] = [np.zeros((), np.float32), None]
    if node.op == "Clip":
        names = (*node.inputs[1:], "", "")[:2]
        given = [graph.array(name) if name else None for name in names]
        if any(name and array is None for name, array in zip(names, given, strict=True)):
            return None
    ends = (int(INT8.min), int(INT8.max))
    found = []
    for end, array in zip(ends, given, strict=True):
        whole = end if array is None else float(np.rint(np.float32(array.reshape(())) / how.scale)) + how.zero
        found.append(int(min(max(whole, ends[0]), ends[1])))
    return found[0], found[1]
