"""Which nodes around sums of squares compute in FP32: FP16 ends at 65504, which 256² already exceeds.

Rewrites have made one operator of every normalization that they know, which computes in FP32 by itself.
What is left are sums of squares of other forms, in as many phases as they have operators.
"""

from __future__ import annotations

from collections import defaultdict

from compiler.graph import Graph, Node
from compiler.lowering.pointwise.record import POINTWISE
from compiler.rewrite.engine import RESHAPES

_REDUCTIONS = ("ReduceSum", "ReduceMean")


def statistics(graph: Graph) -> frozenset[str]:
    """The nodes, by name: squares that are reduced, and what is computed of reduced values alone.

    The latter have few elements. Nodes that combine them with what is not reduced are not among them, nor
    those that repeat them.
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
    for node in reversed(graph.nodes):  # what such values are compared with or subtracted from
        if node.name in reduced and any(user.name in found for name in node.outputs for user in users[name]):
            found[node.name] = node
    return frozenset(found)


def _is_square(node: Node | None) -> bool:
    return node is not None and node.op == "Mul" and node.inputs[0] == node.inputs[1]


def _made_by(found: dict[str, Node], producers: dict[str, Node], name: str) -> bool:
    node = producers.get(name)
    return node is not None and node.name in found


def _reduced(graph: Graph) -> set[str]:
    """The reductions, and the pointwise nodes on their results, on those of such nodes, and on constants."""
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
