"""Finds what makes an element wrong: terms of a sum that a program leaves out, has twice, or exchanges.

A sum is exact in a field, so an element that lacks a term is a certain other element, which the program has
computed if that is its mistake. The graph with that mistake must then give the wrong output: nothing is named
that does not explain it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from compiler.evaluation.field.parts import Index, Part, Places, shifted, taken
from compiler.evaluation.field.run import FieldGraph
from compiler.graph import Node
from tx8isa.numbers.prime_field import Elements

from .field_run import FieldOutcome

_CANDIDATES = 1 << 20
"""Elements that are looked for among the results of instructions, for each sum and kind of mistake."""
_SHIFTS = 1 << 12
"""Other places that are tried for a factor."""
_PIECE = 1 << 16
"""Candidates that are looked for at a time."""
_NODES = 16
"""Nodes whose sums are tried."""
_TRIALS = 24
"""Mistakes that are tried on the graph."""


@dataclass(frozen=True)
class Mistake:
    """Terms of an element that a program does not have as the graph has them."""

    part: Part
    operands: tuple[Elements, ...]
    kind: str
    """``missing``, ``twice``, or ``other``: with a factor from another place."""
    chosen: Places
    """The numbers of the terms."""
    key: int
    """The key of the wrong element."""
    maker: int
    """The number of the instruction that has computed it."""
    factor: int = 0
    """The position of the wrong factor."""
    by: int = 0
    """The distance of the wrong factor from the right one in its operand."""

    def difference(self, wanted: FieldGraph) -> Elements:
        """Return the difference in all elements of the node that has the part."""
        own = self.part.of_terms(self.operands, self.chosen)
        if self.kind != "other":
            return own if self.kind == "twice" else -own
        moved, x = list(self.operands), self.operands[self.factor]
        places = shifted(np.arange(x[0].size), x[0].size, self.by)
        moved[self.factor] = taken(x, places).reshape(x.shape)
        return wanted.field.subtract(self.part.of_terms(moved, self.chosen), own)

    def text(self, node: Node, shapes: Sequence[Index]) -> str:
        """Describe the mistake in an element; ``shapes``: the operands' shapes."""

        def factor(number: int, term: int, by: int = 0) -> str:
            at = self.part.operands[number]
            where = np.unravel_index(int(self.part.places[number][term]) + by, shapes[number])
            return f"{node.inputs[at]}{[int(each) for each in where]}"

        def product(term: int) -> str:
            return " * ".join(factor(number, term) for number in range(len(shapes)))

        first, last = int(self.chosen[0]), int(self.chosen[-1])
        many = f"{self.chosen.size:,} of {self.part.places[0].size:,} terms"
        if self.kind == "other":
            text = f"has {factor(self.factor, first, self.by)} in place of {factor(self.factor, first)}"
            if first != last:
                return f"{text} and so on in {many}"
            return f"{text} in {product(first)}" if len(shapes) > 1 else text
        verb = "lacks" if self.kind == "missing" else "has twice"
        return f"{verb} {product(first)}" + (f" to {product(last)}, {many}" if first != last else "")


