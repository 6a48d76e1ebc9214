"""Scales channels between two products so that one scale suits all channels; results do not change.

The weights that make a value are divided by a factor per channel, and the weights that read it are multiplied
by it. Operators between them must commute with positive factors, as a Relu does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from compiler.graph import Array, Graph, Node
from compiler.operators import OPERATORS, call_of
from compiler.operators.record import Law

from .places import Places
from .ranges.observation import Channels

_SWEEPS = 3
_MOST = 1024.0
"""The largest factor; with a larger one, a channel of small values would leave the range of fp16."""


@dataclass(frozen=True)
class ScaledOperand:
    """A constant operand of a node; ``axis`` is the axis of the scaled channels."""

    node: str
    position: int
    axis: int


@dataclass(frozen=True)
class ScaledValue:
    """A value whose channels can be scaled; ``makers``: the constants that determine it, product weights
    first."""

    value: str
    axis: int
    makers: tuple[ScaledOperand, ...]
    readers: tuple[ScaledOperand, ...]

    @property
    def channels(self) -> Channels:
        return self.value, self.axis


class Scaling:
    """A graph whose channels are being scaled."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._places = Places(graph)
        self._constants = dict(graph.constants)
        self._inputs = {node.name: list(node.inputs) for node in graph.nodes}
        self._made: dict[tuple[str, int], str] = {}
        self.sites = tuple(self._sites())

    def equalise(self) -> None:
        """Give the weights before and after each value the same range in each channel."""
        for _ in range(_SWEEPS):
            for site in self.sites:
                before, behind = self._range(site.makers[:1]), self._range(site.readers)
                self._scale(site, np.sqrt(_ratio(before, behind)))

    def smooth(self, share: float, largest: Callable[[str, int], Array]) -> None:
        """Move a share of the spread of a value's channels into the weights that read it.

        ``largest``: of a value and the axis of its channels, the largest magnitude seen in each.
        """
        for site in self.sites:
            spread, weights = largest(*site.channels).astype(np.float64), self._range(site.readers)
            self._scale(site, _ratio(spread**share, weights ** (1.0 - share)))

    def scaled(self) -> Graph:
        """Return the graph with the factors so far."""
        nodes = tuple(replace(node, inputs=tuple(self._inputs[node.name])) for node in self.graph.nodes)
        tensors = dict(self.graph.tensors)
        for (name, position), made in self._made.items():
            old = self._places.node(name).inputs[position]
            tensors[made] = replace(tensors[old], name=made)
        return replace(self.graph, nodes=nodes, constants=self._constants, tensors=tensors)

    # --- where ------------------------------------------------------------------------------------------

    def _sites(self) -> Iterator[ScaledValue]:
        for node in self.graph.nodes:
            makers = self._makers(node)
            if not makers:
                continue
            value, axis = self._reached(node)
            readers = [self._reader(user, value, axis) for user in self._places.readers(value)]
            known = tuple(reader for reader in readers if reader is not None)
            if known and len(known) == len(readers) and value not in self._places.outputs:
                yield ScaledValue(value, axis, makers, known)

    def _makers(self, node: Node) -> tuple[ScaledOperand, ...]:
        """Return the constants that can absorb a factor per channel of a node's result."""
        if OPERATORS[node.op].normalization is not None:
            known = [name in self.graph.constants for name in node.inputs[1:] if name]
            flat = all(len(self.graph.tensors[name].shape) == 1 for name in node.inputs[1:] if name)
            last = flat and call_of(self.graph, node).integer("axis") in (
                -1,
                len(self.graph.tensors[node.inputs[0]].shape) - 1,
            )
            return (
                tuple(ScaledOperand(node.name, at + 1, 0) for at in range(len(known)))
                if last and all(known)
                else ()
            )
        weights = self._places.weights(node)
        if weights is None:
            return ()
        found = [ScaledOperand(node.name, 1, weights.axis)]
        if len(node.inputs) > 2 and node.inputs[2]:
            if node.inputs[2] not in self.graph.constants:
                return ()
            found.append(ScaledOperand(node.name, 2, 0))
        return (*found, *self._shift(node))

    def _shift(self, node: Node) -> Iterator[ScaledOperand]:
        """Yield the vector that is added to a matrix product."""
        vector = self._places.vector(node)
        if vector is not None:
            yield ScaledOperand(vector.name, 0 if vector.inputs[0] in self.graph.constants else 1, -1)

    def _reached(self, node: Node) -> tuple[str, int]:
        """Return the value after operators that commute with factors, and the axis of its channels."""
        value = (self._places.vector(node) or node).outputs[0]
        while value not in self._places.outputs:
            users = list(self._places.readers(value))
            if len(users) != 1 or Law.HOMOGENEOUS not in OPERATORS[users[0].op].laws:
                break
            value = users[0].outputs[0]
        return value, 1 if OPERATORS[node.op].window else len(self.graph.tensors[value].shape) - 1

    def _reader(self, node: Node, value: str, axis: int) -> ScaledOperand | None:
        """Return the weights that read the channels of a value; None if a node reads them in any other
        way."""
        weights = self._places.weights(node)
        if weights is None or node.inputs[0] != value or value in node.inputs[1:]:
            return None
        if OPERATORS[node.op].multiplies_matrices:
            rank = len(self.graph.tensors[value].shape)
            return ScaledOperand(node.name, 1, 1 - weights.axis) if axis == rank - 1 else None
        channels, groups = self.graph.tensors[value].shape[1], call_of(self.graph, node).integer("group")
        if axis != 1 or groups not in (1, channels):
            return None
        own = groups == channels and weights.values.shape[0] == channels
        return ScaledOperand(node.name, 1, 0 if own and groups > 1 else 1) if groups == 1 or own else None

    # --- factors ----------------------------------------------------------------------------------------

    def _array(self, operand: ScaledOperand) -> Array:
        return self._constants[self._inputs[operand.node][operand.position]]

    def _range(self, operands: tuple[ScaledOperand, ...]) -> Array:
        """Return the largest magnitude of the weights of each channel."""
        found = []
        for operand in operands:
            array = np.abs(self._array(operand).astype(np.float64))
            found.append(
                np.moveaxis(array, operand.axis, 0).reshape(array.shape[operand.axis], -1).max(axis=1)
            )
        return np.asarray(np.max(found, axis=0))

    def _scale(self, site: ScaledValue, factor: Array) -> None:
        """Divide the constants that determine channels by a factor, and multiply the weights that read
        them."""
        for operand in site.makers:
            self._multiply(operand, 1.0 / factor)
        for operand in site.readers:
            self._multiply(operand, factor)

    def _multiply(self, operand: ScaledOperand, factor: Array) -> None:
        array = self._array(operand)
        along = [1] * array.ndim
        if array.ndim:
            along[operand.axis] = -1
        key = operand.node, operand.position
        name = self._made.setdefault(key, f"{operand.node}.scaled.{operand.position}")
        self._constants[name] = np.asarray(array * factor.reshape(along), np.float32)
        self._inputs[operand.node][operand.position] = name


def _ratio(above: Array, below: Array) -> Array:
    """Return a quotient per channel, limited; 1 where either operand is 0."""
    known = (above > 0.0) & (below > 0.0)
    ratio = np.divide(above, below, out=np.ones_like(above), where=known)
    return np.clip(ratio, 1.0 / _MOST, _MOST)
