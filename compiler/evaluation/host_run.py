"""Runs of a graph on the host that give equal bits on every machine, in binary32 with exact products.

The order in which a library adds the products of a matrix product depends on the processor. So operands are
rounded to whole multiples of a power of two, with so few bits that every sum in binary64 is exact in any
order. Between nodes values are binary32.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping

import numpy as np

from compiler.graph import FLOATS, Array, Graph, GraphError, Node
from compiler.operators import OPERATORS, call_of
from compiler.operators.expansion.builder import widened

_EXACT = 53
"""Bits of the whole numbers that binary64 has, and all their sums."""


def multiplications(graph: Graph) -> int:
    """Number of products of numbers that a run computes."""
    products = ((node, OPERATORS[node.op].product) for node in graph.nodes)
    return sum(
        graph.tensors[node.outputs[0]].size * product.terms(call_of(graph, node))
        for node, product in products
        if product is not None
    )


KeptGrids = dict[tuple[int, int], tuple[Array, Array]]
"""Constants on their grids, by identity and bits, with the original arrays."""


def on_grid(values: Array, bits: int) -> Array:
    """Values rounded to multiples of a power of two, the largest of them at most 2**bits multiples.

    Arrays with infinities or NaN stay unchanged.
    """
    largest = max(float(values.max(initial=0.0)), -float(values.min(initial=0.0)))
    if largest == 0.0 or not math.isfinite(largest):
        return values
    unit = math.ldexp(1.0, math.frexp(largest)[1] - bits)
    rounded = values / unit
    np.rint(rounded, out=rounded)
    rounded *= unit
    return rounded


class HostRun:
    """Runs one graph, any number of times; runs of similar graphs can share ``kept`` constants."""

    def __init__(self, graph: Graph, kept: KeptGrids | None = None) -> None:
        self.graph = graph
        self._constants = dict(graph.constants)
        self._kept: KeptGrids = {} if kept is None else kept
        known = set(self._constants)
        nodes = []
        for node in graph.nodes:
            if node.inputs and all(not name or name in known for name in node.inputs):
                known.update(node.outputs)
                self._fold(node)
            else:
                nodes.append(node)
        self._nodes = tuple(nodes)
        self._outputs = tuple(tensor.name for tensor in graph.outputs)

    def run(
        self,
        inputs: Mapping[str, Array],
        known: Mapping[str, Array] | None = None,
        seen: Callable[[str, Array], None] | None = None,
    ) -> dict[str, Array]:
        """The outputs by name; floats are float32.

        Values in ``known`` are not computed, nor values that only they need. ``seen`` is called with every
        input and every computed value.
        """
        values = {**inputs, **(known or {})}
        nodes = self._needed(values)
        uses = Counter(name for node in nodes for name in node.inputs)
        uses.update(self._outputs)
        if seen is not None:
            for name, array in inputs.items():
                seen(name, array)
        with np.errstate(all="ignore"):
            for node in nodes:
                for name, array in self._computed(node, values).items():
                    values[name] = array
                    if seen is not None:
                        seen(name, array)
                for name in node.inputs:
                    uses[name] -= 1
                    if not uses[name]:
                        values.pop(name, None)
        return {name: values[name] if name in values else self._constants[name] for name in self._outputs}

    def _needed(self, known: Mapping[str, Array]) -> list[Node]:
        """The nodes that outputs depend on, without those that only known values need."""
        wanted = {name for name in self._outputs if name not in known}
        found = []
        for node in reversed(self._nodes):
            if wanted.intersection(node.outputs):
                found.append(node)
                wanted.update(name for name in node.inputs if name and name not in known)
        return found[::-1]

    def _computed(self, node: Node, values: Mapping[str, Array]) -> dict[str, Array]:
        call = call_of(self.graph, node)
        operands: list[Array | None] = [
            self._operand(node, name, values) if name else None for name in node.inputs
        ]
        product = OPERATORS[node.op].product
        if product is not None:
            bits = _bits(product.terms(call))
            for at, name in enumerate(node.inputs[:2]):
                operands[at] = self._on_grid(node, name, operands[at], bits)
        try:
            results = OPERATORS[node.op].reference(call, *operands)
        except GraphError as error:
            raise GraphError([f"{node}: {text}" for text in error.messages]) from None
        pairs = zip(node.outputs, results, strict=False)
        return {name: self._stored(node, name, result) for name, result in pairs if name}

    def _operand(self, node: Node, name: str, values: Mapping[str, Array]) -> Array:
        """A value as a node reads it, floats in binary64."""
        return widened(values[name] if name in values else self._constants[name])

    def _stored(self, node: Node, name: str, result: Array) -> Array:
        """A result of a node in its form between nodes: floats in binary32."""
        array = np.asarray(result)
        return array.astype(np.float32) if array.dtype.name in (*FLOATS, "float64") else array

    def _on_grid(self, node: Node, name: str, operand: Array | None, bits: int) -> Array | None:
        """Return an operand of a product on its grid, kept if it is constant; integers are unchanged."""
        if operand is None or operand.dtype.kind != "f":
            return operand
        if name not in self._constants:
            return on_grid(operand, bits)
        array = self._constant(node, name)
        key = id(array), bits
        if key not in self._kept:
            self._kept[key] = array, on_grid(operand, bits).astype(np.float32)
        return widened(self._kept[key][1])

    def _constant(self, node: Node, name: str) -> Array:
        """A constant as a node reads it."""
        return self._constants[name]

    def _fold(self, node: Node) -> None:
        """Compute a node on constants once."""
        with np.errstate(all="ignore"):
            self._constants |= self._computed(node, {})


def _bits(terms: int) -> int:
    """Bits of both operands of a sum of ``terms`` products that is exact in binary64."""
    return (_EXACT - max(terms - 1, 0).bit_length()) // 2


def dependents(graph: Graph, names: Iterable[str]) -> set[str]:
    """The values that depend on some values of a graph, these included."""
    found = set(names)
    for node in graph.nodes:
        if found.intersection(node.inputs):
            found.update(node.outputs)
    return found
