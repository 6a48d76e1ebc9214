"""Runs a graph, as the rewrites leave it, in prime fields."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from compiler.evaluation.storage import STORAGE, within_range
from compiler.graph import FLOATS, Array, Graph, Node
from compiler.operators import OPERATORS, call_of, is_known
from compiler.operators.boxes.forms import elementwise
from compiler.operators.types import BYTES
from tx8isa.numbers.formats import Format
from tx8isa.numbers.prime_field import Elements, PrimeField
from tx8isa.numbers.rounding import rounded

from .byte_rules import of_integers
from .parts import Part, parts
from .rules import OF_ELEMENTS, OF_MADE, RULES, FieldCall, NotFollowed, is_elements
from .twin import holds_numbers, row_scales

Recipe = Callable[[Graph, Node, list[Elements | None]], Elements]
"""Computes a node, element by element, by the program of this node alone."""
Value = Any
"""Elements of floats; an array of integers or truth values, None where they follow from elements."""
Values = Mapping[str, Value]
"""The values of a graph, by name."""
Numbers = Callable[[Graph], Mapping[str, Array]]
"""Computes the outputs of a graph from the numbers of a run's inputs."""


class FieldGraph:
    """Computes a graph; ``compute`` is the format of its floats, ``recipe`` is for functions of elements.

    ``compiled``: the program was compiled from the graph.
    """

    def __init__(
        self, graph: Graph, compute: Format, field: PrimeField, recipe: Recipe, compiled: bool = True
    ) -> None:
        self.graph, self.compute, self.field, self._recipe = graph, compute, field, recipe
        self._compiled = compiled
        self._scales = row_scales(graph)
        self.by_recipe: set[str] = set()
        """Operators that were computed by their own programs."""
        self.not_followed: dict[str, str] = {}
        """Nodes without a meaning in the field, and what they do."""
        self.by_numbers: list[Node] = []
        """Nodes that find integers in floats, such as the places of the largest; numbers decide these."""
        self._integers: Mapping[str, Array] = {}
        self.decided: set[str] = set()
        """The values that follow from such integers."""

    def run(self, inputs: Mapping[str, Value], numbers: Numbers | None = None) -> dict[str, Value]:
        """Compute every value of the graph that is not given, by name; NaN stands for an unknown element.

        ``numbers`` decide about integers that nodes find in floats; without them these are unknown.
        """
        values: dict[str, Value] = {**self._constant_outputs(), **inputs}
        for node in self.graph.nodes:
            if all(name in values for name in node.outputs if name):
                continue
            try:
                results = self._computed(node, self.operands(node, values), self._format(node))
            except NotFollowed as reason:
                if numbers is not None and self._finds_integers(node, values):
                    results = self._by_numbers(node, numbers)
                else:
                    self.not_followed[node.name] = f"{node.op}: {reason}"
                    results = [self._unknown(name) for name in node.outputs]
            if not self.decided.isdisjoint(node.inputs):
                self.decided.update(node.outputs)
            values |= {name: found for name, found in zip(node.outputs, results, strict=False) if name}
        return values

    def _constant_outputs(self) -> dict[str, Value]:
        """The outputs that are constants."""
        found = dict[str, Value]()
        for tensor in self.graph.outputs:
            array = self.graph.constants.get(tensor.name)
            if array is not None and tensor.is_float:
                found[tensor.name] = self.field.of_stored(_rounded(array, self.compute), self.compute)
            elif array is not None:
                found[tensor.name] = array
        return found

    def _finds_integers(self, node: Node, values: Values) -> bool:
        """True if a node makes integers of floats about which all is known."""
        given = [values.get(name) for name in node.inputs if name and name not in self.graph.constants]
        known = all(x is not None and not (is_elements(x) and np.isnan(x).any()) for x in given)
        return known and not any(self.graph.tensors[name].is_float for name in node.outputs if name)

    def _by_numbers(self, node: Node, numbers: Numbers) -> list[Value]:
        """The integers that a node finds in a run of the graph with numbers."""
        self.by_numbers.append(node)
        self.decided.update(node.outputs)
        if not self._integers:  # one run computes those of all nodes
            made = (self.graph.tensors[name] for each in self.graph.nodes for name in each.outputs if name)
            integers = tuple(tensor for tensor in made if not tensor.is_float)
            self._integers = numbers(replace(self.graph, outputs=integers, states=()))
        return [self._integers.get(name) for name in node.outputs]

    def _unknown(self, name: str) -> Value:
        tensor = self.graph.tensors[name] if name else None
        if tensor is None or not tensor.is_float:
            return None
        return np.full((self.field.residues, *tensor.shape), np.nan)

    def _format(self, node: Node) -> Format:
        return Format.FP32 if node.name in self.graph.precise else self.compute

    def operands(self, node: Node, values: Mapping[str, Value]) -> list[Value]:
        """The operands of a node, among computed values and the constants."""
        return [self._operand(node, at, values) for at in range(len(node.inputs))]

    def parts(self, node: Node, values: Mapping[str, Value], index: tuple[int, ...]) -> list[Part]:
        """The sums in an element of a node's only result."""
        operands, work = self.operands(node, values), call_of(self.graph, node)
        shape = self.graph.tensors[node.outputs[0]].shape
        return list(parts(FieldCall(self.field, work, self._format(node)), node.op, operands, shape, index))

    def _operand(self, node: Node, at: int, values: Mapping[str, Value]) -> Value:
        name, fmt = node.inputs[at], self._format(node)
        if not name or name in values:
            return values.get(name)
        array = self.graph.constants[name]
        if array.dtype.name not in FLOATS:
            return array
        stored = fmt if is_known(node, at) else self._stored(name)
        if array.size == 1 and holds_numbers(node):
            return self.field.of_scalars(_limited(array, stored), Format.FP32)
        return self.field.of_stored(_rounded(array, stored), stored)

    def _stored(self, name: str) -> Format:
        """The format of a constant: FP32 if it scales rows, or only precise nodes read it."""
        if name in self._scales:
            return Format.FP32
        readers = [node for node in self.graph.nodes if name in node.inputs]
        return Format.FP32 if all(node.name in self.graph.precise for node in readers) else self.compute

    def _computed(self, node: Node, operands: list[Value], fmt: Format) -> list[Value]:
        call = call_of(self.graph, node)
        given = [at for at, name in enumerate(node.inputs) if name]
        if any(operands[at] is None for at in given):
            raise NotFollowed("it reads integers that were made of floats")
        floats = [at for at in given if self.graph.tensors[node.inputs[at]].is_float]
        made = [at for at in given if at not in floats and is_elements(operands[at])]
        moves = OPERATORS[node.op].moves or call.attrs.get("reduction") == "none"
        if made and node.op not in OF_MADE and not moves:
            raise NotFollowed("it reads truth values or bytes that were made of floats")
        if not floats and not made:
            return [self._of_numbers(found) for found in OPERATORS[node.op].reference(call, *operands)]
        numbers = None if made or node.op in OF_ELEMENTS else self._numbers(node, operands, floats)
        if numbers is not None:
            return list(OPERATORS[node.op].reference(call, *numbers))
        if node.op in RULES:
            return [RULES[node.op](FieldCall(self.field, call, fmt, self._compiled), *operands)]
        if moves:
            return self._moved(node, operands)
        if OPERATORS[node.op].needs is elementwise and floats == given and self._gives_floats(node):
            self.by_recipe.add(node.op)
            return [self._recipe(self.graph, node, operands)]
        raise NotFollowed("no meaning in the field")

    def _numbers(self, node: Node, operands: list[Value], floats: list[int]) -> list[Value] | None:
        """The operands as numbers, if integers and constants alone decide about integers; None otherwise."""
        if any(self.graph.tensors[name].is_float for name in node.outputs if name):
            return None
        if any(node.inputs[at] not in self.graph.constants for at in floats):
            return None
        return [self.graph.constants[node.inputs[at]] if at in floats else x for at, x in enumerate(operands)]

    def _is_byte(self, node: Node, at: int) -> bool:
        return self.graph.tensors[node.inputs[at]].dtype in BYTES

    def _gives_floats(self, node: Node) -> bool:
        return all(self.graph.tensors[name].is_float for name in node.outputs if name)

    def _of_numbers(self, found: Array) -> Value:
        """A result that follows from integers alone: floats are elements."""
        return self.field.of_numbers(found) if found.dtype.kind == "f" else found

    def _moved(self, node: Node, operands: list[Value]) -> list[Value]:
        """Move elements as the reference moves their numbers; number 0 stands for a zero."""
        dtype = self.graph.tensors[node.outputs[0]].dtype
        zero = np.zeros(1, dtype if dtype in BYTES else np.float64)
        kept, numbered, following = [of_integers(self.field, zero)], list(operands), 1
        for at, given in enumerate(operands):
            if given is None or not (is_elements(given) or self._is_byte(node, at)):
                continue
            elements = given if is_elements(given) else of_integers(self.field, given)
            shape = elements.shape[1:]
            size = int(np.prod(shape))
            numbered[at] = np.arange(following, following + size, dtype=np.float64).reshape(shape)
            following += size
            kept.append(elements.reshape(self.field.residues, -1))
        elements = np.concatenate(kept, 1)
        found = OPERATORS[node.op].reference(call_of(self.graph, node), *numbered)
        return [elements[:, np.asarray(each).astype(np.int64)] for each in found]


