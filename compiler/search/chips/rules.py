"""What becomes of a node whose operands are divided along an axis: which part of the result each chip makes.

For most operators that follows from what their records say a part of a result needs of the operands.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from compiler.graph import Array, Box, Graph, Node, Shape
from compiler.operators import OPERATORS, call_of
from compiler.operators.boxes.forms import elementwise
from compiler.operators.record import Call

LIKE_PLACES = frozenset(
    {
        *("Softmax", "LogSoftmax", "LayerNormalization", "RMSNormalization", "Transpose", "MatMul"),
        *("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2"),
        *("ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp", "ArgMax", "ArgMin", "Concat"),
        *("Conv", "MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool", "BatchNormalization"),
        *("InstanceNormalization", "GroupNormalization", "LpNormalization", "Gemm", "Slice", "Split"),
    }
)
"""Operators, besides those that compute each element by itself, that do the same everywhere on an axis."""

_COUNT_CHANNELS = ("Conv", "GroupNormalization")
"""Operators with an attribute that counts groups of channels: only their batch is divided."""

RESHAPES = ("Reshape", "Flatten", "Squeeze", "Unsqueeze")


class NeedsWhole(Exception):
    """A node cannot be computed in parts; the text says why."""


class UnevenHeads(NeedsWhole):
    """An axis is written as several, and the first of them cannot be divided."""


@dataclass
class ChipParts:
    """Values that are divided into ``count`` parts: axes by name."""

    graph: Graph
    count: int
    axes: dict[str, int] = field(default_factory=dict)
    constants: dict[str, tuple[str, int]] = field(default_factory=dict)
    """Constants of which every chip has a part: the whole one, and the axis."""
    literals: dict[str, Array] = field(default_factory=dict)
    """Constants that are made anew."""

    def box(self, shape: Shape, axis: int, number: int) -> Box:
        """A part of a tensor."""
        step = shape[axis] // self.count
        return Box.whole(shape).along(axis, number * step, (number + 1) * step)

    def local(self, name: str) -> Shape:
        """The shape of a value on a chip."""
        shape = self.graph.tensors[name].shape
        return self.shape_of(shape, self.axes[name]) if name in self.axes else shape

    def shape_of(self, shape: Shape, axis: int) -> Shape:
        return (*shape[:axis], shape[axis] // self.count, *shape[axis + 1 :])

    def part_of_constant(self, name: str, axis: int) -> str:
        """The name of the parts of a constant."""
        part = f"{name}.part{axis}"
        self.constants[part] = name, axis
        return part

    def literal(self, name: str, value: Array) -> str:
        self.literals[name] = value
        return name


def divided(parts: ChipParts, node: Node) -> Node:
    """The node as each chip computes it; ``parts`` gets the axes of its results. NeedsWhole if it cannot."""
    if node.op in RESHAPES:
        return _reshaped(parts, node)
    if node.op == "Expand":
        return _expanded(parts, node)
    if node.op not in LIKE_PLACES and OPERATORS[node.op].needs is not elementwise:
        raise NeedsWhole(f"{node} needs its operands whole")
    call = call_of(parts.graph, node)
    chosen = [_axis_of(parts, node, call, number) for number, name in enumerate(node.outputs) if name]
    inputs = chosen[0][1]
    counted = node.op in _COUNT_CHANNELS and any(axis for axis, _ in chosen)
    if counted or any(other[1] != inputs for other in chosen):
        raise NeedsWhole(f"{node} needs its operands whole")
    for name, (axis, _) in zip((n for n in node.outputs if n), chosen, strict=True):
        parts.axes[name] = axis
    names = list(node.inputs)
    for at, axis in inputs.items():
        names[at] = parts.part_of_constant(names[at], axis)
    return replace(node, inputs=tuple(names))


def _axis_of(parts: ChipParts, node: Node, call: Call, number: int) -> tuple[int, dict[int, int]]:
    """The axis along which a result is divided, and the axes of constant operands that are."""
    shape = parts.graph.tensors[node.outputs[number]].shape
    for axis, extent in enumerate(shape):
        if extent % parts.count == 0 and extent:
            constants = constants_divided(parts, node, call, number, axis)
            if constants is not None:
                return axis, constants
    raise NeedsWhole(f"{node} needs its operands whole")


def constants_divided(
    parts: ChipParts, node: Node, call: Call, number: int, axis: int
) -> dict[int, int] | None:
    """The axes of the constant operands, if a result can be divided along an axis; None if it cannot.

    Every part of the result must need the same part of each divided operand, along its axis, and of the other
    operands the same for all parts.
    """
    shape = parts.graph.tensors[node.outputs[number]].shape
    needs = []
    for place in range(parts.count):
        boxes: list[Box | None] = [None] * len(node.outputs)
        boxes[number] = parts.box(shape, axis, place)
        needs.append(OPERATORS[node.op].needed(call, boxes))
    found: dict[int, int] = {}
    for at, name in enumerate(node.inputs):
        needed = [each[at] for each in needs]
        if name in parts.axes:
            if not _are_parts(parts, name, needed, parts.axes[name]):
                return None
        elif any(box != needed[0] for box in needed):
            axes = range(parts.graph.tensors[name].rank if name in parts.graph.constants else 0)
            fitting = [axis for axis in axes if _are_parts(parts, name, needed, axis)]
            if not fitting:
                return None
            found[at] = fitting[0]
    return found


def _are_parts(parts: ChipParts, name: str, needed: Sequence[Box | None], axis: int) -> bool:
    """Whether the boxes of an operand are its parts along an axis."""
    shape = parts.graph.tensors[name].shape
    if shape[axis] % parts.count:
        return False
    wanted = [parts.box(shape, axis, place).intervals[axis] for place in range(parts.count)]
    return [None if box is None else box.intervals[axis] for box in needed] == wanted


def _reshaped(parts: ChipParts, node: Node) -> Node:
    """The same elements in another shape: an axis of the result begins where the divided one does."""
    source = node.inputs[0]
    before, after = (parts.graph.tensors[name].shape for name in (source, node.outputs[0]))
    outer = math.prod(before[: parts.axes[source]])
    for axis, extent in enumerate(after):
        if math.prod(after[:axis]) == outer and extent > 1:
            if extent % parts.count:
                raise UnevenHeads(f"{node} makes {extent} heads; expected a multiple of {parts.count}")
            parts.axes[node.outputs[0]] = axis
            local = parts.local(node.outputs[0])
            shape = parts.literal(f"{node.name}.shape", np.array(local, np.int64))
            return Node("Reshape", node.name, (source, shape), node.outputs, {"allowzero": 0})
    raise NeedsWhole(f"{node} has no axis that begins with the divided one")


def _expanded(parts: ChipParts, node: Node) -> Node:
    source, target = node.inputs[0], node.outputs[0]
    before, after = (parts.graph.tensors[name].shape for name in (source, target))
    axis = parts.axes[source] + len(after) - len(before)
    if after[axis] != before[parts.axes[source]]:
        raise NeedsWhole(f"{node} repeats along the divided axis")
    parts.axes[target] = axis
    shape = parts.literal(f"{node.name}.shape", np.array(parts.local(target), np.int64))
    return replace(node, inputs=(source, shape))
