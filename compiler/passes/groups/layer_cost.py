"""Savings of joined groups among the other phases: no barrier is between the phases of a layer.

The engines of these phases overlap, so a layer takes less time than its phases one after another. The
estimate executes the traces of these phases in a row, as a search does with the trace of one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace

from compiler.dialect.ops import GroupOp
from compiler.lowering.generate import generate
from compiler.lowering.record import AnyWork, without_exchanges
from compiler.passes.base import Context
from compiler.passes.work import target_of, work_of
from compiler.search.cost import NOTHING, Estimates, Shares, Trace, trace_of

from .borders import Borders, RangeCycles
from .sequences import Joint, Sequences

LEAST_BARRIERS, _LEAST_WITHIN = 0.5, 1.0
"""Least gain of a joint, in barriers; more if no barrier is saved and only the overlap changes."""

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
            phases = [(self._trace(each), self._kinds(each)) for each in row]
            self._known[key] = RangeCycles(*self._estimates.in_a_row(phases))
        return self._known[key]

    def _kinds(self, phase: _Phase) -> Shares:
        """The share of a phase in the cost of first commands."""
        if isinstance(phase, Joint):
            return phase.result.best.kinds
        return self.sequences.decided[phase].kinds if phase in self.sequences.decided else NOTHING

    def _trace(self, phase: _Phase) -> Trace:
        if phase not in self._traces:
            if isinstance(phase, Joint):
                work: AnyWork = replace(phase.work, cut=phase.result.best.cut)
            else:
                work = without_exchanges(work_of(self.context, phase, self.sequences.symbol))
            self._traces[phase] = trace_of(generate("p", work, target_of(self.context)))
        return self._traces[phase]


_Rows = set[tuple[int, ...]]
"""The phases of each layer that has any, by their numbers."""


class LayerCost:
    """The cost of the layers of a module (pass ``group_order``), now and with some groups as one."""

    def __init__(self, borders: Borders, prices: RowPrices) -> None:
        self.borders, self.prices, self.groups = borders, prices, borders.groups
        self.number = {each: at for at, each in enumerate(self.groups)}
        self._owners = [[self.number[owner] for owner in borders.owners[each]] for each in self.groups]
        self._free = [borders.free[each] for each in self.groups]
        self._copied = [self.number[each] for each in borders.copied]
        self._ordered = all(owner < at for at, owners in enumerate(self._owners) for owner in owners)
        self._base: list[int] = []
        self._base = self._numbered(())[1]
        self._rows, self._count = self._layers(())

    def layers_saved(self, groups: Collection[GroupOp]) -> int:
        """Number of layers, and so of barriers, that are saved if these groups are one."""
        phase, layer = self._numbered(groups)
        used = {layer[own] for own, free in zip(phase, self._free, strict=True) if not free}
        if groups:
            used.add(layer[-1])
        return self._count - self._counted(used, phase, layer)

    def gain(self, joint: Joint) -> int:
        """Cycles that groups save as one.

        0 if the gain is within the error of estimates, or if there is none without overlapping phases.
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
        """The phases of the layers, and the number of layers; in some, values are only copied.

        The joined groups are the phase with the number after those of all groups.
        """
        phase, layer = self._numbered(joined)
        one, rows = len(self.groups), dict[int, list[int]]()
        for own in dict.fromkeys(phase):
            if own == one or not self._free[own]:
                rows.setdefault(layer[own], []).append(own)
        return set(map(tuple, rows.values())), self._counted(rows, phase, layer)

    def _counted(self, used: Iterable[int], phase: list[int], layer: list[int]) -> int:
        """Number of layers: the ``used`` ones, and those in which values are copied."""
        return len({*used, *(layer[phase[at]] + 1 for at in self._copied)})

    def _numbered(self, joined: Collection[GroupOp]) -> tuple[list[int], list[int]]:
        """The phase of each group, and the layer of each phase.

        Joining groups does not change the dependences of earlier groups.
        """
        one = len(self.groups)
        phase = list(range(one))
        for each in joined:
            phase[self.number[each]] = one
        first = min((self.number[each] for each in joined), default=0) if self._ordered else 0
        layer = [*self._base[:first], *[0] * (one + 1 - first)]
        while self._raised(phase, layer, first):
            pass
        return phase, layer

    def _raised(self, phase: list[int], layer: list[int], first: int) -> bool:
        """Raise phases of the groups from ``first`` above the layers that they wait for; True if any was
        too low.
        """
        one, raised = len(self.groups), False
        for at in range(first, one):
            own, least = phase[at], -1
            for owner in self._owners[at]:
                other = phase[owner]
                if other != own and layer[other] > least:
                    least = layer[other]
            least += own == one or not self._free[at]
            if least > layer[own]:
                layer[own], raised = least, True
        return raised

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
                total = total.plus(self.borders.as_one(each.groups, each.result.best))
            else:
                total = total.plus(self.borders.alone(each))
        return total

    def _overlapping(self, row: Sequence[_Phase]) -> RangeCycles:
        return self._one_after_another(row) if len(row) == 1 else self.prices.overlapping(row)
