"""Derives a graph at sizes at which the model was not read from graphs at other sizes.

Readers and rewrites simplify extents of 1, so a graph with such a size can differ from all others. The
program for such a size is then made from the other graphs, with the sizes of that point.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from compiler.graph import Array, AttrValue, Node

from .formulas import ExtentFormula, Point
from .ranged import RangedGraph, Samples, same_structure


def without_odd_one(samples: Samples) -> Samples:
    """The samples, without the graph at the usual sizes if it alone has another structure."""
    (_, usual), *others = samples
    if same_structure(usual, others[0][1]) or not others[1:]:
        return samples
    return others if all(same_structure(others[0][1], graph) for _, graph in others[1:]) else samples


def at_sizes(ranged: RangedGraph, point: Point) -> RangedGraph:
    """A graph over ranges in which the graph of one point is derived instead of read."""
    graph, constants = ranged.graph, dict(ranged.graph.constants)
    nodes = []
    for node in graph.nodes:
        attrs = {name: _attribute(ranged, node, name, value, point) for name, value in node.attrs.items()}
        nodes.append(replace(node, attrs=attrs))
        for at, name in enumerate(node.inputs):
            if (formulas := ranged.numbers.get((node.name, at))) is not None:
                numbers = np.array([formula.at(point) for formula in formulas], constants[name].dtype)
                constants[name] = numbers.reshape(constants[name].shape)
    tensors = dict(graph.tensors)
    for name, extents in ranged.extents.items():
        tensors[name] = replace(tensors[name], shape=tuple(extent.at(point) for extent in extents))
    for name, largest in ranged.constants.items():
        constants[name] = _beginning(largest, tensors[name].shape)
    shaped = replace(
        graph,
        inputs=tuple(tensors[tensor.name] for tensor in graph.inputs),
        outputs=tuple(tensors[tensor.name] for tensor in graph.outputs),
        nodes=tuple(nodes),
        tensors=tensors,
        constants=constants,
    )
    return replace(ranged, graph=shaped)


def _attribute(ranged: RangedGraph, node: Node, name: str, value: AttrValue, point: Point) -> AttrValue:
    formulas: Sequence[ExtentFormula] | None = ranged.numbers.get((node.name, name))
    if formulas is None:
        return value
    numbers = tuple(int(formula.at(point)) for formula in formulas)
    return numbers if isinstance(value, tuple) else numbers[0]


def _beginning(largest: Array, shape: Sequence[int]) -> Array:
    return largest.reshape(-1)[: int(np.prod(shape))].reshape(shape)
