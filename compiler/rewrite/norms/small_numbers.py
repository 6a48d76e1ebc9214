"""Finds the nodes around very small numbers, which compute in FP32: rounded to 0, a number loses its purpose.

Networks add such numbers to keep the operand of a logarithm, or a divisor, from being 0. Data of that size is
mostly squares of larger numbers. So the nodes that compute the data are included, and the nodes that compute
ordinary numbers from it.
"""

from __future__ import annotations

from collections import defaultdict

from compiler.graph import Graph, Node
from compiler.lowering.pointwise.record import POINTWISE
from compiler.rewrite.engine import RESHAPES
from tx8isa.numbers.formats import Format
from tx8isa.numbers.rounding import rounded

_KEPT_FROM_ZERO = ("Add", "Sub", "Max", "Clip")
_ORDINARY_AGAIN = ("Log", "Sqrt", "Reciprocal", "Pow", "Div")
_PASSING = ("Identity", *RESHAPES)


def small_numbers(graph: Graph, fmt: Format) -> frozenset[str]:
    """Return the nodes, by name, around known numbers that the compute format rounds to 0."""
    producers = {name: node for node in graph.nodes for name in node.outputs if name}
    users: dict[str, list[Node]] = defaultdict(list)
    for node in graph.nodes:
        for name in node.inputs:
            users[name].append(node)
    found: set[str] = set()
    for node in graph.nodes:
        if node.op in _KEPT_FROM_ZERO and any(_vanishes(graph, name, fmt) for name in node.inputs):
            found.add(node.name)
            found |= _used_by(node, users)
            waiting = [node]
            while waiting:
                before = [producers[name] for name in waiting.pop().inputs if name in producers]
                inner = [made for made in before if made.op in POINTWISE and _used_within(made, users, found)]
                found |= {made.name for made in inner}
                waiting += inner
    return frozenset(found)


def _used_by(node: Node, users: dict[str, list[Node]]) -> set[str]:
    """Return the nodes that compute ordinary numbers from a node's result, and the nodes between them."""
    found: set[str] = set()
    waiting = [node]
    while waiting:
        following = [user for name in waiting.pop().outputs for user in users[name]]
        found |= {user.name for user in following if user.op in (*_ORDINARY_AGAIN, *_PASSING)}
        waiting += [user for user in following if user.op in _PASSING]
    return found


def _vanishes(graph: Graph, name: str, fmt: Format) -> bool:
    """Return True if a value is a known number that a format rounds to 0."""
    value = graph.constants.get(name)
    if value is None or value.size != 1 or not graph.tensors[name].is_float:
        return False
    return float(value.reshape(())) != 0.0 == float(rounded(value, fmt).reshape(()))


def _used_within(node: Node, users: dict[str, list[Node]], found: set[str]) -> bool:
    """Return True if only nodes in ``found`` use the results of a node."""
    return all(user.name in found for name in node.outputs for user in users[name])
