"""Tables from which programs read a function of floats that ends in bytes.

Such a table has the byte of every pair of neighbouring FP16 numbers. A proof compares all its entries, but
those for NaN and infinities, with those that follow from the nodes of the graph. Only a table that is equal
to one of these stands for the nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np

from compiler.evaluation.field.run import FieldGraph, Recipe
from compiler.graph import Array, Graph, Node
from compiler.operators import OPERATORS, call_of
from compiler.operators.boxes.forms import elementwise
from compiler.operators.types import BYTES
from tx8isa.numbers.formats import Format
from tx8isa.numbers.prime_field import Elements, PrimeField

_PAIRS = 1 << 15
_IN = "x"
"""The name of the running value of nodes before the first one."""

Functions = Mapping[bytes, Callable[[Elements], Elements]]
"""Functions of elements, by the bytes of their tables."""
NO_FUNCTIONS: Functions = MappingProxyType({})


@dataclass(frozen=True)
class _Chain:
    """Nodes that compute one function of a float, one after another; the last one gives bytes."""

    graph: Graph
    nodes: Sequence[Node]

    def flat(self, size: int) -> Graph:
        """The graph of these nodes for a vector."""
        tensors = dict(self.graph.tensors)
        renamed, running = list[Node](), self._running(self.nodes[0])
        tensors[_IN] = replace(tensors[running], name=_IN, shape=(size,))
        for node in self.nodes:
            own = tuple(_IN if name == running and node is self.nodes[0] else name for name in node.inputs)
            renamed.append(replace(node, inputs=own))
            (made,) = node.outputs
            tensors[made] = replace(tensors[made], shape=(size,))
        last = tensors[self.nodes[-1].outputs[0]]
        return replace(
            self.graph,
            inputs=(tensors[_IN],),
            outputs=(last,),
            nodes=tuple(renamed),
            tensors=tensors,
            states=(),
        )

    def _running(self, node: Node) -> str:
        return next(name for name in node.inputs if name and name not in self.graph.constants)

    def table(self) -> bytes:
        """The entries for all pairs of FP16 numbers: the byte of the middle of each, as an FP16 number.

        They are 0 for NaN and infinities.
        """
        pairs = np.arange(2 * _PAIRS, dtype=np.uint16).view(np.float16).reshape(-1, 2).astype(np.float64)
        graph = self.flat(_PAIRS)
        with np.errstate(all="ignore"):
            values: dict[str, Array] = {_IN: pairs.mean(axis=1), **graph.constants}
            for node in graph.nodes:
                operands = [values[name] if name else None for name in node.inputs]
                (values[node.outputs[0]],) = OPERATORS[node.op].reference(call_of(graph, node), *operands)
        entries = values[graph.outputs[0].name].astype(np.float16)
        return np.where(np.isfinite(pairs[:, 0]), entries, np.float16(0)).tobytes()


def functions_of(graph: Graph, compute: Format, field: PrimeField, recipe: Recipe) -> Functions:
    """The functions of a graph that a table may hold, by the bytes of the table."""

    def function(chain: _Chain) -> Callable[[Elements], Elements]:
        def computed(x: Elements) -> Elements:
            flat = x.reshape(x.shape[0], -1)
            own = chain.flat(flat.shape[1])
            values = FieldGraph(own, compute, field, recipe).run({_IN: flat})
            found: Elements = values[own.outputs[0].name].reshape(x.shape)
            return found

        return computed

    return {chain.table(): function(chain) for chain in _chains(graph)}


def _chains(graph: Graph) -> Iterator[_Chain]:
    makers = {name: node for node in graph.nodes for name in node.outputs if name}
    for last in graph.nodes:
        if len(last.outputs) != 1 or graph.tensors[last.outputs[0]].dtype not in BYTES:
            continue
        nodes: list[Node] = []
        node: Node | None = last
        while node is not None and (before := _only_float(graph, node)) is not None:
            nodes.insert(0, node)
            if len(nodes) > 1:
                yield _Chain(graph, tuple(nodes))
            node = makers.get(before)


def _only_float(graph: Graph, node: Node) -> str | None:
    """Return the operand that decides each element of a node's only result; None if several do."""
    varying = [name for name in node.inputs if name and name not in graph.constants]
    others = [graph.constants[name] for name in node.inputs if name in graph.constants]
    alone = OPERATORS[node.op].needs is elementwise and len(node.outputs) == len(varying) == 1
    if not alone or not graph.tensors[varying[0]].is_float or any(each.size != 1 for each in others):
        return None
    return varying[0]
