"""How the values of a sequence are divided: from a share of the result back to what each operator needs.

The tiles share one axis of the result. The records of the operators say which slices of their operands a
slice of a result needs. So every value of the sequence has an axis of its own that the tiles share, or each
tile needs all of it. Of such a value the tiles compute shares and gather them, or each computes the whole.
A result that no operator of the sequence reads is shared along an axis for which its operands are shared as
the others want them, if there is one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace

from compiler.codegen.expr import Value, minimum
from compiler.codegen.slices.tensors import DdrTensor
from compiler.graph import Array, Shape, Tensor
from compiler.lowering.pointwise.record import POINTWISE
from compiler.lowering.record import LOWERINGS, ChainNode, Work
from compiler.operators import OPERATORS
from compiler.operators.boxes.divisions import Following, followings
from compiler.operators.record import Call
from tx8isa.numbers.division import ceil_div


class Undividable(ValueError):
    """A sequence cannot be divided in a certain way; the message says which operator needs what."""


@dataclass(frozen=True)
class TileShare:
    """A tile's part of a value: one of ``count`` contiguous parts of an axis, each of ``size`` elements.

    Where the axis is shorter than all parts together, the last ones begin earlier: two tiles then compute the
    same elements. With fewer parts than tiles, neighbouring tiles have the same one.
    """

    axis: int
    count: int
    size: int

    @classmethod
    def along(cls, shape: Shape, axis: int, count: int) -> TileShare:
        """The share of an axis among ``count`` tiles; Undividable without at least an element for each."""
        if axis >= len(shape) or shape[axis] < count:
            raise Undividable(f"axis {axis} of {shape} has no {count} parts")
        return cls(axis, count, ceil_div(shape[axis], count))

    def of(self, shape: Shape) -> Shape:
        """The shape of a part."""
        return (*shape[: self.axis], self.size, *shape[self.axis + 1 :])

    def even(self, shape: Shape) -> bool:
        """Whether no parts overlap."""
        return shape[self.axis] == self.count * self.size

    def contiguous(self, shape: Shape) -> bool:
        """Whether a part is a single run of the stored elements."""
        return math.prod(shape[: self.axis]) == 1

    def begin(self, shape: Shape, number: Value) -> Value:
        """The first element of part ``number`` along the axis."""
        own = number * self.size
        return own if self.even(shape) else minimum(own, shape[self.axis] - self.size)

    def seen_in(self, shape: Shape, other: Shape) -> TileShare:
        """The same parts where the elements have another shape; Undividable if they are no parts there."""
        before, run = math.prod(shape[: self.axis]), self.size * math.prod(shape[self.axis + 1 :])
        for axis in range(len(other)):
            inner = math.prod(other[axis + 1 :])
            if (
                math.prod(other[:axis]) == before
                and inner
                and run % inner == 0
                and run <= other[axis] * inner
            ):
                return TileShare(axis, self.count, run // inner)
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

    ``wanted`` is what the users of each value that the stages make need of it, or what is stored of one
    without users. A value that they need whole, while the stage makes shares of it, is gathered.
    """

    tiles: int
    stages: list[SharedStage]
    wanted: dict[str, Needed]

    @property
    def read(self) -> set[str]:
        """The symbols of what the stages read."""
        return {tensor.symbol for stage in self.stages for tensor, _ in stage.uses()}

    def gathers(self, stage: SharedStage) -> bool:
        """Whether the tiles give each other their shares of the result of a stage."""
        return stage.result is not None and self.wanted[stage.work.output.symbol] is None


def divide(work: Work, axis: int, tiles: int, gathering: bool) -> SequenceDivision:
    """The division in which tiles share an axis of the result; Undividable if it is not possible.

    With ``gathering`` the tiles share the computation of what all need, where that is possible.
    """
    share = TileShare.along(work.output.shape, axis, tiles)
    return _Divider(work, tiles, gathering and tiles > 1).run(share)


