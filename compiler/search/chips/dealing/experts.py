"""Expert parallelism: every chip has some of the experts, and computes its part of their sum.

Experts are a leading axis of constant weights, ``[experts, rows, columns]``, whose products are added
afterwards. Or they are branches that are alike, each with separate weights. All chips compute the routing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from compiler.graph import Graph, GraphError, Node, Tensor
from compiler.operators import call_of
from compiler.operators.domains.chips.collectives import ALL_REDUCE
from compiler.operators.reductions.axes import reduced_axes
from compiler.search.chips.products import ChipGroups, added_up, both_sum_over
from compiler.search.chips.rules import DividedAxis, constants_divided, with_parts_of_constants
from compiler.search.chips.stage import ChipDivision

from .branches import Branches, Names, branches_of
from .walk import ExchangedParts, Walk

_NONE = "no experts: expected weights [experts, rows, columns], or a sum of branches that are alike"


def experts_dealt(graph: Graph, groups: ChipGroups) -> ChipDivision:
    """Divide the experts into ``groups.members`` parts; GraphError for a graph with fewer experts."""
    walk = _ExpertWalk(graph, ExchangedParts(graph, groups, "ep", divides_constants=True))
    branches = branches_of(graph)
    for node in graph.nodes:
        each = branches.get(node.outputs[0])
        if each is None or not walk.add_branches(each):
            walk.add(node)
    if not walk.dealt:
        raise GraphError([f"ep={groups.members}: {walk.uneven or _NONE}"])
    for past, present in graph.states:
        if present in walk.parts.axes:
            raise GraphError([f"ep={groups.members}: state {past}={present} is divided after a step"])
    return walk.division()


def has_experts(graph: Graph) -> bool:
    """True if there are weights of several experts, or branches that may be experts."""
    return any(_are_experts(graph, node) for node in graph.nodes) or bool(branches_of(graph))


def _are_experts(graph: Graph, node: Node) -> bool:
    """True if a node is a product with weights ``[experts, rows, columns]``, or of more axes."""
    if node.op != "MatMul" or node.inputs[1] not in graph.constants or node.inputs[0] in graph.constants:
        return False
    weights = graph.tensors[node.inputs[1]]
    return weights.rank > 2 and weights.shape[0] > 1


class _ExpertWalk(Walk):
    """Divides products by the first axis of their weights, and sums over that axis."""

    parts: ExchangedParts
    dealt = False
    """True if there are experts."""
    uneven = ""
    """The experts whose number the chips cannot share evenly, for a message."""

    def add(self, node: Node) -> bool:
        """Add a node; for a sum over experts, each chip computes its part."""
        if self._begins(node):
            self.dealt = True
            return True
        summed = self._summed(node)
        self.nodes += [*self.parts.take(), *summed]
        return bool(summed) or super().add(node)

    def _begins(self, node: Node) -> bool:
        """Add a product with weights of experts, divided by experts, if the node is one."""
        parts, tensors = self.parts, self.parts.graph.tensors
        if node.inputs[0] in parts.axes or not _are_experts(parts.graph, node):
            return False
        weights, result = tensors[node.inputs[1]], tensors[node.outputs[0]]
        if weights.shape[0] % parts.count:
            uneven = f"{node} has {weights.shape[0]} experts; expected a multiple of {parts.count}"
            self.uneven = self.uneven or uneven
            return False
        way = DividedAxis(result.rank - weights.rank)
        ways = constants_divided(parts, node, call_of(parts.graph, node), 0, way)
        if not ways:
            return False
        parts.divide(node.outputs[0], way)
        divided = with_parts_of_constants(parts, node, ways)
        self.nodes += [*parts.take(), divided]
        return True

    def _summed(self, node: Node) -> Sequence[Node]:
        """A sum over the divided axis: each chip's part of it, then the sum over chips.

        Empty for other nodes.
        """
        parts = self.parts
        axis = parts.axes.get(node.inputs[0]) if node.inputs else None
        if node.op == "ReduceSum" and axis in reduced_axes(call_of(parts.graph, node)):
            return _with_sum(node, parts.groups, parts.graph.tensors[node.outputs[0]].shape)
        if node.op != "MatMul" or not any(name in parts.axes for name in node.inputs):
            return ()
        names = [
            name if name in parts.axes else self._rows_of_sum(node, at) for at, name in enumerate(node.inputs)
        ]
        candidate = replace(node, inputs=tuple(names))
        return added_up(parts, candidate, parts.groups) if both_sum_over(parts, candidate) else ()

    def _rows_of_sum(self, node: Node, at: int) -> str:
        """A chip's part of a whole operand, if the other operand is divided along the summed axis."""
        other, own = (self.parts.graph.tensors[node.inputs[number]] for number in (1 - at, at))
        summed = (own.rank - 1, other.rank - 2) if at == 0 else (own.rank - 2, other.rank - 1)
        if min(own.rank, other.rank) < 2 or self.parts.axes[other.name] != summed[1]:
            return own.name
        return self.parts.part_of(own.name, summed[0])

    def add_branches(self, branches: Branches) -> bool:
        """Add a sum of branches, equally many for each chip; False if they cannot be shared."""
        count, found = self.parts.count, len(branches.terms)
        if found % count:
            node = self.parts.makers[branches.total]
            self.uneven = f"{node} adds {found} experts; expected a multiple of {count}"
            return False
        self.dealt = True
        terms = [self._branch(branches, at) for at in range(found // count)]
        self._add_up(terms, branches)
        return True

    def _branch(self, branches: Branches, at: int) -> str:
        """Add one branch for each chip; returns the name of its result."""
        parts, known = self.parts, dict[str, str]()
        for names in branches.constants:
            known[names[at]] = self._constant(names, at)
        for names, source, axis in branches.pieces:
            part = parts.part_of(self.gather(source), axis)
            known[names[at]] = self._piece(f"{names[at]}.ep", part, axis, at, parts.graph.tensors[names[at]])
        for names in branches.nodes:
            node = parts.makers[names[at]]
            own = known[names[at]] = f"{names[at]}.ep"
            parts.named(own, names[at])
            inputs = tuple(known.get(name) or (self.gather(name) if name else name) for name in node.inputs)
            self.nodes.append(replace(node, name=f"{node.name}.ep", inputs=inputs, outputs=(own,)))
        return known[branches.terms[at]]

    def _constant(self, names: Names, at: int) -> str:
        """The constant of a branch, which differs between the chips.

        Integers are selected at run time, because code may depend on them.
        """
        parts, own = self.parts, f"{names[at]}.ep"
        tensor, values = parts.graph.tensors[names[at]], [parts.graph.constants[name] for name in names]
        if all(np.array_equal(value, values[0]) for value in values):
            return names[0]
        if tensor.is_float:
            each = len(names) // parts.count
            parts.chosen[own] = tuple(names[at + place * each] for place in range(parts.count))
            parts.named(own, names[at])
            return own
        known = len(parts.literals)
        stacked = parts.literal(f"{names[0]}.experts", np.stack(values))
        if len(parts.literals) > known:
            parts.define(replace(tensor, name=stacked, shape=(len(names), *tensor.shape)))
        return self._piece(own, parts.part_of(stacked, 0), 0, at, tensor)

    def _piece(self, name: str, part: str, axis: int, at: int, like: Tensor) -> str:
        """Add a node that takes a branch's piece from a chip's part of all branches' pieces."""
        parts, known = self.parts, self.parts.graph.tensors
        self.nodes += parts.take()
        if name in known:
            return name
        parts.define(replace(like, name=name))
        size = known[part].shape[axis] * like.size // known[part].size
        numbers = {"begin": at * size, "end": at * size + size, "axis": axis}
        bounds = [parts.literal(f"{name}.{key}", np.array([value])) for key, value in numbers.items()]
        shape = parts.literal(f"{name}.shape", np.array(like.shape, np.int64))
        self.nodes.append(Node("Slice", f"{name}.slice", (part, *bounds), (f"{name}.slice",), {}))
        self.nodes.append(
            Node("Reshape", f"{name}.piece", (f"{name}.slice", shape), (name,), {"allowzero": 0})
        )
        return name

    def _add_up(self, terms: Names | Sequence[str], branches: Branches) -> None:
        """Add the sum of a chip's branches, the sum over chips, and the sum with the other addends."""
        total, parts = branches.total, self.parts
        partial = terms[0]
        for at, term in enumerate(terms[1:]):
            partial = self._plus(partial, term, f"{total}.ep.{at}")
        value = f"{total}.experts" if branches.others else total
        if branches.others:
            parts.named(value, total)
        attrs = parts.groups.attrs(ALL_REDUCE, parts.graph.tensors[total].shape)
        self.nodes.append(Node(ALL_REDUCE, f"{total}.all_reduce", (partial,), (value,), attrs))
        for at, other in enumerate(branches.others):
            last = at == len(branches.others) - 1
            value = self._plus(value, self.gather(other), total if last else f"{total}.with.{at}")

    def _plus(self, one: str, other: str, total: str) -> str:
        self.parts.named(total, one)
        self.nodes.append(Node("Add", f"{total}.plus", (one, other), (total,), {}))
        return total


def _with_sum(node: Node, groups: ChipGroups, shape: tuple[int, ...]) -> list[Node]:
    """A node whose result the chips must add up."""
    partial = f"{node.outputs[0]}.partial"
    reduce = Node(
        ALL_REDUCE, f"{node.name}.all_reduce", (partial,), node.outputs, groups.attrs(ALL_REDUCE, shape)
    )
    return [replace(node, outputs=(partial,)), reduce]
