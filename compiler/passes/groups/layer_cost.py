"""What groups save as one where the other phases are: no barrier is between the phases of a layer.

Their engines overlap, so a layer takes less than its phases one after another. A tile executes the traces of
these phases in a row, as a search lets it execute the trace of one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from compiler.dialect.ops import GroupOp
from compiler.lowering.generate import generate
from compiler.passes.base import Context
from compiler.passes.work import target_of, work_of
from compiler.search.cost import Estimates, Trace, trace_of

from .borders import Borders, RangeCycles, range_of_trial
from .sequences import Joint, Sequences

LEAST_BARRIERS, _LEAST_WITHIN = 0.5, 1.0
"""Barriers that groups must save as one, in cycles; more where none goes and only the overlap changes."""

_Phase = GroupOp | Joint


class RowPrices:
    """Prices phases without barriers between them. Traces are made once."""

    def __init__(self, context: Context, sequences: Sequences) -> None:
        self.context, self.sequences = context, sequences
        self._estimates = Estimates(context.machine)
        self._traces: dict[_Phase, Trace] = {}
        self._known: dict[tuple[_Phase, ...], RangeCycles] = {}

    def overlapping(self, row: Sequence[_Phase]) -> RangeCycles:
        """The cycles of phases that one tile executes in this order."""
        key = tuple(row)
        if key not in self._known:
            self._known[key] = RangeCycles(*self._estimates.in_a_row([self._trace(each) for each in row]))
        return self._known[key]

    def _trace(self, phase: _Phase) -> Trace:
        if phase not in self._traces:
            if isinstance(phase, Joint):
                work = replace(phase.work, cut=phase.result.best.cut)
            else:
                work = replace(work_of(self.context, phase, self.sequences.symbol), exchanges=None)
            self._traces[phase] = trace_of(generate("p", work, target_of(self.context)))
        return self._traces[phase]


_Rows = set[tuple[int, ...]]
"""The phases of each layer that has any, by their numbers."""


class LayerCost:
    """The cost of the layers of a module (pass ``group_order``), as they are and with some groups as one."""

    def __init__(self, borders: Borders, prices: RowPrices) -> None:
        self.borders, self.prices, self.groups = borders, prices, borders.groups
        self.number = {each: at for at, each in enumerate(self.groups)}
        self._owners = [[self.number[owner] for owner in borders.owners[each]] for each in self.groups]
        self._free = [borders.free[each] for each in self.groups]
        self._copied = [self.number[each] for each in borders.copied]
        self._rows, self._count = self._layers(())

    def layers_saved(self, groups: Collection[GroupOp]) -> int:
        """How many layers fewer there are, with as many barriers, if these groups are one."""
        return self._count - self._layers(groups)[1]

    def gain(self, joint: Joint) -> int:
        """Cycles that groups save as one.

        0 for so few that estimates may be wrong about it, and if there are none where no phases overlap.
        """
        rows, count = self._layers(joint.groups)
        borders, fewer = self.borders, self._count - count
        close, gain = borders.is_close(joint.groups, joint.result.best), 0
        for way in self._one_after_another, self._overlapping:
            apart = self._cycles(self._rows - rows, joint, way).plus(borders.barrier, fewer)
            gain = borders.saved(apart, self._cycles(rows - self._rows, joint, way), close)
            if gain <= 0:
                return 0
        least = LEAST_BARRIERS if fewer > 0 else _LEAST_WITHIN
        return gain if gain > least * borders.barrier.middle else 0

    def _layers(self, joined: Collection[GroupOp]) -> tuple[_Rows, int]:
        """The phases of the layers, and how many layers there are; in some, values are only copied.

        The joined groups are the phase with the number after those of all groups.
        """
        phase, one = list(range(len(self.groups))), len(self.groups)
        for each in joined:
            phase[self.number[each]] = one
        layer, moved = [0] * (one + 1), True
        while moved:
            moved = False
            for at, own in enumerate(phase):
                before = [layer[phase[owner]] for owner in self._owners[at] if phase[owner] != own]
                least = max(before, default=-1) + (own == one or not self._free[at])
                if least > layer[own]:
                    layer[own], moved = least, True
        rows: dict[int, list[int]] = {}
        for own in dict.fromkeys(phase):
            if own == one or not self._free[own]:
                rows.setdefault(layer[own], []).append(own)
        return set(map(tuple, rows.values())), len({*rows, *(layer[phase[at]] + 1 for at in self._copied)})

    def _cycles(
        self, rows: _Rows, joint: Joint, way: Callable[[Sequence[_Phase]], RangeCycles]
    ) -> RangeCycles:
        total = RangeCycles(0, 0, 0)
        for row in rows:
            total = total.plus(way([self.groups[at] if at < len(self.groups) else joint for at in row]))
        return total

    def _one_after_another(self, row: Sequence[_Phase]) -> RangeCycles:
        total = RangeCycles(0, 0, 0)
        for each in row:
            if isinstance(each, Joint):
                total = total.plus(range_of_trial(each.result.best))
            else:
                total = total.plus(self.borders.alone(each))
        return total

    def _overlapping(self, row: Sequence[_Phase]) -> RangeCycles:
        return self._one_after_another(row) if len(row) == 1 else self.prices.overlapping(row)