@dataclass
class _Divider:
    work: Work
    tiles: int
    gathering: bool
    wanted: dict[str, Needed] = field(default_factory=dict)
    stages: list[SharedStage] = field(default_factory=list)

    def run(self, share: TileShare) -> SequenceDivision:
        shapes = {stage.output.symbol: stage.output.shape for stage in self.work.stages}
        self.wanted[self.work.output.symbol] = share
        for work in reversed(self.work.stages):
            symbol = work.output.symbol
            if symbol in self.wanted:
                stage = self._stage(work, self.wanted[symbol])
            else:
                stage = self._unread(work, share.axis, shapes)
                self.wanted[symbol] = stage.result
            self.stages.insert(0, stage)
            for tensor, needed in stage.uses():
                if tensor.symbol in shapes:
                    self._want(tensor.symbol, self._alone(tensor, needed, shapes))
        return SequenceDivision(self.tiles, self.stages, self.wanted)

    def _want(self, symbol: str, share: Needed) -> None:
        """Note what is needed of a value that a stage makes: all of it if its users differ."""
        if self.wanted.setdefault(symbol, share) != share:
            self.wanted[symbol] = None

    def _alone(self, tensor: DdrTensor, needed: Needed, shapes: Mapping[str, Shape]) -> Needed:
        """The share that is needed of a value, in the shape in which it is made.

        None, for all of it, if several tiles need the same part.
        """
        alone = needed is not None and needed.count == self.tiles
        return needed.seen_in(tensor.shape, shapes[tensor.symbol]) if needed is not None and alone else None

    def _unread(self, work: Work, axis: int, shapes: Mapping[str, Shape]) -> SharedStage:
        """A stage whose result is only stored: shared, along ``axis`` if that is as good as another one.

        Each tile computes all of it if it cannot be shared.
        """
        possible: list[SharedStage] = []
        for each in sorted(range(len(work.output.shape)), key=lambda at: at != axis):
            with suppress(Undividable):
                stage = self._shared(work, TileShare.along(work.output.shape, each, self.tiles))
                possible.append(stage)
                if all(self._is_wanted(*use, shapes) for use in stage.uses() if use[0].symbol in shapes):
                    return stage
        return possible[0] if possible else self._whole(work)

    def _is_wanted(self, tensor: DdrTensor, needed: Needed, shapes: Mapping[str, Shape]) -> bool:
        """Whether a share is that which other users of a value need, if there are any."""
        share = self._alone(tensor, needed, shapes)
        return self.wanted.get(tensor.symbol, share) == share

    def _stage(self, work: Work, wanted: Needed) -> SharedStage:
        if wanted is not None:
            return self._shared(work, wanted)
        if self.gathering:
            for axis in range(len(work.output.shape)):
                try:
                    share = TileShare.along(work.output.shape, axis, self.tiles)
                    if share.contiguous(work.output.shape):
                        return self._shared(work, share)
                except Undividable:
                    continue
        return self._whole(work)

    @staticmethod
    def _whole(work: Work) -> SharedStage:
        """A stage that every tile computes."""
        steps = tuple((None,) * len(step.operands) for step in work.steps)
        nodes = tuple((None,) * len(node.operands) for node in work.nodes)
        return SharedStage(work, None, (None,) * len(work.inputs), steps, nodes)

    def _shared(self, work: Work, share: TileShare) -> SharedStage:
        if work.nodes:
            return self._chain(work, share)
        steps: list[tuple[Needed, ...]] = []
        for step in reversed(work.steps):
            shares = needed_shares(step.op, step.call, work.output.shape, share)
            if any(shares[at] != share for at in step.running):
                raise Undividable(f"{step.op} needs more than a share of what is computed before it")
            steps.insert(0, shares[: len(step.operands)])
        if work.call is None:  # an operation that a pass inserted: it computes each element by itself
            return SharedStage(work, share, (share,) * len(work.inputs), tuple(steps))
        shares = needed_shares(work.op, work.call, work.output.shape, share)
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
        return needed_shares(node.op, node.call, shape, needed)[: len(node.operands)]


def _check_lowering(op: str, call: Call, shares: tuple[Needed, ...]) -> None:
    """Undividable if the lowering of an operator does not support the shares of a tile.

    Most lowerings arrange constants when compiling, and that is the same for all tiles.
    """
    for at, (value, share) in enumerate(zip(call.values, shares, strict=True)):
        if value is not None and share is not None and op not in POINTWISE:
            raise Undividable(f"{op} needs all of operand {at}, which is known when compiling")
    entry, shared = LOWERINGS[op], shared_call(call, shares)
    problem = entry.check(shared) if entry.check is not None else None
    if problem is not None:
        raise Undividable(f"{op} does not support shares: {problem}")
    if entry.on_core is not None and entry.on_core(shared):
        raise Undividable(f"{op} of shares is computed by the kernel core, which knows no shares")


