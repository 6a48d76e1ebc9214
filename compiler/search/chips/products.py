"""Products with constant weights, divided by columns, or by rows with a sum behind them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from compiler.graph import AttrValue, Node, Shape
from compiler.lowering.movement.chips.routes import Groups, LinkPrice
from compiler.operators import call_of
from compiler.operators.domains.chips.collectives import ALL_REDUCE
from tx8isa.machine.description import Machine

from .rules import ChipParts, NeedsWhole, constants_divided

PRODUCTS = ("MatMul", "Gemm")


def weights_of(parts: ChipParts, node: Node) -> str | None:
    """The constant matrix of a product; None for a product of computed values, and for other operators."""
    if node.op not in PRODUCTS or node.inputs[0] in parts.graph.constants:
        return None
    weights = node.inputs[1]
    return (
        weights if weights in parts.graph.constants and len(parts.graph.tensors[weights].shape) == 2 else None
    )


def by_columns(parts: ChipParts, node: Node) -> Node | None:
    """The product of each chip's own columns of the weights; None if they cannot be divided."""
    result = node.outputs[0]
    axis = len(parts.graph.tensors[result].shape) - 1
    if parts.graph.tensors[result].shape[axis] % parts.count:
        return None
    constants = constants_divided(parts, node, call_of(parts.graph, node), 0, axis)
    if constants is None:
        return None
    parts.axes[result] = axis
    names = list(node.inputs)
    for at, divided in constants.items():
        names[at] = parts.part_of_constant(names[at], divided)
    return replace(node, inputs=tuple(names))


def sums_over(parts: ChipParts, node: Node) -> bool:
    """Whether the divided axis of the first operand is the one over which a product sums."""
    x = node.inputs[0]
    if weights_of(parts, node) is None or node.attrs.get("transA") or x not in parts.axes:
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
        """The attributes of an exchange of a tensor of the whole group, in the way of the lowest price."""
        price = LinkPrice(self.machine, op, self.groups, math.prod(shape) * self.bytes_each, self.tiles)
        chips = tuple(chip for group in self.groups for chip in group)
        return {"chips": chips, "members": self.members, "way": price.best()}


def by_rows(parts: ChipParts, node: Node, groups: ChipGroups) -> list[Node]:
    """The product of each chip's own rows of the weights, the sum over the chips, and then the bias."""
    x, weights, result = node.inputs[0], node.inputs[1], node.outputs[0]
    bias = node.inputs[2] if len(node.inputs) > 2 and node.inputs[2] else None
    if bias is not None and node.attrs.get("beta", 1.0) != 1.0:
        raise NeedsWhole(f"{node} has a factor for its bias")
    part = parts.part_of_constant(weights, 1 if node.attrs.get("transB") else 0)
    product, total = f"{result}.partial", result if bias is None else f"{result}.sum"
    attrs = groups.attrs(ALL_REDUCE, parts.graph.tensors[result].shape)
    found = [
        replace(node, inputs=(x, part), outputs=(product,)),
        Node(ALL_REDUCE, f"{node.name}.all_reduce", (product,), (total,), attrs),
    ]
    if bias is not None:
        found.append(Node("Add", f"{node.name}.bias", (total, bias), (result,), {}))
    return found
