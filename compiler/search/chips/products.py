"""Divides products with constant weights by columns, or by rows with a sum after them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from compiler.graph import AttrValue, Graph, Node, Shape, Tensor
from compiler.lowering.movement.chips.routes import LinkPrice
from compiler.lowering.movement.chips.trees import Groups
from compiler.operators import OPERATORS, call_of
from compiler.operators.domains.chips.collectives import ALL_GATHER, ALL_REDUCE, PART, REDUCE_SCATTER
from tx8isa.cost.rates import ddr_rate
from tx8isa.machine.description import Machine

from .rules import ChipParts, DividedAxis, NeedsWhole, constants_divided, with_parts_of_constants

LARGE_SUM = 1 << 20
"""Least bytes of a sum whose rows are divided over chips, which then normalize and add only their own."""


def weights_of(parts: ChipParts, node: Node) -> str | None:
    """The constant matrix of a product; None for a product of computed values, and for other operators."""
    if not OPERATORS[node.op].multiplies_matrices or node.inputs[0] in parts.graph.constants:
        return None
    weights = node.inputs[1]
    return (
        weights if weights in parts.graph.constants and len(parts.graph.tensors[weights].shape) == 2 else None
    )


def by_columns(parts: ChipParts, node: Node, repeat: int = 1) -> Node | None:
    """The product of each chip's columns of the weights; None if they cannot be divided.

    ``repeat`` neighbours have the same columns.
    """
    shape = parts.graph.tensors[node.outputs[0]].shape
    way = DividedAxis(len(shape) - 1, repeat)
    if shape[way.axis] % parts.pieces(way):
        return None
    constants = constants_divided(parts, node, call_of(parts.graph, node), 0, way)
    if constants is None:
        return None
    parts.divide(node.outputs[0], way)
    return with_parts_of_constants(parts, node, constants)


def sums_over(parts: ChipParts, node: Node) -> bool:
    """True if the divided axis of the first operand is the one over which a product sums."""
    x = node.inputs[0]
    if weights_of(parts, node) is None or node.attrs.get("transA") or x not in parts.axes:
        return False
    if x in parts.repeats:
        return False
    return parts.axes[x] == len(parts.graph.tensors[x].shape) - 1


@dataclass(frozen=True)
class ChipGroups:
    """Groups of chips that exchange parts of tensors, all at the same time."""

    machine: Machine
    groups: Groups
    bytes_each: int
    """Bytes of an element of a tensor."""
    tiles: int

    @property
    def members(self) -> int:
        return len(self.groups[0])

    def attrs(self, op: str, shape: Shape) -> dict[str, AttrValue]:
        """The attributes of an exchange of a tensor of the whole group, with the cheapest algorithm."""
        chips = tuple(chip for group in self.groups for chip in group)
        return {"chips": chips, "members": self.members, "way": self._exchange(op, shape).best()}

    def all_gather(self, name: str, tensor: Tensor, axis: int, result: str) -> Node:
        """The node that gathers a tensor which the chips have in shards along an axis."""
        attrs = {**self.attrs(ALL_GATHER, tensor.shape), "axis": axis}
        return Node(ALL_GATHER, name, (tensor.name,), (result,), attrs)

    def part(self, name: str, tensor: Tensor, axis: int, result: str) -> Node:
        """The node by which a chip takes its part, along an axis, of a tensor that all have whole."""
        attrs = {**self.attrs(PART, tensor.shape), "axis": axis}
        del attrs["way"]
        return Node(PART, name, (tensor.name,), (result,), attrs)

    def axis_of_rows(self, shape: Shape) -> int | None:
        """The axis along which a large sum is divided over chips by rows; None if every chip has all rows."""
        if math.prod(shape) * self.bytes_each < LARGE_SUM:
            return None
        fitting = (axis for axis, extent in enumerate(shape[:-1]) if extent % self.members == 0)
        return next(fitting, None)

    def price(self, op: str, shape: Shape) -> float:
        """The cycles of an exchange with the cheapest algorithm."""
        exchange = self._exchange(op, shape)
        return exchange.cycles(exchange.best())

    def _exchange(self, op: str, shape: Shape) -> LinkPrice:
        return LinkPrice(self.machine, op, self.groups, math.prod(shape) * self.bytes_each, self.tiles)

    def saved(self, graph: Graph, product: Node) -> float:
        """Cycles that a chip saves if it has a part of a product with constant weights, by its bounds."""
        clock, engines = self.machine.engines.clock.value, self.machine.engines.ne
        rate = (engines.fp16 if self.bytes_each == 2 else engines.fp32).value * self.tiles / clock
        weights = graph.tensors[product.inputs[1]].shape
        columns = graph.tensors[product.outputs[0]].shape[-1]
        rows = math.prod(graph.tensors[product.outputs[0]].shape) // columns
        moved = math.prod(weights) * self.bytes_each / ddr_rate(self.machine)
        return max(2 * rows * math.prod(weights) / rate, moved) * (1 - 1 / self.members)


def by_rows(parts: ChipParts, node: Node, groups: ChipGroups, axis: int | None) -> list[Node]:
    """The product of each chip's rows of the weights, the sum over the chips, and then the bias.

    Each chip gets all of the sum, or its part along an axis, which is recorded in ``parts``.
    """
    x, weights, result = node.inputs[0], node.inputs[1], node.outputs[0]
    bias = node.inputs[2] if len(node.inputs) > 2 and node.inputs[2] else None
    if bias is not None and node.attrs.get("beta", 1.0) != 1.0:
        raise NeedsWhole(f"{node} has a factor for its bias")
    part = parts.part_of_constant(weights, 1 if node.attrs.get("transB") else 0)
    product, total = f"{result}.partial", result if bias is None else f"{result}.sum"
    found = [
        replace(node, inputs=(x, part), outputs=(product,)),
        _summed(parts, node, product, total, groups, axis),
    ]
    if bias is not None:
        found.append(Node("Add", f"{node.name}.bias", (total, bias), (result,), {}))
    return found


def _summed(
    parts: ChipParts, node: Node, product: str, total: str, groups: ChipGroups, axis: int | None
) -> Node:
    """The sum of a product over the chips: all of it on every chip, or a part along an axis on each."""
    shape = parts.graph.tensors[node.outputs[0]].shape
    if axis is None:
        attrs = groups.attrs(ALL_REDUCE, shape)
        return Node(ALL_REDUCE, f"{node.name}.all_reduce", (product,), (total,), attrs)
    parts.axes[node.outputs[0]] = axis
    attrs = {**groups.attrs(REDUCE_SCATTER, shape), "axis": axis}
    return Node(REDUCE_SCATTER, f"{node.name}.reduce_scatter", (product,), (total,), attrs)


def both_sum_over(parts: ChipParts, node: Node) -> bool:
    """True if both operands of a product, at least one of them computed, are divided along the summed axis.

    A constant operand counts, because it can be divided there.
    """
    if node.op != "MatMul" or not any(name in parts.axes for name in node.inputs):
        return False
    if any(name in parts.repeats for name in node.inputs):
        return False
    ranks = [parts.graph.tensors[name].rank for name in node.inputs]
    if min(ranks) < 2:
        return False
    for name, axis in zip(node.inputs, (ranks[0] - 1, ranks[1] - 2), strict=True):
        if name not in parts.graph.constants and parts.axes.get(name) != axis:
            return False
    return True


def added_up(parts: ChipParts, node: Node, groups: ChipGroups) -> list[Node]:
    """The product of each chip's parts along the axis that it sums, and the sum over the chips."""
    names, result = list(node.inputs), node.outputs[0]
    for at, axis in enumerate((-1, -2)):
        name = names[at]
        if name in parts.graph.constants:
            names[at] = parts.part_of_constant(name, parts.graph.tensors[name].rank + axis)
    attrs = groups.attrs(ALL_REDUCE, parts.graph.tensors[result].shape)
    partial = f"{result}.partial"
    return [
        replace(node, inputs=tuple(names), outputs=(partial,)),
        Node(ALL_REDUCE, f"{node.name}.all_reduce", (partial,), (result,), attrs),
    ]
