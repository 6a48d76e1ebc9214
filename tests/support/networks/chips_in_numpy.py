"""The results of a graph on several chips, in binary64 with NumPy: node after node on all, and exchanges."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from compiler.graph import Array, Node
from compiler.operators.domains.chips.collectives import ALL_GATHER, ALL_REDUCE, PART, REDUCE_SCATTER
from compiler.operators.expansion.builder import widened
from compiler.operators.record import OPERATORS, call_of
from compiler.search.chips import SpreadGraph


def joined_outputs(spread: SpreadGraph, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """The outputs of the whole graph, joined from the chips' outputs."""
    graphs = [spread.graph_of(place) for place in spread.places]
    dealt = {name: widened(array) for name, array in spread.dealt(inputs).items()}
    values: list[dict[str, Array]] = []
    for chip, graph in enumerate(graphs):
        own = {name: widened(array) for name, array in graph.constants.items()}
        values.append(own | {tensor.name: dealt[f"chip{chip}.{tensor.name}"] for tensor in graph.inputs})
    for nodes in zip(*(graph.nodes for graph in graphs), strict=True):
        assert len({(node.op, node.name) for node in nodes}) == 1
        if nodes[0].op.startswith("chips."):
            _exchange(nodes[0], values)
            continue
        for graph, node, own in zip(graphs, nodes, values, strict=True):
            operands = [own[name] if name else None for name in node.inputs]
            results = OPERATORS[node.op].reference(call_of(graph, node), *operands)
            own |= {name: np.asarray(x) for name, x in zip(node.outputs, results, strict=False) if name}
    found = {
        f"chip{chip}.{t.name}": own[t.name] for chip, own in enumerate(values) for t in graphs[chip].outputs
    }
    return spread.joined(found)


def _exchange(node: Node, values: list[dict[str, Array]]) -> None:
    """Return each chip's result of an exchange between the chips of its group."""
    chips, members, axis = node.attrs["chips"], node.attrs["members"], node.attrs.get("axis")
    assert isinstance(chips, tuple)
    assert isinstance(members, int)
    (source,), (target,) = node.inputs, node.outputs
    for first in range(0, len(chips), members):
        group = [int(chip) for chip in chips[first : first + members]]
        parts = [values[chip][source] for chip in group]
        for place, chip in enumerate(group):
            if node.op == ALL_REDUCE:
                values[chip][target] = np.sum(parts, 0)
            elif node.op == ALL_GATHER:
                values[chip][target] = np.concatenate(parts, axis)
            elif node.op == REDUCE_SCATTER:
                values[chip][target] = np.split(np.sum(parts, 0), members, axis)[place]
            else:
                assert node.op == PART
                values[chip][target] = np.split(parts[place], members, axis)[place]
