"""Finds equal branches whose results are added, such as experts that a model computes one by one.

They have the same operators on the same values. Each has separate constants, and a separate piece of some
values, such as its column of the routing.
"""

from __future__ import annotations

import math
import operator
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import or_

import numpy as np

from compiler.graph import Box, Graph, Node
from compiler.operators import OPERATORS, call_of
from compiler.operators.record import Law

Names = tuple[str, ...]
"""A value of each branch, in the order of the branches."""


class _Unlike(Exception):
    """Raised if branches differ in more than constants and pieces."""


@dataclass
class Branches:
    """Branches whose sum, plus the sum of ``others``, is the value ``total``."""

    total: str
    terms: Names
    """The values that are added up, one of each branch, in the order of the pieces."""
    others: Names
    constants: list[Names] = field(default_factory=list)
    pieces: list[tuple[Names, str, int]] = field(default_factory=list)
    """Pieces of a value along an axis: the value, and the axis."""
    nodes: list[Names] = field(default_factory=list)
    """The results of the nodes of all branches, in the order in which they are computed."""


def branches_of(graph: Graph) -> dict[str, Branches]:
    """Sums of branches that are alike and have products with constant weights, by the names of the sums."""
    search = _Search(graph)
    inner: set[str] = set()
    found: dict[str, Branches] = {}
    for node in reversed(graph.nodes):
        if Law.SUM in OPERATORS[node.op].laws and node.outputs[0] not in inner:
            terms = [*search.addends(node.outputs[0], inner)]
            each = search.alike(node.outputs[0], terms) if len(terms) > 1 else None
            if each is not None:
                found[each.total] = each
    return found