@dataclass(frozen=True)
class TermSearch:
    """The elements of a graph, and the elements that the instructions of a wrong program have computed."""

    wanted: FieldGraph
    values: Mapping[str, Any]
    run: FieldOutcome

    def explanation(self, output: str, index: Index) -> str:
        """Explain why an element of an output is wrong; empty if no mistake is found that explains it."""
        field = self.wanted.field
        got = field.canonical(_element(self.run.outputs[output], index))
        trials = 0
        for node, lacking in self._lacking(output):
            for source, mistake in self._mistakes(node, lacking):
                own = self.values[node.outputs[0]]
                wrong = field.add(own, mistake.difference(self.wanted))
                for changed in (np.where(lacking, wrong, own), wrong):
                    found = _element(self._with(node, changed)[output], index)
                    if (field.canonical(found) == got).all():
                        return self._text(source, _first(lacking), mistake)
                trials += 1
                if trials >= _TRIALS:
                    return ""
        return ""

    def _lacking(self, output: str) -> Iterator[tuple[Node, npt.NDArray[np.bool_]]]:
        """The first nodes with elements that no instruction computes, and those elements.

        Each comes after the nodes that it reads, all of whose elements may be other ones when it does so, and
        the node of the output comes last.
        """
        graph, results, number = self.wanted.graph, self.run.computed, 0
        assert results is not None
        makers = {name: node for node in graph.nodes for name in node.outputs}
        used = _needed(graph.nodes, {output})
        for node in graph.nodes:
            name = node.outputs[0]
            if name not in used or len(node.outputs) > 1 or not graph.tensors[name].is_float:
                continue
            lacking = ~results.have(self.wanted.field.keys(self.values[name]))
            if not lacking.any():
                continue
            for before in (makers[each] for each in node.inputs if each in makers):
                shape = graph.tensors[before.outputs[0]].shape
                if len(before.outputs) == 1 and graph.tensors[before.outputs[0]].is_float:
                    yield before, np.ones(shape, np.bool_)
            yield node, lacking
            number += 1
            if number >= _NODES:
                break
        last = makers.get(output)
        if last is not None and len(last.outputs) == 1:
            yield last, np.ones(graph.tensors[output].shape, np.bool_)

    def _mistakes(self, node: Node, lacking: npt.NDArray[np.bool_]) -> Iterator[tuple[Node, Mistake]]:
        """Mistakes in a node, or in one before a sum, whose element the program has computed.

        Simple and small terms come first, and last the terms that make another element of the node right.
        """
        index, name = _first(lacking), node.outputs[0]
        element = _element(self.values[name], index)
        own = set(self.wanted.field.keys(self.values[name]).ravel().tolist())
        places = list[tuple[Node, Part, tuple[Elements, ...]]]()
        for source in (node, *self._summands(node)):
            operands = self.wanted.operands(source, self.values)
            for part in self.wanted.parts(source, self.values, index):
                places.append((source, part, tuple(operands[at] for at in part.operands)))
        for kind in (self._left_out, self._exchanged):
            found = [(node, each) for node, part, x in places for each in kind(part, x, element)]
            yield from sorted(found, key=lambda each: (each[1].key in own, each[1].chosen.size))

    def _summands(self, node: Node) -> list[Node]:
        """The nodes whose results a sum adds up, in its own shape."""
        graph = self.wanted.graph
        index = (0,) * len(graph.tensors[node.outputs[0]].shape)
        own = self.wanted.parts(node, self.values, index)
        if len(own) != len(node.inputs) or any(part.axes for part in own):
            return []  # no sum of operands
        shape = graph.tensors[node.outputs[0]].shape
        return [
            each
            for each in graph.nodes
            if each.outputs[0] in node.inputs and graph.tensors[each.outputs[0]].shape == shape
        ]

    def _left_out(self, part: Part, factors: tuple[Elements, ...], element: Elements) -> Iterator[Mistake]:
        terms = part.terms(self.wanted.field, factors, part.places)
        for kind, sign in (("missing", -1.0), ("twice", 1.0)):
            for found in self._computed(part, element, sign * terms, _CANDIDATES):
                yield Mistake(part, factors, kind, *found)

    def _exchanged(self, part: Part, factors: tuple[Elements, ...], element: Elements) -> Iterator[Mistake]:
        field = self.wanted.field
        terms = part.terms(field, factors, part.places)
        shifts = list(itertools.islice(_shifts([x.shape[1:] for x in factors]), _SHIFTS))
        for factor, by in shifts:
            places = list(part.places)
            places[factor] = shifted(places[factor], factors[factor][0].size, by)
            other = field.subtract(part.terms(field, factors, places), terms)
            for found in self._computed(part, element, other, _CANDIDATES // len(shifts)):
                if (places[factor][found[0]] >= 0).all():  # else it lacks the term
                    yield Mistake(part, factors, "other", *found, factor, by)

    def _computed(
        self, part: Part, element: Elements, changes: Elements, most: int
    ) -> Iterator[tuple[Places, int, int]]:
        """The terms, some in a row, whose changes make of an element one that the program has computed."""
        field, count, results = self.wanted.field, changes.shape[1], self.run.computed
        assert results is not None
        different = (field.canonical(changes) != 0).any(0)
        for order in part.orders:
            sums = np.cumsum(changes[:, order], 1)
            sums = np.concatenate([np.zeros((sums.shape[0], 1)), sums], 1)
            for first, end in _spans(count, most):
                keys = field.keys(field.reduced(element[:, None] + sums[:, end] - sums[:, first]))
                makers = results.numbers(keys)
                for at in np.flatnonzero(makers):
                    chosen = order[first[at] : end[at]]
                    chosen = chosen[different[chosen]]
                    if chosen.size:
                        yield chosen, int(keys[at]), int(makers[at])

    def _with(self, node: Node, changed: Elements) -> dict[str, Any]:
        """The values of the graph if those of one node are changed."""
        after = {node.outputs[0]}
        for each in self.wanted.graph.nodes:
            if after.intersection(each.inputs):
                after.update(each.outputs)
        kept = {name: value for name, value in self.values.items() if name not in after}
        return self.wanted.run({**kept, node.outputs[0]: changed})

    def _text(self, node: Node, index: Index, mistake: Mistake) -> str:
        by = self.run.instruction(mistake.maker)
        what = mistake.text(node, [x.shape[1:] for x in mistake.operands])
        return f"{node}: {node.outputs[0]}{list(index)} {what}, computed by {by}"

    def instead(self, output: str, index: Index) -> str:
        """Name the other element of the graph that an output's element equals; empty if none or several."""
        field = self.wanted.field
        element = field.canonical(_element(self.run.outputs[output], index))
        if not element.any():
            return "0"
        got = field.keys(element[:, None])
        for name in (output, *reversed(list(self.values))):
            value = self.values[name]
            if name in self.wanted.graph.tensors and self.wanted.graph.tensors[name].is_float:
                places = np.argwhere(field.keys(value) == got)
                if len(places):
                    return f"{name}{places[0].tolist()}" if len(places) == 1 else ""
        return ""


def _element(x: Elements, index: Index) -> Elements:
    """The residues of one element."""
    at: Any = (slice(None), *index)
    found: Elements = x[at]
    return found


def _first(chosen: npt.NDArray[np.bool_]) -> Index:
    return tuple(int(at) for at in np.argwhere(chosen)[0])


def _needed(nodes: Sequence[Node], names: set[str]) -> set[str]:
    """The values from which some are computed, with them."""
    found = set(names)
    for node in reversed(nodes):
        if found.intersection(node.outputs):
            found.update(node.inputs)
    return found


def _shifts(shapes: Sequence[Index]) -> Iterator[tuple[int, int]]:
    """A factor, and a distance in its operand: along its axes, then any; short ones first."""
    for by in range(1, max(itertools.chain(*shapes), default=1)):
        for factor, shape in enumerate(shapes):
            for axis, extent in enumerate(shape):
                if by < extent:
                    stride = math.prod(shape[axis + 1 :])
                    yield from ((factor, by * stride), (factor, -by * stride))
    sizes = [math.prod(shape) for shape in shapes]
    for by in range(1, max(sizes)):
        for factor, size in enumerate(sizes):
            if by < size:
                yield from ((factor, by), (factor, -by))


def _spans(count: int, most: int) -> Iterator[tuple[Places, Places]]:
    """Spans of terms: each term alone, and all spans between multiples of a number; about ``most``."""
    alone = np.arange(count)
    yield alone, alone + 1
    step = next(each for each in (1 << power for power in range(64)) if (count // each) ** 2 <= 2 * most)
    edges = np.unique(np.append(np.arange(0, count, step), count))
    first, end = (edges[each] for each in np.triu_indices(edges.size, 1))
    for at in range(0, first.size, _PIECE):
        yield first[at : at + _PIECE], end[at : at + _PIECE]
