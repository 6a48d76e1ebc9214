"""Divides a product whose columns are split afterwards into one product for each piece.

Exporters and authors join the weights of queries, keys and values side by side in one product. Its columns
cannot be divided over chips by heads: a chip would get queries only. Operators between the product and the
split that do the same to each piece are moved after the split.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

import numpy as np

from compiler.graph import Array, Graph, Node, Tensor
from compiler.operators import OPERATORS, call_of
from compiler.operators.boxes.forms import elementwise
from compiler.operators.types import axis_from_front


def with_split_products(graph: Graph, kept: frozenset[str] = frozenset()) -> Graph:
    """The graph in which no product with constant weights is split by columns afterwards, except the ``kept``
    nodes.
    """
    while True:
        for node in graph.nodes:
            if node.op == "Split" and (found := _Pieces(graph, kept).of(node)) is not None:
                graph = found
                break
        else:
            return graph


class _Unsplit(Exception):
    """Raised if the computation of a value differs between the pieces."""


class _Pieces:
    """Writes the pieces of one split."""

    def __init__(self, graph: Graph, kept: frozenset[str]) -> None:
        self.graph, self.kept = graph, kept
        self.makers = {name: node for node in graph.nodes for name in node.outputs if name}
        self.uses = Counter(name for node in graph.nodes for name in node.inputs)
        self.uses.update(tensor.name for tensor in graph.outputs)
        self.tensors, self.constants = dict(graph.tensors), dict(graph.constants)
        self.replaced: dict[str, list[Node]] = {}
        """By name of a node of the graph: the nodes that replace it."""

    def of(self, split: Node) -> Graph | None:
        """The graph with the pieces of a split computed one by one; None if that is impossible."""
        if split.name in self.kept:
            return None
        source = self.graph.tensors[split.inputs[0]]
        axis, begin = axis_from_front(call_of(self.graph, split).integer("axis"), source.rank), 0
        self.replaced[split.name] = []
        try:
            for name in split.outputs:
                end = begin + self.graph.tensors[name].shape[axis]
                self._make(split.inputs[0], name, axis, begin, end)
                begin = end
        except _Unsplit:
            return None
        nodes = tuple(new for node in self.graph.nodes for new in self.replaced.get(node.name, [node]))
        return replace(self.graph, nodes=nodes, tensors=self.tensors, constants=self.constants)

    def _make(self, value: str, piece: str, axis: int, begin: int, end: int) -> None:
        """Write nodes that compute a piece of a value, ``begin`` to ``end`` of an axis, under a name."""
        node, whole = self.makers.get(value), self.graph.tensors[value]
        if node is None or node.name in self.kept or self.uses[value] > 1 or len(node.outputs) != 1:
            raise _Unsplit
        shape = (*whole.shape[:axis], end - begin, *whole.shape[axis + 1 :])
        self.tensors[piece] = Tensor(piece, whole.dtype, shape)
        made = self.replaced.setdefault(node.name, [])
        of_piece = replace(node, name=f"{node.name}.{begin}", outputs=(piece,))
        if OPERATORS[node.op].multiplies_matrices:
            made.append(self._product(of_piece, axis, begin, end))
            return
        source, at = self._source(node, axis)
        scale = self.graph.tensors[source].shape[at] // whole.shape[axis]
        below = f"{piece}.of"
        while below in self.tensors:
            below += "+"
        self._make(source, below, at, begin * scale, end * scale)
        inputs = (below, *node.inputs[1:])
        if node.op == "Reshape":
            inputs = below, self._constant(f"{piece}.shape", np.array(shape, np.int64))
            of_piece = replace(of_piece, attrs={"allowzero": 0})
        made.append(replace(of_piece, inputs=inputs))

    def _source(self, node: Node, axis: int) -> tuple[str, int]:
        """The operand whose piece a node needs for a piece of its result, and the axis in it."""
        source, result = (self.graph.tensors[name] for name in (node.inputs[0], node.outputs[0]))
        others = [self.graph.tensors[name] for name in node.inputs[1:] if name]
        if node.op == "Transpose":
            perm = call_of(self.graph, node).integers("perm") or tuple(reversed(range(source.rank)))
            return source.name, perm[axis]
        if node.op == "RotaryEmbedding" and source.rank == 4 and axis == 1:
            return source.name, axis
        if node.op == "Reshape":
            outer = math.prod(result.shape[:axis])
            fits = (a for a in range(source.rank) if math.prod(source.shape[:a]) == outer)
            at = next((a for a in fits if source.shape[a] % result.shape[axis] == 0), None)
            if at is not None and source.shape[at] > 1:
                return source.name, at
        alone = OPERATORS[node.op].needs is elementwise and source.shape == result.shape
        if alone and all(other.size == 1 for other in others):
            return source.name, axis
        raise _Unsplit

    def _product(self, node: Node, axis: int, begin: int, end: int) -> Node:
        """A product of some columns of the weights."""
        weights = self.graph.constants.get(node.inputs[1])
        rank = len(self.tensors[node.outputs[0]].shape)
        if weights is None or weights.ndim != 2 or axis != rank - 1:
            raise _Unsplit
        across = bool(node.attrs.get("transB"))
        columns = weights[begin:end] if across else weights[:, begin:end]
        inputs = [node.inputs[0], self._constant(f"{node.inputs[1]}.{begin}", columns), *node.inputs[2:]]
        if len(inputs) > 2 and inputs[2]:
            bias = self.graph.constants.get(inputs[2])
            if bias is None:
                raise _Unsplit
            if bias.ndim and bias.shape[-1] > 1:
                inputs[2] = self._constant(f"{inputs[2]}.{begin}", bias[..., begin:end])
        return replace(node, inputs=tuple(inputs))

    def _constant(self, name: str, value: Array) -> str:
        while name in self.tensors:
            name += "+"
        self.constants[name] = np.ascontiguousarray(value)
        self.tensors[name] = Tensor(name, value.dtype.name, value.shape)
        return name
