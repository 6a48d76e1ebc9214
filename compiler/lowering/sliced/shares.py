"""Divides the values of a sequence, from a share of the result back to the operands of each operator.

The tiles share one axis of the result. The records of the operators say which slices of their operands a
slice of a result needs. So every value of the sequence has an axis that the tiles share, or each tile needs
all of it. In the second case the tiles compute shares and gather them, or each computes the whole. A result
that no operator of the sequence reads is shared along an axis that divides its operands as their other users
do, if there is such an axis.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property

from compiler.codegen.slices.tensors import DdrTensor
from compiler.graph import Shape
from compiler.lowering.record import AnyWork, ChainNode, ChainWork, SequenceWork, Work

from .needed import check_lowering, needed_shares
from .share_layout import has_gaps, is_compact, is_one_run, is_possible
from .tile_share import (
    Needed,
    TileShare,
    Undividable,
    shape_of_share,
    specified_shape,
    specified_share,
    stored_share,
)


@dataclass
class SharedStage:
    """One work of a sequence, with the shares of its result, its operands and its steps' operands.

    The axis of the result's share is one in the order of storage, the others are of the specification.
    """

    work: AnyWork
    result: Needed
    inputs: tuple[Needed, ...] = ()
    steps: tuple[tuple[Needed, ...], ...] = ()
    nodes: tuple[tuple[Needed, ...], ...] = ()

    def uses(self) -> Iterator[tuple[DdrTensor, Needed]]:
        """The tensors that it reads, with their shares."""
        steps = self.work.steps if isinstance(self.work, Work) else ()
        operands = [(self.work.inputs, self.inputs)]
        operands += [(step.operands, shares) for step, shares in zip(steps, self.steps, strict=True)]
        for tensors, shares in operands:
            for tensor, share in zip(tensors, shares, strict=True):
                if tensor is not None:
                    yield tensor, stored_share(tensor, share)


@dataclass
class SequenceDivision:
    """A sequence divided among ``tiles`` tiles.

    ``wanted``: for each computed value, the part that its users need, or that is stored if there are none.
    A value is gathered if its users need it whole, but its stage computes shares.
    """

    tiles: int
    stages: list[SharedStage]
    wanted: dict[str, Needed]

    @cached_property
    def made(self) -> dict[str, DdrTensor]:
        """The values that the stages make, by their symbols."""
        return {stage.work.output.symbol: stage.work.output for stage in self.stages}

    @property
    def read(self) -> set[str]:
        """The symbols of the values that stages read."""
        return {tensor.symbol for stage in self.stages for tensor, _ in stage.uses()}

    def gathers(self, stage: SharedStage) -> bool:
        """True if the tiles exchange their shares of the result of a stage."""
        return stage.result is not None and self.wanted[stage.work.output.symbol] is None


def share_as_made(tensor: DdrTensor, share: TileShare, made: DdrTensor) -> TileShare:
    """Convert a share in the shape of an operand to the shape in which a stage computes the value.

    Undividable if it is no share in that shape.
    """
    compact = is_compact(tensor) and is_compact(made)
    if tensor.shape == made.shape and (tensor.blocked == made.blocked or compact):
        return share
    if not compact:
        raise Undividable(f"parts of {tensor.shape} are none where it is in planes of channels")
    return share.seen_in(tensor.shape, made.shape)


def divide(work: SequenceWork, axis: int, tiles: int, gathering: bool) -> SequenceDivision:
    """The division in which tiles share an axis of the result; Undividable if it is not possible.

    With ``gathering`` the tiles share the computation of values that all need, where possible.
    """
    share = _along(work.output, axis, tiles)
    return _Divider(work, tiles, gathering and tiles > 1).run(share)


def _along(tensor: DdrTensor, axis: int, count: int) -> TileShare:
    """Shards an axis among tiles; Undividable if a shard is not a few runs of stored elements."""
    share = TileShare.along(tensor.shape, axis, count)
    _check_runs(tensor, share)
    return share


def _check_runs(tensor: DdrTensor, share: Needed) -> None:
    if share is not None and not is_possible(tensor, share.axis, share.size):
        raise Undividable(f"parts of axis {share.axis} of {tensor.shape} are not some runs of its planes")


@dataclass
class _Divider:
    work: SequenceWork
    tiles: int
    gathering: bool
    wanted: dict[str, Needed] = field(default_factory=dict)
    stages: list[SharedStage] = field(default_factory=list)

    def run(self, share: TileShare) -> SequenceDivision:
        made = {stage.output.symbol: stage.output for stage in self.work.stages}
        self.wanted[self.work.output.symbol] = share
        for work in reversed(self.work.stages):
            symbol = work.output.symbol
            if symbol in self.wanted:
                stage = self._stage(work, self.wanted[symbol])
            else:
                stage = self._unread(work, share.axis, made)
                self.wanted[symbol] = stage.result
            self._check_result(stage)
            self.stages.insert(0, stage)
            for tensor, needed in stage.uses():
                _check_runs(tensor, needed)
                if tensor.symbol in made:
                    self._want(made[tensor.symbol], self._alone(tensor, needed, made))
        return SequenceDivision(self.tiles, self.stages, self.wanted)

    def _want(self, tensor: DdrTensor, share: Needed) -> None:
        """Record the part of a stage's value that a user needs.

        If users need different parts, all of it is needed, unless the parts differ only at their ends.
        """
        known = self.wanted.setdefault(tensor.symbol, share)
        if known != share:
            joined = known.joined(share, tensor.shape) if known is not None and share is not None else None
            self.wanted[tensor.symbol] = joined

    def _check_result(self, stage: SharedStage) -> None:
        """Undividable if a tile cannot store its share, or moves within the scratchpad cannot handle it."""
        output, share = stage.work.output, stage.result
        if has_gaps(output, shape_of_share(output.shape, share)):
            raise Undividable(f"images of {output.symbol} have gaps between them")
        stored = {tensor.symbol for tensor in (*self.work.others, self.work.output)}
        if share is not None and share.reach is not None and output.symbol in stored:
            raise Undividable(f"windows need more of {output.symbol} than a tile stores")

    def _alone(self, tensor: DdrTensor, needed: Needed, made: Mapping[str, DdrTensor]) -> Needed:
        """The share of a value that a user needs, in the shape in which the value is computed.

        None, for all of it, if several tiles need the same part.
        """
        if needed is None or needed.count != self.tiles:
            return None
        return share_as_made(tensor, needed, made[tensor.symbol])

    def _unread(self, work: AnyWork, axis: int, made: Mapping[str, DdrTensor]) -> SharedStage:
        """A stage whose result is only stored: shared along ``axis``, unless another one is better.

        Each tile computes all of it if it cannot be shared.
        """
        possible: list[SharedStage] = []
        for each in sorted(range(len(work.output.shape)), key=lambda at: at != axis):
            with suppress(Undividable):
                stage = self._shared(work, _along(work.output, each, self.tiles))
                possible.append(stage)
                if all(self._is_wanted(*use, made) for use in stage.uses() if use[0].symbol in made):
                    return stage
        return possible[0] if possible else self._whole(work)

    def _is_wanted(self, tensor: DdrTensor, needed: Needed, made: Mapping[str, DdrTensor]) -> bool:
        """True if all other users of a value need the same share."""
        share = self._alone(tensor, needed, made)
        return self.wanted.get(tensor.symbol, share) == share

    def _stage(self, work: AnyWork, wanted: Needed) -> SharedStage:
        if wanted is not None:
            return self._shared(work, wanted)
        if self.gathering:
            for axis in range(len(work.output.shape)):
                try:
                    share = _along(work.output, axis, self.tiles)
                    if is_one_run(work.output, axis, share.size):
                        return self._shared(work, share)
                except Undividable:
                    continue
        return self._whole(work)

    @staticmethod
    def _whole(work: AnyWork) -> SharedStage:
        """A stage that every tile computes."""
        steps = work.steps if isinstance(work, Work) else ()
        nodes = work.nodes if isinstance(work, ChainWork) else ()
        of_steps, of_nodes = (tuple((None,) * len(one.operands) for one in each) for each in (steps, nodes))
        return SharedStage(work, None, (None,) * len(work.inputs), of_steps, of_nodes)

    def _shared(self, work: AnyWork, share: TileShare) -> SharedStage:
        if isinstance(work, ChainWork):
            return self._chain(work, share)
        assert isinstance(work, Work)
        shape, own = specified_shape(work.output), specified_share(work.output, share)
        steps: list[tuple[Needed, ...]] = []
        for step in reversed(work.steps):
            shares = needed_shares(step.op, step.call, shape, own)
            if any(shares[at] != own for at in step.running):
                raise Undividable(f"{step.op} needs more than a share of what is computed before it")
            steps.insert(0, shares[: len(step.operands)])
        if work.call is None:  # an operation that a pass inserted: it computes each element by itself
            return SharedStage(work, share, (own,) * len(work.inputs), tuple(steps))
        shares = needed_shares(work.op, work.call, shape, own)
        check_lowering(work.op, work.call, shares)
        return SharedStage(work, share, shares[: len(work.inputs)], tuple(steps))

    def _chain(self, work: ChainWork, share: TileShare) -> SharedStage:
        """A chain as a stage, with the shares that its nodes need of each other and of the inputs."""
        base, shape = len(work.inputs), specified_shape(work.output)
        wanted: dict[int, Needed] = {base + len(work.nodes) - 1: specified_share(work.output, share)}
        nodes: list[tuple[Needed, ...]] = []
        for number in reversed(range(len(work.nodes))):
            node = work.nodes[number]
            shares = self._node(node, shape, wanted[base + number])
            nodes.insert(0, shares)
            for value, needed in zip(node.operands, shares, strict=True):
                if value is not None and wanted.setdefault(value, needed) != needed:
                    raise Undividable(f"{node.op} needs another share of a value than other operators")
        return SharedStage(work, share, tuple(wanted.get(at) for at in range(base)), nodes=tuple(nodes))

    def _node(self, node: ChainNode, shape: Shape, needed: Needed) -> tuple[Needed, ...]:
        if node.call is None or needed is None:
            return (needed,) * len(node.operands)
        return needed_shares(node.op, node.call, shape, needed)[: len(node.operands)]
