"""Propagates parts of results backwards through nodes to the parts that they are computed from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from compiler.graph import Array, Box, Node, Tensor
from compiler.operators.record import OPERATORS, resolve


class NamedValues(Protocol):
    """Descriptions of the values of nodes: a graph, or the builder of an expansion."""

    @property
    def opset(self) -> int: ...
    @property
    def tensors(self) -> Mapping[str, Tensor]: ...
    @property
    def constants(self) -> Mapping[str, Array]: ...


def propagated(values: NamedValues, nodes: Sequence[Node], wanted: Mapping[str, Box]) -> dict[str, Box]:
    """Return the box of every value that the wanted boxes are computed from, by name, these included.

    ``nodes`` are in topological order. A value that is used more than once has the smallest box that holds
    the boxes of all its uses. Values that are not read are missing.
    """
    found = {name: box for name, box in wanted.items() if box.size}
    for node in reversed(nodes):
        boxes = [found.get(name) if name else None for name in node.outputs]
        if not any(boxes):
            continue
        record = OPERATORS[node.op]
        call = resolve(node, values.opset, values.tensors, values.constants, len(record.inputs))
        for name, box in zip(node.inputs, record.needed(call, boxes), strict=False):
            if name and box is not None:
                found[name] = found[name].united(box) if name in found else box
    return found
