"""How the values of a sequence are divided: from a share of the result back to what each operator needs.

The tiles share one axis of the result. The records of the operators say which slices of their operands a slice
of a result needs; so every value of the sequence has an axis of its own that the tiles share in the same way, or
is needed whole by all of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from compiler.codegen.slices.tensors import DdrTensor
from compiler.graph import Array, Box, Shape, Tensor
from compiler.lowering.record import ChainNode, Work
from compiler.operators import OPERATORS
from compiler.operators.record import Call

Axis = int | None
"""The axis of a value that the tiles share, in equal contiguous shares; None if each has all of it."""


class Undividable(ValueError):
    """A sequence cannot be divided in a certain way; the message says which operator needs what."""


@dataclass
class Stage:
    """One work of a sequence and how it is divided: the axes of its result, operands, and those of its steps."""

    work: Work
    result: Axis
    inputs: tuple[Axis, ...] = ()
    steps: tuple[tuple[Axis, ...], ...] = ()
    nodes: tuple[tuple[Axis, ...], ...] = ()

    def uses(self) -> Iterator[tuple[DdrTensor, Axis]]:
        """The tensors that it reads, with the axes."""
        operands = [(self.work.inputs, self.inputs)]
        operands += [(step.operands, axes) for step, axes in zip(self.work.steps, self.steps, strict=True)]
        for tensors, axes in operands:
            for tensor, axis in zip(tensors, axes, strict=True):
                if tensor is not None:
                    yield tensor, axis


@dataclass
class Division:
    """A sequence divided among ``parts`` tiles: its stages in order, and the axes of what they make."""

    parts: int
    stages: list[Stage]
    made: dict[str, Axis]

    @property
    def result(self) -> Axis:
        """The axis of the result of the sequence."""
        return self.stages[-1].result


def divide(work: Work, axis: int, parts: int) -> Division:
    """The division in which ``parts`` tiles share an axis of the result; Undividable if it is not possible."""
    return _Divider(work, parts).run(axis)


@dataclass
class _Divider:
    work: Work
    parts: int
    wanted: dict[str, Axis] = field(default_factory=dict)
    """What the later stages need of the values that earlier ones make."""
    stages: list[Stage] = field(default_factory=list)

    def run(self, axis: int) -> Division:
        shapes = {stage.output.symbol: stage.output.shape for stage in self.work.stages}
        result = self.work.output
        if not can_share(result.shape, axis, self.parts):
            raise Undividable(f"axis {axis} of {result.shape} has no {self.parts} equal shares")
        self.wanted[result.symbol] = axis
        for work in reversed(self.work.stages):
            stage = self._stage(work, self.wanted[work.output.symbol])
            self.stages.insert(0, stage)
            for tensor, needed in stage.uses():
                if tensor.symbol in shapes:
                    self._want(tensor, needed, shapes[tensor.symbol])
        return Division(self.parts, self.stages, self.wanted)

    def _want(self, tensor: DdrTensor, needed: Axis, shape: Shape) -> None:
        """Note what is needed of a value that a stage makes in ``shape``: all, if its users differ."""
        axis = None if needed is None else axis_in(tensor.shape, needed, shape, self.parts)
        before = self.wanted.setdefault(tensor.symbol, axis)
        if before != axis:
            self.wanted[tensor.symbol] = None

    def _stage(self, work: Work, axis: Axis) -> Stage:
        if axis is None:
            whole = tuple((None,) * len(step.operands) for step in work.steps)
            nodes = tuple((None,) * len(node.operands) for node in work.nodes)
            return Stage(work, None, (None,) * len(work.inputs), whole, nodes)
        if work.nodes:
            return self._chain(work, axis)
        result, steps = axis, []
        for step in reversed(work.steps):
            axes = needed_axes(step.op, step.call, work.output.shape, result, self.parts)
            steps.insert(0, axes[: len(step.operands)])
            if any(axes[at] != result for at in step.running):
                raise Undividable(f"{step.op} needs all of what is computed before it")
        return Stage(work, axis, self._inputs(work, result), tuple(steps))

    def _inputs(self, work: Work, axis: int) -> tuple[Axis, ...]:
        if work.call is None:  # an operation that a pass inserted: it computes each element by itself
            return tuple(axis for _ in work.inputs)
        return needed_axes(work.op, work.call, work.output.shape, axis, self.parts)[: len(work.inputs)]

    def _chain(self, work: Work, axis: int) -> Stage:
        """A chain: what its nodes need of each other and of the inputs."""
        base = len(work.inputs)
        wanted: dict[int, Axis] = {base + len(work.nodes) - 1: axis}
        nodes: list[tuple[Axis, ...]] = []
        for number in reversed(range(len(work.nodes))):
            node, result = work.nodes[number], wanted[base + number]
            nodes.insert(0, self._node(node, work.output.shape, result))
            for value, needed in zip(node.operands, nodes[0], strict=True):
                if value is not None and wanted.setdefault(value, needed) != needed:
                    raise Undividable(f"{node.op} needs another share of a value than other operators")
        inputs = tuple(wanted.get(at) for at in range(base))
        return Stage(work, axis, inputs, nodes=tuple(nodes))

    def _node(self, node: ChainNode, shape: Shape, axis: Axis) -> tuple[Axis, ...]:
        if node.call is None:
            return (axis,) * len(node.operands)
        assert axis is not None
        return needed_axes(node.op, node.call, shape, axis, self.parts)


def can_share(shape: Shape, axis: int, parts: int) -> bool:
    """Whether an axis has so many equal shares."""
    return 0 <= axis < len(shape) and shape[axis] >= parts and shape[axis] % parts == 0


def is_contiguous(shape: Shape, axis: int) -> bool:
    """Whether shares of an axis are single runs of the stored elements."""
    return math.prod(shape[:axis]) == 1


def axis_in(shape: Shape, axis: int, other: Shape, parts: int) -> int:
    """The axis of the same elements in another shape whose shares are the same elements; Undividable if none."""
    before = math.prod(shape[:axis])
    for candidate in range(len(other)):
        if math.prod(other[:candidate]) == before and can_share(other, candidate, parts):
            return candidate
    raise Undividable(f"shares of axis {axis} of {shape} are none of {other}")


def needed_axes(op: str, call: Call, shape: Shape, axis: int, parts: int) -> tuple[Axis, ...]:
    """What each operand of a call is shared along if its result, of a shape, is shared along an axis.

    Undividable if a tile needs something else than an equal share or all of an operand, or if the operator means
    something else on shares, because its attributes have numbers of the whole.
    """
    boxes = [
        OPERATORS[op].needed(call, [Box.whole(shape).along(axis, *_interval(shape[axis], parts, tile))])
        for tile in range(parts)
    ]
    axes = tuple(
        _needed_axis(op, at, tensor.shape, [box[at] for box in boxes], parts) if tensor is not None else None
        for at, tensor in enumerate(call.inputs)
    )
    (found, *_), expected = OPERATORS[op].shapes(shared_call(call, axes, parts)), local(shape, axis, parts)
    if found != expected:
        raise Undividable(f"{op} of shares gives {found}, where the share of its result is {expected}")
    return axes


def shared_call(call: Call, axes: tuple[Axis, ...], parts: int) -> Call:
    """A call on a tile's shares of its operands."""
    inputs: list[Tensor | None] = []
    values: list[Array | None] = []
    for tensor, value, axis in zip(call.inputs, call.values, axes, strict=True):
        inputs.append(None if tensor is None else replace(tensor, shape=local(tensor.shape, axis, parts)))
        values.append(value if axis is None else None)
    return replace(call, inputs=tuple(inputs), values=tuple(values))