def needed_shares(op: str, call: Call, shape: Shape, share: TileShare) -> tuple[Needed, ...]:
    """What a tile needs of each operand of a call for its share of the result, which has a shape.

    Undividable if it is something else than a share or all of an operand, or if the operator means
    something else on shares, because its attributes have numbers of the whole.
    """
    shares = _operand_shares(op, call, shape, share)
    if share.count > 1 and not any(shares):
        raise Undividable(f"{op} needs its operands whole for a share of axis {share.axis} of its result")
    (found, *_), expected = OPERATORS[op].shapes(shared_call(call, shares)), share.of(shape)
    if found != expected:
        raise Undividable(f"{op} of shares gives {found}, where the share of its result is {expected}")
    return shares


def _operand_shares(op: str, call: Call, shape: Shape, share: TileShare) -> tuple[Needed, ...]:
    """The shares of the operands.

    All parts begin at multiples of a unit. An operand that does not follow these may follow larger ones;
    then several tiles have the same share, as of heads of keys, where they are fewer than those of queries.
    """
    if share.count == 1:
        return (None,) * len(call.inputs)
    shares: dict[int, Needed] = {}
    unit = math.gcd(share.size, shape[share.axis])
    for same in range(1, share.count if share.even(shape) else 2):
        if share.count % same:
            continue
        units = shape[share.axis] // (unit * same)
        for at, following in followings(OPERATORS[op], call, share.axis, unit * same).items():
            if at not in shares and following is not None:
                _check_whole_units(call.shape(at), following, units)
                step = following.step * (share.size // unit)
                shares[at] = TileShare(following.axis, share.count // same, step)
            shares.setdefault(at, None)
        if len(shares) == len(call.inputs):
            return tuple(shares[at] for at in sorted(shares))
    missing = min(set(range(len(call.inputs))) - set(shares))
    raise Undividable(
        f"a share of axis {share.axis} of the result of {op} needs no share of operand {missing}"
    )


def _check_whole_units(shape: Shape, following: Following, units: int) -> None:
    """Undividable if the units of an operand overlap or are not all of it."""
    if following.before or following.after or following.step * units != shape[following.axis]:
        raise Undividable(f"shares of axis {following.axis} of {shape} are not all of it, or overlap")


def shared_call(call: Call, shares: tuple[Needed, ...]) -> Call:
    """A call on a tile's shares of its operands."""
    inputs: list[Tensor | None] = []
    values: list[Array | None] = []
    for tensor, value, share in zip(call.inputs, call.values, shares, strict=True):
        inputs.append(None if tensor is None else replace(tensor, shape=shape_of_share(tensor.shape, share)))
        values.append(value if share is None else None)
    return replace(call, inputs=tuple(inputs), values=tuple(values))


_TWELFTHS = (12, 8, 6, 3)
"""Shares are tried for so many twelfths of the tiles that an axis has elements for."""


def possible_shares(shape: Shape, tiles: int) -> list[TileShare]:
    """Shares of a result that may be promising: of each axis those among the most tiles, then others.

    Where every tile loads the same weights, a few tiles can be done before many.
    """
    found: list[tuple[int, TileShare]] = []
    for axis, size in enumerate(shape):
        most = {min(size, tiles) * part // 12 for part in _TWELFTHS}
        counts = {_best_count(size, busy) for busy in most if busy >= min(2, tiles)}
        found += enumerate(TileShare.along(shape, axis, count) for count in sorted(counts, reverse=True))
    return [share for _, share in sorted(found, key=lambda each: (each[0], -each[1].count, each[1].axis))]


def _best_count(size: int, most: int) -> int:
    """How many tiles share an axis, of at most so many; a quarter fewer if their parts do not overlap."""
    even = max(count for count in range(1, most + 1) if size % count == 0)
    busy = ceil_div(size, ceil_div(size, most))
    return even if 4 * even >= 3 * busy else busy
