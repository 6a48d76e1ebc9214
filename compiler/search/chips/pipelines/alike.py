"""Finds stages that are alike: their code takes the same time, so only one of them is priced.

Stages are alike if they differ only in names, in the values of large constants, and in the numbers of chips
whose messages take equivalent routes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import UNSET

from compiler.graph import Graph, Node
from compiler.lowering.movement.chips.routes import rounds_of, way_of_pairs
from compiler.operators.domains.chips.collectives import COLLECTIVES, RECEIVE, RING, SEND
from tx8isa.machine.chips import Chips
from tx8isa.machine.description import Machine

_SMALL = 64
"""Most elements of a constant whose values may be attributes of the code, such as shapes and axes."""


def stage_form(graph: Graph, machine: Machine) -> tuple[Any, ...]:
    """A key that is equal for graphs of stages that are alike on a machine."""
    numbers: dict[str, int] = {"": 0}
    tensors = tuple(_tensors(graph, numbers))
    nodes = tuple(_node(node, numbers, node.name in graph.precise, machine.chips) for node in graph.nodes)
    outputs = tuple(numbers.get(tensor.name, -1) for tensor in graph.outputs)
    states = tuple((numbers.get(past, -1), numbers.get(new, -1)) for past, new in graph.states)
    return graph.opset, tensors, nodes, outputs, states


def _tensors(graph: Graph, numbers: dict[str, int]) -> Iterator[tuple[Any, ...]]:
    """The values of a graph in the order in which nodes use or compute them, which numbers them."""
    inputs = {tensor.name for tensor in graph.inputs}
    made = (name for node in graph.nodes for name in (*node.inputs, *node.outputs))
    for name in dict.fromkeys(made):
        if not name:
            continue
        numbers[name] = len(numbers)
        tensor, array = graph.tensors[name], graph.constants.get(name)
        values = None
        if array is not None:
            values = array.tobytes() if array.size <= _SMALL or array.dtype.kind != "f" else "constant"
        yield tensor.dtype, tensor.shape, name in inputs, values


def _node(node: Node, numbers: dict[str, int], precise: bool, chips: Any) -> tuple[Any, ...]:
    attrs = {name: value for name, value in node.attrs.items() if name != "chips"}
    ways = _ways(node, chips) if node.op in COLLECTIVES and chips is not UNSET else node.attrs.get("chips")
    edges = tuple(tuple(numbers[name] for name in names) for names in (node.inputs, node.outputs))
    return node.op, edges, tuple(sorted((name, repr(value)) for name, value in attrs.items())), ways, precise


def _ways(node: Node, chips: Chips) -> tuple[Any, ...]:
    """The distances of a node's messages, and the loads of the links that they share."""
    numbers, members = node.attrs["chips"], node.attrs["members"]
    assert isinstance(numbers, tuple) and isinstance(members, int)
    groups = tuple(
        tuple(int(chip) for chip in numbers[at : at + members]) for at in range(0, len(numbers), members)
    )
    if node.op in (SEND, RECEIVE):
        return way_of_pairs(chips, groups)
    return rounds_of(chips, groups, node.op, str(node.attrs.get("way", RING)))
