"""Finds the operators between bytes to compute in FP32: a shorter format would change integers."""

from __future__ import annotations

from collections import defaultdict

from compiler.graph import Graph, Node
from compiler.lowering.pointwise.record import POINTWISE


def between_bytes(graph: Graph) -> frozenset[str]:
    """Return the pointwise nodes that compute quantised values from dequantised ones only."""
    users: dict[str, list[Node]] = defaultdict(list)
    for node in graph.nodes:
        for name in node.inputs:
            users[name].append(node)
    exact = {tensor.name for tensor in graph.outputs}
    begin = _after_bytes(graph)
    found: set[str] = set()
    for node in reversed(graph.nodes):
        if node.name not in begin or any(name in exact for name in node.outputs):
            continue
        following = [user for name in node.outputs for user in users[name]]
        if all(user.op == "QuantizeLinear" or user.name in found for user in following):
            found.add(node.name)
    return frozenset(found)


def _after_bytes(graph: Graph) -> set[str]:
    """Return the pointwise nodes whose computed operands are dequantised bytes, or results of such nodes."""
    known, found = set(graph.constants), set()
    for node in graph.nodes:
        pointwise = node.op in POINTWISE and all(not name or name in known for name in node.inputs)
        if pointwise:
            found.add(node.name)
        if pointwise or node.op == "DequantizeLinear":
            known.update(node.outputs)
    return found
