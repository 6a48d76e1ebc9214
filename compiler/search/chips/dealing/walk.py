"""Divides a graph node by node; every operand may become whole, and every whole value may become a part.

A value in parts that a node needs whole is gathered. The gather comes before operators that only move
elements. It is no larger there, and attention finds its heads as on one chip.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from compiler.evaluation.folding import needed
from compiler.graph import Array, Graph, Node, Tensor
from compiler.operators import OPERATORS
from compiler.operators.boxes.forms import elementwise
from compiler.operators.expansion.expander import expand_graph
from compiler.search.chips.products import ChipGroups
from compiler.search.chips.rules import ChipParts, NeedsWhole, divided
from compiler.search.chips.stage import ChipDivision

_CONTRACTION = "Einsum"
"""An operator that consists of products, and is divided as they are."""


def written_out(graph: Graph) -> Graph:
    """The graph with operators expanded that are divided in the form of their expansions."""
    gone = {name for name, record in OPERATORS.items() if record.written_out or name == _CONTRACTION}
    return expand_graph(graph, gone) if any(node.op in gone for node in graph.nodes) else graph


class ExchangedParts(ChipParts):
    """Values in parts. A chip takes its part of a whole value at run time.

    ``suffix`` is in the names of parts. If ``divides_constants``, a chip stores only its part of a constant.
    """

    def __init__(self, graph: Graph, groups: ChipGroups, suffix: str, divides_constants: bool) -> None:
        super().__init__(replace(graph, tensors=dict(graph.tensors)), groups.members)
        self.groups, self.suffix, self.divides_constants = groups, suffix, divides_constants
        self.makers = {name: node for node in graph.nodes for name in node.outputs if name}
        self.taken: list[Node] = []
        """Nodes that take parts, since the last call of ``take``."""

    def has_whole(self, name: str) -> bool:
        return name not in self.axes

    def take(self) -> list[Node]:
        """The nodes for parts requested since the last call."""
        taken, self.taken = self.taken, []
        return taken

    def part_of_constant(self, name: str, axis: int, repeat: int = 1) -> str:
        if self.divides_constants and name in self.graph.constants:
            return super().part_of_constant(name, axis, repeat)
        return self.part_of(name, axis)

    def literal(self, name: str, value: Array) -> str:
        # An earlier division may have made one for the same node, which still needs it whole.
        return super().literal(f"{name}.{self.suffix}", value)

    def part_of(self, name: str, axis: int) -> str:
        """The name of a chip's part of a whole value, along an axis."""
        part = f"{name}.{self.suffix}{axis}"
        if part not in self.graph.tensors:
            self.named(part, name)
            self.axes[part] = axis
            self.taken.append(self._taking(name, axis, part))
        return part

    def _taking(self, name: str, axis: int, part: str) -> Node:
        """The node that takes a part; a part of an Expand is a shorter Expand."""
        maker, tensor = self.makers.get(name), self.graph.tensors[name]
        if maker is not None and maker.op == "Expand":
            source = self.graph.tensors[maker.inputs[0]]
            at = axis - (tensor.rank - source.rank)
            if at < 0 or source.shape[at] == 1:
                shape = self.literal(f"{part}.shape", np.array(self.local(part), np.int64))
                return replace(maker, name=f"{part}.part", inputs=(source.name, shape), outputs=(part,))
        return self.groups.part(f"{part}.part", tensor, axis, part)

    def named(self, name: str, like: str) -> None:
        """Record a value with the type and shape of another one."""
        self.define(replace(self.graph.tensors[like], name=name))

    def define(self, tensor: Tensor) -> None:
        """Record a value with its type and shape."""
        assert isinstance(self.graph.tensors, dict)
        self.graph.tensors[tensor.name] = tensor


