"""Sequence parallelism: every chip has some rows of the sequences, and all weights.

Operators that compute each row separately work on a chip's own rows; attention gathers the keys and values of
all rows. A chip takes its rows of values that all chips have, such as masks and tables of positions.
"""

from __future__ import annotations

from dataclasses import replace

from compiler.graph import Graph, GraphError, Tensor
from compiler.search.chips.products import ChipGroups
from compiler.search.chips.rules import DividedAxis
from compiler.search.chips.stage import ChipDivision

from .walk import ExchangedParts, Walk, WholeInput


def rows_dealt(graph: Graph, groups: ChipGroups) -> ChipDivision:
    """Divide the rows of the inputs into ``groups.members`` parts; GraphError for a graph without such
    rows."""
    count = groups.members
    if graph.states:
        raise GraphError(
            [f"sp={count}: state {'='.join(graph.states[0])} has rows of other steps; try tp or dp"]
        )
    common: set[str] = set()
    """Inputs of integers that some node needs whole."""
    while True:
        try:
            return _dealt(graph, groups, common)
        except WholeInput as error:
            common.add(error.name)


def _dealt(graph: Graph, groups: ChipGroups, common: set[str]) -> ChipDivision:
    parts = ExchangedParts(graph, groups, "sp", divides_constants=False)
    walk = Walk(graph, parts)
    own: dict[str, str] = {}
    """The rows of a chip by common input."""
    for tensor in _with_rows(graph, groups.members):
        axis = _rows(tensor)
        if tensor.name in common:
            own[tensor.name] = part = parts.part_of(tensor.name, axis)
            walk.nodes += parts.take()
            walk.whole[part] = tensor.name
        else:
            parts.divide(tensor.name, DividedAxis(axis))
    found = False
    for node in graph.nodes:
        inputs = tuple(own.get(name, name) for name in node.inputs)
        found |= walk.add(replace(node, inputs=inputs))
    if not found:
        reason = f": {walk.problem}" if walk.problem else ""
        raise GraphError([f"sp={groups.members}: nothing is computed row by row{reason}"])
    return walk.division()


def _rows(tensor: Tensor) -> int:
    """The axis of rows: the last but one, or the last for integers of up to two axes, such as tokens."""
    return tensor.rank - (2 if tensor.is_float or tensor.rank > 2 else 1)


def _with_rows(graph: Graph, count: int) -> list[Tensor]:
    """The inputs whose rows can be divided over chips; GraphError if there are none."""
    having = [tensor for tensor in graph.inputs if _rows(tensor) >= 0 and tensor.shape[_rows(tensor)] > 1]
    found = [tensor for tensor in having if tensor.shape[_rows(tensor)] % count == 0]
    if not found and not having:
        raise GraphError([f"sp={count}: no input has rows"])
    if not found:
        first = having[0]
        what = f"input '{first.name}' is {'x'.join(map(str, first.shape))}"
        raise GraphError(
            [f"sp={count}: {what}; its rows, axis {_rows(first)}, must be a multiple of {count}"]
        )
    return found
