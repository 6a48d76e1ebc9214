"""Operators that a graph spells out in a way that overflows in short formats, put back in one piece."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from compiler.graph import Graph, Node

_SINCE = 18
"""The operator set from which on both reductions have their axes as an operand."""


def put_together(graph: Graph) -> Graph:
    """The graph with Log(ReduceSum(Exp(x))) as ReduceLogSumExp(x), which exponentiates nothing above 0."""
    if graph.opset < _SINCE:
        return graph
    makers = {name: node for node in graph.nodes for name in node.outputs if name}
    uses = Counter(name for node in graph.nodes for name in node.inputs)
    uses.update(tensor.name for tensor in graph.outputs)
    gone: set[str] = set()
    made: dict[str, Node] = {}
    for node in graph.nodes:
        total = makers.get(node.inputs[0]) if node.op == "Log" else None
        powers = makers.get(total.inputs[0]) if total and total.op == "ReduceSum" else None
        if total and powers and powers.op == "Exp" and uses[total.outputs[0]] == uses[powers.outputs[0]] == 1:
            inputs = (powers.inputs[0], *total.inputs[1:])
            made[node.name] = Node("ReduceLogSumExp", node.name, inputs, node.outputs, total.attrs)
            gone |= {total.name, powers.name}
    nodes = tuple(made.get(node.name, node) for node in graph.nodes if node.name not in gone)
    return replace(graph, nodes=nodes)
