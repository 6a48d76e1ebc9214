"""A graph that several chips compute together: the nodes of each, and the parts of the constants."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from compiler.graph import Array, Graph, Node, Tensor
from compiler.operators.record import OPERATORS, resolve

from .rules import ChipParts


@dataclass(frozen=True)
class ChipDivision:
    """One division of a graph. All chips have the same nodes; only their parts of the constants differ."""

    parts: ChipParts
    nodes: tuple[Node, ...]

    @property
    def alike(self) -> bool:
        """True if all chips have the same constants."""
        return not self.parts.constants and not self.parts.chosen

    def graph_of(self, graph: Graph, place: int) -> Graph:
        """The version of a graph, like the divided one, for the chip with a place."""
        inputs = tuple(replace(tensor, shape=self.parts.local(tensor.name)) for tensor in graph.inputs)
        constants = self._constants(graph.constants, place, {tensor.name for tensor in graph.outputs})
        tensors = {tensor.name: tensor for tensor in inputs}
        tensors |= {name: Tensor(name, array.dtype.name, array.shape) for name, array in constants.items()}
        for node in self.nodes:
            record = OPERATORS[node.op]
            call = resolve(node, graph.opset, tensors, constants, len(record.inputs))
            tensors |= {tensor.name: tensor for tensor in record.infer(call)}
        outputs = tuple(tensors[tensor.name] for tensor in graph.outputs)
        return replace(
            graph, inputs=inputs, outputs=outputs, constants=constants, nodes=self.nodes, tensors=tensors
        )

    def _constants(self, whole: Mapping[str, Array], place: int, outputs: set[str]) -> dict[str, Array]:
        used = {name for node in self.nodes for name in node.inputs}
        found = {name: array for name, array in whole.items() if name in used | outputs}
        found |= self.parts.literals
        found |= {own: whole[names[place]] for own, names in self.parts.chosen.items()}
        for part, (name, way) in self.parts.constants.items():
            box = self.parts.box(whole[name].shape, way, place)
            found[part] = whole[name][box.slices]
        return found
