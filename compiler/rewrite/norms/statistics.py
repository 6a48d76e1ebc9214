"""Finds the nodes around sums of squares, which compute in FP32: 256² exceeds FP16's largest, 65504.

Rewrites have replaced every normalization that they know by one operator, which computes in FP32 anyway. Sums
of squares in other forms remain, with one phase for each operator.
"""

from __future__ import annotations

from collections import defaultdict

from compiler.graph import Graph, Node
from compiler.lowering.pointwise.record import POINTWISE
from compiler.rewrite.engine import RESHAPES

_REDUCTIONS = ("ReduceSum", "ReduceMean")


def statistics(graph: Graph) -> frozenset[str]:
    """Return the names of squares that are reduced, and of nodes that compute from reduced values only.

    The latter have few elements. Nodes that combine them with other values, or repeat them, are not included.
    """
    producers = {name: node for node in graph.nodes for name in node.outputs if name}
    users: dict[str, list[Node]] = defaultdict(list)
    for node in graph.nodes:
        for name in node.inputs:
            users[name].append(node)
    reduced = _reduced(graph)
    found: dict[str, Node] = {}
    for node in graph.nodes:
        if node.op in _REDUCTIONS and _is_square(producers.get(node.inputs[0])):
            found[node.name] = node
            made = producers[node.inputs[0]]
            if all(user.op in _REDUCTIONS for user in users[node.inputs[0]]):
                found[made.name] = made
        elif node.name in reduced and any(_made_by(found, producers, name) for name in node.inputs):
            found[node.name] = node
    for node in reversed(graph.nodes):  # operands of comparisons with, or subtractions from, such values
        if node.name in reduced and any(user.name in found for name in node.outputs for user in users[name]):
            found[node.name] = node
    return frozenset(found)


def _is_square(node: Node | None) -> bool:
    return node is not None and node.op == "Mul" and node.inputs[0] == node.inputs[1]


def _made_by(found: dict[str, Node], producers: dict[str, Node], name: str) -> bool:
    node = producers.get(name)
    return node is not None and node.name in found


def _reduced(graph: Graph) -> set[str]:
    """Return the reductions, and the pointwise nodes that compute from their results and constants only."""
    small: set[str] = set()
    found: set[str] = set()
    for node in graph.nodes:
        computed = [name for name in node.inputs if name and name not in graph.constants]
        pointwise = node.op in POINTWISE or node.op in RESHAPES
        sizes = [graph.tensors[name].size for name in (*computed, node.outputs[0])]
        pointwise = pointwise and sizes[-1] == max(sizes[:-1], default=0)
        if node.op in _REDUCTIONS or (pointwise and computed and all(name in small for name in computed)):
            found.add(node.name)
            small.update(node.outputs)
    return found
