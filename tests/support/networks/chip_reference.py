"""The results of several chips together, step by step in NumPy: all graphs, and their exchanges."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from compiler.graph import Array, Node
from compiler.operators import OPERATORS, call_of
from compiler.operators.domains.chips.collectives import ALL_GATHER, ALL_REDUCE, PART, REDUCE_SCATTER
from compiler.search.chips import SpreadGraph


def run_spread(spread: SpreadGraph, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """The outputs of the chips, by names such as ``chip1.y``; floats are float64."""
    graphs = [spread.graph_of(place) for place in spread.places]
    dealt = spread.dealt(inputs)
    values = [
        {t.name: _wide(dealt[f"chip{chip}.{t.name}"]) for t in graph.inputs}
        | {name: _wide(array) for name, array in graph.constants.items()}
        for chip, graph in enumerate(graphs)
    ]
    for nodes in zip(*(graph.nodes for graph in graphs), strict=True):
        if nodes[0].op in (ALL_GATHER, ALL_REDUCE, PART, REDUCE_SCATTER):
            results = exchanged(nodes[0], [own[nodes[0].inputs[0]] for own in values])
            for own, result in zip(values, results, strict=True):
                own[nodes[0].outputs[0]] = result
            continue
        for graph, node, own in zip(graphs, nodes, values, strict=True):
            operands = [own[name] if name else None for name in node.inputs]
            found = OPERATORS[node.op].reference(call_of(graph, node), *operands)
            own |= {name: array for name, array in zip(node.outputs, found, strict=False) if name}
    names = [tensor.name for tensor in spread.graph.outputs]
    return {f"chip{chip}.{name}": own[name] for chip, own in enumerate(values) for name in names}


def exchanged(node: Node, each: list[Array]) -> list[Array]:
    """Return the chips' values after an exchange of the values in ``each``."""
    chips, members = node.attrs["chips"], node.attrs["members"]
    assert isinstance(chips, tuple)
    assert isinstance(members, int)
    axis, found = node.attrs.get("axis"), [*each]
    for at in range(0, len(chips), members):
        group = [int(chip) for chip in chips[at : at + members]]
        for place, chip in enumerate(group):
            if node.op == ALL_GATHER:
                found[chip] = np.concatenate([each[other] for other in group], axis)  # type: ignore[arg-type]
                continue
            total = each[chip] if node.op == PART else sum(each[other] for other in group)
            found[chip] = total if node.op == ALL_REDUCE else np.split(total, members, axis)[place]  # type: ignore[arg-type,assignment]
    return found


def _wide(array: Array) -> Array:
    return array.astype(np.float64) if array.dtype.kind == "f" else array