class _Search:
    """Compares the terms of sums. Sets of nodes are numbers with a bit for each."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.makers = {name: node for node in graph.nodes for name in node.outputs if name}
        self.uses = Counter(name for node in graph.nodes for name in node.inputs)
        self.uses.update(tensor.name for tensor in graph.outputs)
        self.own: dict[str, int] = {}
        """By value: the node that makes it."""
        self.above: dict[str, int] = {}
        """By value: all nodes that it is computed by."""
        self.weighted = 0
        """Products with constant weights."""
        for number, node in enumerate(graph.nodes):
            bit = 1 << number
            if OPERATORS[node.op].multiplies_matrices and node.inputs[1] in graph.constants:
                self.weighted |= bit
            above = reduce(or_, (self.above.get(name, 0) for name in node.inputs), bit)
            self.own |= dict.fromkeys(node.outputs, bit)
            self.above |= dict.fromkeys(node.outputs, above)

    def is_piece(self, node: Node) -> bool:
        """True if a node takes a part of its first operand, since each branch may take a different part."""
        sizes = (self.graph.tensors[names[0]].size for names in (node.outputs, node.inputs) if names)
        return OPERATORS[node.op].moves and operator.lt(*sizes)

    def addends(self, total: str, inner: set[str]) -> Iterator[str]:
        """The addends of a value; sums between them are recorded."""
        shape = self.graph.tensors[total].shape
        for name in self.makers[total].inputs:
            maker = self.makers.get(name)
            alone = self.uses[name] == 1 and self.graph.tensors[name].shape == shape
            if maker is not None and Law.SUM in OPERATORS[maker.op].laws and alone:
                inner.add(name)
                yield from self.addends(name, inner)
            else:
                yield name

    def alike(self, total: str, terms: Sequence[str]) -> Branches | None:
        """The sum with its largest set of terms that are alike; None if there is none."""
        once = shared = 0
        for name in terms:
            above = self.above.get(name, 0)
            once, shared = once | above, shared | once & above
        groups: dict[Hashable, list[str]] = {}
        for name in terms:
            if self.above.get(name, 0) & ~shared & self.weighted:
                groups.setdefault(self._form(name, shared, {}), []).append(name)
        most = max(groups.values(), key=len, default=[])
        try:
            others = tuple(name for name in terms if name not in most)
            return _Match(self, total, tuple(most), others).branches() if len(most) > 1 else None
        except _Unlike:
            return None

    def _form(self, name: str, shared: int, known: dict[str, Hashable]) -> Hashable:
        """A key that is equal for terms that may be alike.

        Nodes are ``shared`` by terms, or a term's own.
        """
        if name in known:
            return known[name]
        maker, is_shared = self.makers.get(name), self.own.get(name, 0) & shared
        form: Hashable = name
        if name in self.graph.constants:
            form = self.graph.tensors[name].shape, self.graph.tensors[name].dtype
        elif maker is not None and self.is_piece(maker) and not self.above.get(maker.inputs[0], 0) & ~shared:
            form = maker.op, maker.inputs[0]
        elif maker is not None and not is_shared:
            operands = (self._form(each, shared, known) for each in maker.inputs)
            form = maker.op, tuple(sorted(maker.attrs.items())), *operands
        known[name] = form
        return form


class _Match:
    """Compares terms that may be alike; raises _Unlike if they are not."""

    def __init__(self, search: _Search, total: str, terms: Names, others: Names) -> None:
        self.search, self.graph, self.makers = search, search.graph, search.makers
        self.found = Branches(total, terms, others)
        self._owner: dict[tuple[int, str], Names] = {}
        """By branch and value: the names with which it was compared."""

    def branches(self) -> Branches:
        """The branches in the order of their pieces."""
        found = self.found
        self._match(found.terms)
        orders = {
            tuple(sorted(range(len(names)), key=lambda at: self._interval(names[at], axis)))
            for names, _, axis in found.pieces
        }
        if len(orders) > 1:
            raise _Unlike
        for order in orders:

            def ordered(names: Names, order: Sequence[int] = order) -> Names:
                return tuple(names[at] for at in order)

            found.terms = ordered(found.terms)
            found.constants = [ordered(names) for names in found.constants]
            found.nodes = [ordered(names) for names in found.nodes]
            found.pieces = [(ordered(names), source, axis) for names, source, axis in found.pieces]
        return found

    def _match(self, names: Names) -> None:
        """Compare a value of each branch, and all that it is computed from."""
        if len(set(names)) == 1:
            return
        if any(self._owner.setdefault((at, name), names) != names for at, name in enumerate(names)):
            raise _Unlike
        known = (*self.found.constants, *self.found.nodes, *(each for each, _, _ in self.found.pieces))
        if names in known:
            return
        if all(name in self.graph.constants for name in names):
            self.found.constants.append(names)
            return
        nodes = [self.makers[name] for name in names if name in self.makers]
        if len(nodes) < len(names) or len({node.op for node in nodes}) > 1:
            raise _Unlike
        if self.search.is_piece(nodes[0]) and len({node.inputs[0] for node in nodes}) == 1:
            source = nodes[0].inputs[0]
            self.found.pieces.append((names, source, self._axis_of_pieces(names, source)))
            return
        self._match_operands(nodes)
        self.found.nodes.append(names)

    def _match_operands(self, nodes: Sequence[Node]) -> None:
        first, record = nodes[0], OPERATORS[nodes[0].op]
        same = all(len(node.inputs) == len(first.inputs) and node.attrs == first.attrs for node in nodes)
        if not same or any(len(node.outputs) > 1 or node.bodies for node in nodes):
            raise _Unlike
        for at, names in enumerate(zip(*(node.inputs for node in nodes), strict=True)):
            if not record.inputs[min(at, len(record.inputs) - 1)].constant:
                self._match(names)
            elif any(names):
                arrays = [self.graph.constants[name] for name in names if name in self.graph.constants]
                if len(arrays) < len(names) or not all(np.array_equal(each, arrays[0]) for each in arrays):
                    raise _Unlike

    def _interval(self, piece: str, axis: int) -> tuple[int, int]:
        """The begin and the end of a piece in its source."""
        return self._box(piece).intervals[axis]

    def _box(self, piece: str) -> Box:
        node = self.makers[piece]
        wanted = [
            Box.whole(self.graph.tensors[name].shape) if name == piece else None for name in node.outputs
        ]
        box = OPERATORS[node.op].needed(call_of(self.graph, node), wanted)[0]
        if box is None:
            raise _Unlike
        return box

    def _axis_of_pieces(self, names: Names, source: str) -> int:
        """The axis of the source that the pieces divide evenly and completely."""
        shape, sizes = self.graph.tensors[source].shape, {self.graph.tensors[name].size for name in names}
        count = len(names)
        for axis, extent in enumerate(shape):
            step = extent // count
            boxes = [Box.whole(shape).along(axis, at * step, at * step + step) for at in range(count)]
            found = sorted((self._box(name) for name in names), key=lambda box: box.intervals[axis])
            even = step > 0 and step * count == extent and found == boxes and sizes == {boxes[0].size}
            if even and (step == 1 or all(map(self._in_order, names))):
                return axis
        raise _Unlike

    def _in_order(self, piece: str) -> bool:
        """True if the elements of a piece are in the order of its source."""
        node = self.makers[piece]
        call = call_of(self.graph, node)
        shape = call.shape(0)
        places = np.arange(math.prod(shape)).reshape(shape)
        found = OPERATORS[node.op].reference(call, places, *call.values[1:])[node.outputs.index(piece)]
        return np.array_equal(found.ravel(), places[self._box(piece).slices].ravel())