def _needed_axis(op: str, at: int, shape: Shape, boxes: list[Box | None], parts: int) -> Axis:
    """The axis along which the boxes of all tiles are equal shares; None if they are whole, or not read."""
    whole = Box.whole(shape)
    if all(box is None or box == whole for box in boxes):
        return None
    for axis in range(len(shape)):
        if can_share(shape, axis, parts):
            shares = [whole.along(axis, *_interval(shape[axis], parts, tile)) for tile in range(parts)]
            if shares == boxes:
                return axis
    raise Undividable(f"a share of the result of {op} needs {boxes[0]} of operand {at}")


def _interval(size: int, parts: int, tile: int) -> tuple[int, int]:
    each = size // parts
    return tile * each, (tile + 1) * each


def local(shape: Shape, axis: Axis, parts: int) -> Shape:
    """The shape of a tile's share."""
    return tuple(size // parts if at == axis else size for at, size in enumerate(shape))


def candidate_axes(shape: Shape, tiles: int) -> list[tuple[int, int]]:
    """Axes of a result and numbers of tiles that can share them: the most tiles first."""
    found = [
        (axis, parts)
        for axis, size in enumerate(shape)
        for parts in range(2, min(size, tiles) + 1)
        if size % parts == 0 and 2 * parts >= min(size, tiles)
    ]
    return sorted(found, key=lambda each: (-each[1], each[0]))
