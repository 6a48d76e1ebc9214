"""How the values of a sequence are divided: from a share of the result back to what each operator needs.

The tiles share one axis of the result. The records of the operators say which slices of their operands a
slice of a result needs. So every value of the sequence has an axis of its own that the tiles share, or each
tile needs all of it. Of such a value the tiles compute shares and gather them, or each computes the whole.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from compiler.codegen.slices.tensors import DdrTensor
from compiler.graph import Array, Box, Shape, Tensor
from compiler.lowering.pointwise.record import POINTWISE
from compiler.lowering.record import LOWERINGS, ChainNode, Work
from compiler.operators import OPERATORS
from compiler.operators.record import Call


class Undividable(ValueError):
    """A sequence cannot be divided in a certain way; the message says which operator needs what."""


@dataclass(frozen=True)
class TileShare:
    """A tile's part of a value: one of ``count`` equal, contiguous parts of an axis.

    With fewer parts than tiles, neighbouring tiles have the same one.
    """

    axis: int
    count: int

    def of(self, shape: Shape) -> Shape:
        """The shape of a part."""
        return (*shape[: self.axis], shape[self.axis] // self.count, *shape[self.axis + 1 :])

    def possible(self, shape: Shape) -> bool:
        """Whether the axis has so many equal parts."""
        return self.axis < len(shape) and shape[self.axis] > 0 and shape[self.axis] % self.count == 0

    def contiguous(self, shape: Shape) -> bool:
        """Whether a part is a single run of the stored elements."""
        return math.prod(shape[: self.axis]) == 1

    def box(self, shape: Shape, number: int) -> Box:
        """Part ``number`` of a tensor."""
        size = shape[self.axis] // self.count
        return Box.whole(shape).along(self.axis, number * size, (number + 1) * size)

    def seen_in(self, shape: Shape, other: Shape) -> TileShare:
        """The same parts where the elements have another shape; Undividable if they are no parts there."""
        before = math.prod(shape[: self.axis])
        for axis in range(len(other)):
            found = TileShare(axis, self.count)
            if math.prod(other[:axis]) == before and found.possible(other):
                return found
        raise Undividable(f"parts of axis {self.axis} of {shape} are none of {other}")


Needed = TileShare | None
"""What a tile needs or has of a value; None: all of it."""


def shape_of_share(shape: Shape, share: Needed) -> Shape:
    return shape if share is None else share.of(shape)


@dataclass
class SharedStage:
    """One work of a sequence, with the shares of its result, of its operands and of those of its steps."""

    work: Work
    result: Needed
    inputs: tuple[Needed, ...] = ()
    steps: tuple[tuple[Needed, ...], ...] = ()
    nodes: tuple[tuple[Needed, ...], ...] = ()

    def uses(self) -> Iterator[tuple[DdrTensor, Needed]]:
        """The tensors that it reads, with their shares."""
        operands = [(self.work.inputs, self.inputs)]
        operands += [
            (step.operands, shares) for step, shares in zip(self.work.steps, self.steps, strict=True)
        ]
        for tensors, shares in operands:
            for tensor, share in zip(tensors, shares, strict=True):
                if tensor is not None:
                    yield tensor, share


@dataclass
class SequenceDivision:
    """A sequence divided among ``tiles`` tiles.

    ``wanted`` is what the users of each value that the stages make need of it. A value that they need whole,
    while the stage makes shares of it, is gathered.
    """

    tiles: int
    stages: list[SharedStage]
    wanted: dict[str, Needed]

    def gathers(self, stage: SharedStage) -> bool:
        """Whether the tiles give each other their shares of the result of a stage."""
        return stage.result is not None and self.wanted[stage.work.output.symbol] is None


def divide(work: Work, axis: int, tiles: int, gathering: bool) -> SequenceDivision:
    """The division in which tiles share an axis of the result; Undividable if it is not possible.

    With ``gathering`` the tiles share the computation of what all need, where that is possible.
    """
    return _Divider(work, tiles, gathering and tiles > 1).run(TileShare(axis, tiles))


@dataclass
class _Divider:
    work: Work
    tiles: int
    gathering: bool
    wanted: dict[str, Needed] = field(default_factory=dict)
    stages: list[SharedStage] = field(default_factory=list)

    def run(self, share: TileShare) -> SequenceDivision:
        shapes = {stage.output.symbol: stage.output.shape for stage in self.work.stages}
        result = self.work.output
        if not share.possible(result.shape):
            raise Undividable(f"axis {share.axis} of {result.shape} has no {share.count} equal parts")
        self.wanted[result.symbol] = share
        for work in reversed(self.work.stages):
            stage = self._stage(work, self.wanted[work.output.symbol])
            self.stages.insert(0, stage)
            for tensor, needed in stage.uses():
                if tensor.symbol in shapes:
                    self._want(tensor, needed, shapes[tensor.symbol])
        return SequenceDivision(self.tiles, self.stages, self.wanted)

    def _want(self, tensor: DdrTensor, needed: Needed, shape: Shape) -> None:
        """Note what is needed of a value that a stage makes in ``shape``.

        That is all of it if its users differ, or if several tiles need the same part.
        """
        alone = needed is not None and needed.count == self.tiles
        share = needed.seen_in(tensor.shape, shape) if needed is not None and alone else None
        if self.wanted.setdefault(tensor.symbol, share) != share:
            self.wanted[tensor.symbol] = None

    def _stage(self, work: Work, wanted: Needed) -> SharedStage:
        if wanted is not None:
            return self._shared(work, wanted)
        if self.gathering:
            for axis in range(len(work.output.shape)):
                share = TileShare(axis, self.tiles)
                if share.possible(work.output.shape) and share.contiguous(work.output.shape):
                    try:
                        return self._shared(work, share)
                    except Undividable:
                        continue
        steps = tuple((None,) * len(step.operands) for step in work.steps)
        nodes = tuple((None,) * len(node.operands) for node in work.nodes)
        return SharedStage(work, None, (None,) * len(work.inputs), steps, nodes)

    def _shared(self, work: Work, share: TileShare) -> SharedStage:
        if work.nodes:
            return self._chain(work, share)
        steps: list[tuple[Needed, ...]] = []
        for step in reversed(work.steps):
            shares = needed_shares(step.op, step.call, work.output.shape, share, self.tiles)
            if any(shares[at] != share for at in step.running):
                raise Undividable(f"{step.op} needs more than a share of what is computed before it")
            steps.insert(0, shares[: len(step.operands)])
        if work.call is None:  # an operation that a pass inserted: it computes each element by itself
            return SharedStage(work, share, (share,) * len(work.inputs), tuple(steps))
        shares = needed_shares(work.op, work.call, work.output.shape, share, self.tiles)
        _check_lowering(work.op, work.call, shares)
        return SharedStage(work, share, shares[: len(work.inputs)], tuple(steps))

    def _chain(self, work: Work, share: TileShare) -> SharedStage:
        """A chain: what its nodes need of each other and of the inputs."""
        base = len(work.inputs)
        wanted: dict[int, Needed] = {base + len(work.nodes) - 1: share}
        nodes: list[tuple[Needed, ...]] = []
        for number in reversed(range(len(work.nodes))):
            node = work.nodes[number]
            shares = self._node(node, work.output.shape, wanted[base + number])
            nodes.insert(0, shares)
            for value, needed in zip(node.operands, shares, strict=True):
                if value is not None and wanted.setdefault(value, needed) != needed:
                    raise Undividable(f"{node.op} needs another share of a value than other operators")
        return SharedStage(work, share, tuple(wanted.get(at) for at in range(base)), nodes=tuple(nodes))

    def _node(self, node: ChainNode, shape: Shape, needed: Needed) -> tuple[Needed, ...]:
        if node.call is None or needed is None:
            return (needed,) * len(node.operands)
        return needed_shares(node.op, node.call, shape, needed, self.tiles)[: len(node.operands)]


def _check_lowering(op: str, call: Call, shares: tuple[Needed, ...]) -> None:
    """Undividable if the lowering of an operator does not support the shares of a tile.

    Most lowerings arrange constants when compiling, and that is the same for all tiles.
    """
    for at, (value, share) in enumerate(zip(call.values, shares, strict=True)):
        if value is not None and share is not None and op not in POINTWISE:
            raise Undividable(f"{op} needs all of operand {at}, which is known when compiling")
    check = LOWERINGS[op].check
    problem = check(shared_call(call, shares)) if check is not None else None
    if problem is not None:
        raise Undividable(f"{op} does not support shares: {problem}")


def needed_shares(op: str, call: Call, shape: Shape, share: TileShare, tiles: int) -> tuple[Needed, ...]:
    """What a tile needs of each operand of a call for its share of the result, which has a shape.

    Undividable if it is something else than an equal share or all of an operand, or if the operator means
    something else on shares, because its attributes have numbers of the whole.
    """
    boxes = [OPERATORS[op].needed(call, [share.box(shape, number)]) for number in range(share.count)]
    shares = tuple(
        None if tensor is None else _share_of(op, at, tensor.shape, [box[at] for box in boxes])
        for at, tensor in enumerate(call.inputs)
    )
    if share.count > 1 and not any(shares):
        raise Undividable(f"{op} needs its operands whole for a share of axis {share.axis} of its result")
    (found, *_), expected = OPERATORS[op].shapes(shared_call(call, shares)), share.of(shape)
    if found != expected:
        raise Undividable(f"{op} of shares gives {found}, where the share of its result is {expected}")
    return shares


def _share_of(op: str, at: int, shape: Shape, boxes: list[Box | None]) -> Needed:
    """The share that the boxes, one for each part of the result, are of an operand."""
    whole, parts = Box.whole(shape), len(boxes)
    if all(box is None or box == whole for box in boxes):
        return None
    for count in (count for count in range(parts, 1, -1) if parts % count == 0):
        for share in (TileShare(axis, count) for axis in range(len(shape))):
            if share.possible(shape) and boxes == [
                share.box(shape, part * count // parts) for part in range(parts)
            ]:
                return share
    raise Undividable(f"a share of the result of {op} needs {boxes[0]} of operand {at}")


def shared_call(call: Call, shares: tuple[Needed, ...]) -> Call:
    """A call on a tile's shares of its operands."""
    inputs: list[Tensor | None] = []
    values: list[Array | None] = []
    for tensor, value, share in zip(call.inputs, call.values, shares, strict=True):
        inputs.append(None if tensor is None else replace(tensor, shape=shape_of_share(tensor.shape, share)))
        values.append(value if share is None else None)
    return replace(call, inputs=tuple(inputs), values=tuple(values))


def possible_shares(shape: Shape, tiles: int) -> list[TileShare]:
    """Shares of a result that keep at least half of the tiles busy that can be; the most tiles first."""
    found = [
        TileShare(axis, count)
        for axis, size in enumerate(shape)
        for count in range(min(2, tiles), min(size, tiles) + 1)
        if size % count == 0 and 2 * count >= min(size, tiles)
    ]
    return sorted(found, key=lambda share: (-share.count, share.axis))