class Walk:
    """Divides the nodes of a graph one after another."""

    def __init__(self, graph: Graph, parts: ExchangedParts) -> None:
        self.graph, self.parts = graph, parts
        self.nodes: list[Node] = []
        self.whole: dict[str, str] = {}
        """Names of the whole values, by the names of the values in parts."""
        self.problem: NeedsWhole | None = None
        """The reason why the first value was gathered."""

    def division(self) -> ChipDivision:
        """The division, without nodes that no output needs."""
        nodes, _ = needed(self.nodes, (tensor.name for tensor in self.graph.outputs))
        return ChipDivision(self.parts, tuple(nodes))

    def add(self, node: Node) -> bool:
        """Add a node as each chip computes it; True if it computes a part of the results."""
        operands = [name for name in dict.fromkeys(node.inputs) if name in self.parts.axes]
        for kept in self._kept(node, operands):
            gone = {name: self._whole_name(name) for name in operands if name not in kept}
            candidate = replace(node, inputs=tuple(gone.get(name, name) for name in node.inputs))
            try:
                found = divided(self.parts, candidate)
            except NeedsWhole as error:
                self.problem = self.problem or error
                continue
            self._make_whole(gone)
            self.nodes += [*self.parts.take(), found]
            return True
        self._make_whole(operands)
        inputs = tuple(self.whole.get(name, name) if name in operands else name for name in node.inputs)
        self.nodes.append(replace(node, inputs=inputs))
        return False

    def _kept(self, node: Node, operands: Sequence[str]) -> Iterator[Sequence[str]]:
        """Choices of the operands that stay divided, the best first; the last choices keep a single operand
        divided.

        In a product, the rows of the result are those of the first operand. In other nodes the largest
        operand would cost most to send.
        """
        if operands:
            yield operands
        if len(operands) > 1:
            size = {name: self.parts.graph.tensors[name].size for name in operands}
            by_size = sorted(operands, key=lambda name: -size[name])
            yield from ([name] for name in (operands if OPERATORS[node.op].multiplies_matrices else by_size))

    def _whole_name(self, name: str) -> str:
        """The name that a value has when it is whole, even if it has not been gathered yet."""
        whole = self.whole.get(name, f"{name}.{self.parts.suffix}.whole")
        if whole not in self.parts.graph.tensors:
            self.parts.named(whole, name)
        return whole

    def _make_whole(self, names: Sequence[str] | dict[str, str]) -> None:
        for name in names:
            self.gather(name)

    def gather(self, name: str) -> str:
        """Gather a value that chips have in parts.

        Its nodes are added once. Returns the name of the whole.
        """
        if name not in self.parts.axes or name in self.whole:
            return self.whole.get(name, name)
        maker, tensor = self.parts.makers.get(name), self.parts.graph.tensors[name]
        if maker is None and not tensor.is_float:
            raise WholeInput(name)
        whole = self.whole[name] = self._whole_name(name)
        again = maker is not None and (self._repeats(maker) or not tensor.is_float or self._of_integers(name))
        if again and maker is not None:
            inputs = tuple(self.gather(each) if each else each for each in maker.inputs)
            outputs = tuple(f"{whole}.of.{each}" if each and each != name else each for each in maker.outputs)
            outputs = tuple(whole if each == name else each for each in outputs)
            self.nodes.append(replace(maker, name=f"{whole}.again", inputs=inputs, outputs=outputs))
        else:
            axis = self.parts.axes[name]
            self.nodes.append(self.parts.groups.all_gather(f"{whole}.all_gather", tensor, axis, whole))
        return whole

    def _repeats(self, node: Node) -> bool:
        """True if a node moves all elements of one operand: a gather before it is no larger."""
        source, result = (self.parts.graph.tensors[names[0]] for names in (node.inputs, node.outputs))
        record = OPERATORS[node.op]
        return record.moves and record.keeps_elements and source.size <= result.size

    def _of_integers(self, name: str) -> bool:
        """True if a value in parts is computed from integers, element by element, as masks are."""
        if name not in self.parts.axes or not self.parts.graph.tensors[name].is_float:
            return True
        maker = self.parts.makers.get(name)
        if maker is None or not (self._repeats(maker) or OPERATORS[maker.op].needs is elementwise):
            return False
        return all(self._of_integers(each) for each in maker.inputs if each)


class WholeInput(Exception):
    """Raised if an input of integers must be whole, because chips do not send integers."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name
