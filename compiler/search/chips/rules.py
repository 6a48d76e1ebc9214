"""Divides a node whose operands are divided along an axis, and gives the part of the result that each chip
computes.

For most operators this follows from their records, which define the part of the operands that a part of a
result needs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from compiler.graph import Array, Box, Graph, Node, Shape
from compiler.operators import OPERATORS, call_of
from compiler.operators.boxes.forms import elementwise
from compiler.operators.domains.chips.collectives import ALL_GATHER, ALL_REDUCE, PART, REDUCE_SCATTER
from compiler.operators.record import Call

_ALONG_AN_AXIS = (ALL_GATHER, REDUCE_SCATTER, PART)
"""Exchanges and parts of another division along an axis, which this division must leave whole."""


class NeedsWhole(Exception):
    """Raised if a node cannot be computed in parts; the text gives the reason."""


class UnevenHeads(NeedsWhole):
    """Raised if an axis is reshaped into several and the first of them, of ``heads``, cannot be divided."""

    def __init__(self, text: str, heads: int) -> None:
        super().__init__(text)
        self.heads = heads


class StateToDivide(Exception):
    """Raised if a node could be computed in parts if each chip had its part of a state."""

    def __init__(self, node: Node, name: str, way: DividedAxis) -> None:
        super().__init__(f"{node} needs a part of state '{name}'")
        self.node, self.name, self.way = node, name, way


class DividedAxis(NamedTuple):
    """A divided axis, and the number of neighbouring places that have the same part."""

    axis: int
    repeat: int = 1


@dataclass
class ChipParts:
    """Values that are divided into ``count`` parts: axes by name."""

    graph: Graph
    count: int
    axes: dict[str, int] = field(default_factory=dict)
    repeats: dict[str, int] = field(default_factory=dict)
    """The number of neighbouring places with the same part, by value; 1 for values without an entry."""
    constants: dict[str, tuple[str, DividedAxis]] = field(default_factory=dict)
    """Constants that chips have in parts: the name of the whole one, and its division."""
    chosen: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Constants that differ between chips: their names by place."""
    literals: dict[str, Array] = field(default_factory=dict)
    """Constants that are made anew."""

    def divide(self, name: str, way: DividedAxis) -> None:
        """Record the division of a value."""
        self.axes[name] = way.axis
        if way.repeat > 1:
            self.repeats[name] = way.repeat

    def division(self, name: str) -> DividedAxis | None:
        """The division of a value; None if every chip has it whole."""
        return DividedAxis(self.axes[name], self.repeats.get(name, 1)) if name in self.axes else None

    def pieces(self, way: DividedAxis) -> int:
        """Number of different parts."""
        return self.count // way.repeat

    def box(self, shape: Shape, way: DividedAxis, number: int) -> Box:
        """The part of a tensor that a place has."""
        step, at = shape[way.axis] // self.pieces(way), number // way.repeat
        return Box.whole(shape).along(way.axis, at * step, (at + 1) * step)

    def local(self, name: str) -> Shape:
        """The shape of a value on a chip."""
        shape, way = self.graph.tensors[name].shape, self.division(name)
        return shape if way is None else self.shape_of(shape, way)

    def shape_of(self, shape: Shape, way: DividedAxis) -> Shape:
        axis = way.axis
        return (*shape[:axis], shape[axis] // self.pieces(way), *shape[axis + 1 :])

    def has_whole(self, name: str) -> bool:
        """True if each chip may take its part of a whole value: constants allow it."""
        return name in self.graph.constants

    def part_of_constant(self, name: str, axis: int, repeat: int = 1) -> str:
        """The name of the parts of a constant, or of another value that every chip has whole."""
        part = f"{name}.part{axis}" if repeat == 1 else f"{name}.part{axis}.for{repeat}"
        self.constants[part] = name, DividedAxis(axis, repeat)
        return part

    def literal(self, name: str, value: Array) -> str:
        self.literals[name] = value
        return name


def divided(parts: ChipParts, node: Node) -> Node:
    """The node in the form that each chip computes; ``parts`` records the axes of its results. NeedsWhole if
    impossible.

    StateToDivide if it were possible with parts of a state.
    """
    record = OPERATORS[node.op]
    if record.reshapes:
        return _reshaped(parts, node)
    if node.op == "Expand":
        return _expanded(parts, node)
    if node.op in (ALL_REDUCE, *_ALONG_AN_AXIS):
        return _exchanged(parts, node)
    if record.uniform is None and record.needs is not elementwise:
        raise NeedsWhole(f"{node} needs its operands whole")
    call = call_of(parts.graph, node)
    chosen = [_way_of(parts, node, call, number) for number, name in enumerate(node.outputs) if name]
    inputs = chosen[0][1]
    if any(other[1] != inputs for other in chosen):
        raise NeedsWhole(f"{node} needs its operands whole")
    for name, (way, _) in zip((n for n in node.outputs if n), chosen, strict=True):
        parts.divide(name, way)
    return with_parts_of_constants(parts, node, inputs)


def with_parts_of_constants(parts: ChipParts, node: Node, ways: Mapping[int, DividedAxis]) -> Node:
    """The node with the chip's parts of the constants that are divided."""
    names = list(node.inputs)
    for at, way in ways.items():
        names[at] = parts.part_of_constant(names[at], *way)
    return replace(node, inputs=tuple(names))


def _way_of(
    parts: ChipParts, node: Node, call: Call, number: int
) -> tuple[DividedAxis, dict[int, DividedAxis]]:
    """The division of a result, and the divisions of constant operands."""
    shape, uniform = parts.graph.tensors[node.outputs[number]].shape, OPERATORS[node.op].uniform
    for repeat in sorted({1, *(parts.repeats.get(name, 1) for name in node.inputs)}):
        for axis, extent in enumerate(shape):
            way = DividedAxis(axis, repeat)
            if extent and extent % parts.pieces(way) == 0 and (uniform is None or uniform(call, axis)):
                constants = constants_divided(parts, node, call, number, way)
                if constants is not None:
                    return way, constants
    raise NeedsWhole(f"{node} needs its operands whole")


def constants_divided(
    parts: ChipParts, node: Node, call: Call, number: int, way: DividedAxis
) -> dict[int, DividedAxis] | None:
    """The divisions of constant operands that allow a division of the result; None if none do.

    Every part of the result must need the same part of each divided operand, along its axis. Of the other
    operands all parts must need the same. StateToDivide if only a state prevents it.
    """
    shape = parts.graph.tensors[node.outputs[number]].shape
    needs = []
    for place in range(parts.count):
        boxes: list[Box | None] = [None] * len(node.outputs)
        boxes[number] = parts.box(shape, way, place)
        needs.append(OPERATORS[node.op].needed(call, boxes))
    found: dict[int, DividedAxis] = {}
    states: list[tuple[str, DividedAxis]] = []
    pasts = {past for past, _ in parts.graph.states}
    for at, name in enumerate(node.inputs):
        needed, known = [each[at] for each in needs], parts.division(name)
        if known is not None:
            if not _are_parts(parts, name, needed, known):
                return None
        elif any(box != needed[0] for box in needed):
            own = parts.has_whole(name) or name in pasts
            ways = [DividedAxis(a, way.repeat) for a in range(parts.graph.tensors[name].rank if own else 0)]
            fitting = [each for each in ways if _are_parts(parts, name, needed, each)]
            if not fitting:
                return None
            if name in pasts:
                states.append((name, fitting[0]))
            else:
                found[at] = fitting[0]
    if states:
        raise StateToDivide(node, *states[0])
    return found


def _are_parts(parts: ChipParts, name: str, needed: Sequence[Box | None], way: DividedAxis) -> bool:
    """True if the boxes of an operand are its parts along an axis."""
    shape = parts.graph.tensors[name].shape
    if shape[way.axis] % parts.pieces(way):
        return False
    wanted = [parts.box(shape, way, place).intervals[way.axis] for place in range(parts.count)]
    return [None if box is None else box.intervals[way.axis] for box in needed] == wanted


def _reshaped(parts: ChipParts, node: Node) -> Node:
    """The same elements in another shape; an axis of the result begins where the divided axis begins."""
    source, result = node.inputs[0], node.outputs[0]
    before, after = (parts.graph.tensors[name].shape for name in (source, result))
    way = parts.division(source)
    assert way is not None
    outer, pieces = math.prod(before[: way.axis]), parts.pieces(way)
    for axis, extent in enumerate(after):
        if math.prod(after[:axis]) == outer and extent > 1:
            if extent % pieces:
                text = f"{node} makes {extent} heads; expected a multiple of {pieces}"
                raise UnevenHeads(text, extent)
            parts.divide(result, DividedAxis(axis, way.repeat))
            shape = parts.literal(f"{node.name}.shape", np.array(parts.local(result), np.int64))
            return Node("Reshape", node.name, (source, shape), node.outputs, {"allowzero": 0})
    raise NeedsWhole(f"{node} has no axis that begins with the divided one")


def _exchanged(parts: ChipParts, node: Node) -> Node:
    """An exchange along another axis on each chip's part; NeedsWhole if both divide the same axis."""
    way = parts.division(node.inputs[0])
    assert way is not None
    if node.op in _ALONG_AN_AXIS and node.attrs["axis"] == way.axis:
        raise NeedsWhole(f"{node} exchanges along the divided axis")
    parts.divide(node.outputs[0], way)
    return node


def _expanded(parts: ChipParts, node: Node) -> Node:
    source, target = node.inputs[0], node.outputs[0]
    before, after = (parts.graph.tensors[name].shape for name in (source, target))
    way = parts.division(source)
    assert way is not None
    axis = way.axis + len(after) - len(before)
    if after[axis] != before[way.axis]:
        raise NeedsWhole(f"{node} repeats along the divided axis")
    parts.divide(target, DividedAxis(axis, way.repeat))
    shape = parts.literal(f"{node.name}.shape", np.array(parts.local(target), np.int64))
    return replace(node, inputs=(source, shape))
