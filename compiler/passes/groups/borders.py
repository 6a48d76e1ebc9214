"""Cost of groups as separate phases, with the borders between them: a sequence must cost less.

A border is a barrier with the wait for the engines before it. It takes 364 to 1622 cycles over the ranges of
the machine's figures, and instructions have a range too. So a sequence saves a different number of cycles at
each end. One that only just pays is judged at both ends and between them, like the candidates for a cut.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from compiler.dialect.ops import GroupOp, OutputOp
from compiler.dialect.types import stored_bytes
from compiler.passes.base import Context
from compiler.passes.work import unaliased
from compiler.search import CONTENDS, Trial
from compiler.search.cost import barrier_cycles
from tx8isa.machine.ends import End, at_end

from .views import concat_offsets, memory_root, slice_view, users_of


class RangeCycles(NamedTuple):
    """Cycles with the machine's figures at the least of their ranges, at their values, and at the most."""

    least: float
    middle: float
    most: float

    def plus(self, other: RangeCycles, times: int = 1) -> RangeCycles:
        pairs = zip(self, other, strict=True)
        return RangeCycles(*(one + times * another for one, another in pairs))


def range_of_trial(trial: Trial) -> RangeCycles:
    """The cycles of a trial; the same three times if they are not known at the ends."""
    cycles = trial.cycles or 0
    least, most = trial.ends or (cycles, cycles)
    return RangeCycles(least, cycles, most)


class Borders:
    """Prices groups as phases of their own.

    ``decided`` has the search's decisions for groups; for others only the estimate is known.
    """

    def __init__(self, context: Context, groups: Sequence[GroupOp], decided: Mapping[GroupOp, Trial]) -> None:
        self.context, self.decided = context, decided
        ends = [at_end(context.machine, end) for end in (End.LEAST, End.MIDDLE, End.MOST)]
        self.barrier = RangeCycles(*map(barrier_cycles, ends))
        self._kind = RangeCycles(*(end.timing.issue.kind.value for end in ends))
        self.groups = groups
        self.free = {each: self._is_free(each) for each in groups}
        self._used = dict(self._used_before())
        whole = RangeCycles(1, 1, 1)
        for each in groups:
            whole = whole.plus(self.alone(each)).plus(self.barrier)
        self.weights = RangeCycles(*(whole.middle / max(cycles, 1) for cycles in whole))
        """Weights of cycles at each end: all groups together count equally at both ends and in the middle."""

    def apart(self, groups: Sequence[GroupOp]) -> RangeCycles:
        """Cycles of groups as phases of their own, with the barriers between them."""
        total = RangeCycles(0, 0, 0)
        layer: dict[object, int] = {}
        for each in groups:
            before = (layer[owner] for owner in self.owners[each] if owner in layer)
            layer[each] = max(before, default=-1) + (not self.free[each])
            total = total.plus(self.alone(each))
        return total.plus(self.barrier, max(layer.values()))

    def gain(self, groups: Sequence[GroupOp], together: Trial) -> int:
        """Cycles that one phase of all groups saves."""
        return self.saved(self.apart(groups), self.as_one(groups, together), self.is_close(groups, together))

    def saved(self, apart: RangeCycles, joined: RangeCycles, close: bool) -> int:
        """Saved cycles; with ``close``, the ends of the ranges count too."""
        if not close:
            return round(apart.middle - joined.middle)
        saved = (w * (a - b) for w, a, b in zip(self.weights, apart, joined, strict=True))
        return round(sum(saved) / len(self.weights))

    def is_close(self, groups: Sequence[GroupOp], together: Trial) -> bool:
        """True if the ends of the ranges may decide if groups take less time together."""
        apart, cycles = self.apart(groups).middle, together.cycles or 0
        return cycles <= CONTENDS * apart and apart <= CONTENDS * cycles

    def alone(self, group: GroupOp) -> RangeCycles:
        """The cycles of a group as a phase of its own."""
        if self.free[group]:
            return RangeCycles(0, 0, 0)
        if group in self.decided:
            return self.as_one((group,), self.decided[group])
        estimate = 0 if group.estimate is None else group.estimate.value.data
        return RangeCycles(estimate, estimate, estimate)

    def as_one(self, groups: Sequence[GroupOp], trial: Trial) -> RangeCycles:
        """The cycles of groups as one phase, with those of the commands that other tiles have used before.

        The first command of a kind takes longer on each tile. The estimates count that once for a program,
        but it happens again in a phase on more tiles than all phases before.
        """
        used = self._used[groups[0]]
        late = sum(0 < used.get(kind, 0) < trial.tiles for kind in trial.kinds)
        return range_of_trial(trial).plus(self._kind, late)

    def _used_before(self) -> Iterator[tuple[GroupOp, Mapping[str, int]]]:
        """For each group, on how many tiles each kind of command is used before."""
        used: dict[str, int] = {}
        for each in self.groups:
            yield each, dict(used)
            trial = self.decided.get(each)
            if trial is not None and not self.free[each]:
                used |= {kind: max(trial.tiles, used.get(kind, 0)) for kind in trial.kinds}

    @cached_property
    def owners(self) -> dict[GroupOp, list[GroupOp]]:
        """The groups whose results groups use."""
        owners = {each: [unaliased(value).owner for value in each.operands] for each in self.groups}
        return {
            each: [owner for owner in found if isinstance(owner, GroupOp)] for each, found in owners.items()
        }

    @cached_property
    def copied(self) -> list[GroupOp]:
        """The groups whose result is copied to a graph output, because it is in other memory."""
        outputs = [
            (memory_root(value), value)
            for each in self.groups
            for value in each.results
            for user in users_of(value)
            if isinstance(user, OutputOp) and user.state is None
        ]
        count = Counter(root for root, _ in outputs)
        copied = (
            root.owner
            for root, value in outputs
            if count[root] > 1 or stored_bytes(root.type) > stored_bytes(value.type)
        )
        return [each for each in dict.fromkeys(copied) if isinstance(each, GroupOp)]

    def _is_free(self, group: GroupOp) -> bool:
        """True if a group moves nothing: operands are computed in the result, or it is a part of one."""
        owners = [unaliased(value).owner for value in group.operands]
        if concat_offsets(self.context, group) is not None:
            return 2 * sum(isinstance(owner, GroupOp) for owner in owners) >= len(owners)
        return slice_view(self.context, group) is not None