def held_numbers(graph: Graph) -> set[float]:
    """The single numbers of a graph: instructions may hold each rounded to one format or another."""
    found = {
        float(array.item())
        for array in graph.constants.values()
        if array.size == 1 and array.dtype.name in FLOATS
    }
    return found | {x for node in graph.nodes for x in node.attrs.values() if isinstance(x, float)}


def only_finds(graph: Graph) -> bool:
    """True if a graph finds integers in floats, such as places of the largest, and computes nothing else."""
    kinds = [_kind(graph, node) for node in graph.nodes]
    return "finds" in kinds and "computes" not in kinds


def _kind(graph: Graph, node: Node) -> str:
    """What a node does with floats: it finds integers in them, moves them, or computes with them."""
    reads = any(name and graph.tensors[name].is_float for name in node.inputs)
    makes = any(name and graph.tensors[name].is_float for name in node.outputs)
    if OPERATORS[node.op].moves or not (reads or makes):
        return "moves"
    return "finds" if reads and not makes and node.op not in RULES else "computes"


def _limited(array: Array, fmt: Format) -> npt.NDArray[np.float64]:
    """A single constant within the range of a format, as a number of FP32."""
    return within_range(array, STORAGE[fmt.token]).astype(np.float32).astype(np.float64)


def _rounded(array: Array, fmt: Format) -> npt.NDArray[np.float64]:
    """A constant as the program stores it."""
    storage = STORAGE[fmt.token]
    return np.asarray(rounded(within_range(array, storage), storage), np.float64)
