"""Estimates the time of a phase: prices its trace on a machine."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from compiler.codegen.kernel import Kernel
from tx8isa.cost.instructions import TICKS
from tx8isa.machine.description import Machine
from tx8isa.machine.ends import End, at_end

from .kinds import NOTHING, KindUse, Shares
from .pricing import Pricing, pricing_of
from .timeline import Timeline
from .trace import Trace, trace_of

_RECENT = 8
"""Traces in the cache; a stack's candidates are priced again after all have been compared."""


@dataclass(frozen=True)
class Estimate:
    """Cycles of a phase, busy cycles of each engine of one tile, and DDR traffic of all tiles in bytes.

    An exchange between chips takes as long as its links, if its engines need less.
    """

    cycles: int
    ahead: int
    """Cycles before the tiles meet for the first time, if they load only constants until then."""
    engines: dict[str, int]
    ddr_bytes: int
    tiles: int
    """Tiles that have work."""


def estimate(kernel: Kernel, machine: Machine) -> Estimate:
    """Estimate the time of a phase whose buffers have been placed."""
    return _priced(trace_of(kernel), pricing_of(machine))


def _priced(trace: Trace, pricing: Pricing, alone: bool = False, shares: Shares = NOTHING) -> Estimate:
    timeline = _timeline([(trace, shares)], pricing, alone)
    engines = {engine.name: ticks // TICKS for engine, ticks in sorted(timeline.busy.items())}
    moved = timeline.ddr_bytes * trace.tiles
    cycles = max(timeline.now // TICKS, trace.links)
    return Estimate(cycles, timeline.ahead // TICKS, engines, moved, trace.tiles)


def _timeline(phases: Sequence[tuple[Trace, Shares]], pricing: Pricing, alone: bool = False) -> Timeline:
    """The state of a tile after phases that follow each other without a barrier.

    ``alone`` as in ``Estimates``.
    """
    timeline = Timeline(pricing.machine, phases[0][0].sharing)
    if alone:
        timeline.first = round(pricing.machine.timing.dte.first.value * TICKS)
    for trace, shares in phases:
        timeline.sharing, timeline.kinds = trace.sharing, shares
        for event in trace.events:
            event.happen(timeline, pricing)
    return timeline


@lru_cache(maxsize=8)
def _at_ends(machine: Machine) -> tuple[Pricing, Pricing]:
    """The prices at both ends of the ranges; equal if there are none."""
    return pricing_of(at_end(machine, End.LEAST)), pricing_of(at_end(machine, End.MOST))


class Estimates:
    """Estimated cycles on one machine, and at both ends of the ranges of its figures.

    The trace of a phase is made once for all of them. ``alone``: the phase is the only one of its program.
    Then no other phase makes the first copy of the DTE, which takes much longer. ``use``: the kinds of
    commands that the groups of the program use; without it, first commands cost nothing extra. ``groups``:
    the shares of the groups that the phase consists of.
    """

    def __init__(
        self, machine: Machine, alone: bool = False, use: KindUse | None = None, groups: Shares = NOTHING
    ) -> None:
        self._alone, self._use, self._groups = alone, use, groups
        self._middle = pricing_of(machine)
        self._least, self._most = _at_ends(machine)
        self._recent: deque[tuple[Kernel, Trace]] = deque(maxlen=_RECENT)
        self._last: tuple[Kernel, Estimate] | None = None

    @property
    def has_range(self) -> bool:
        """True if the ends differ."""
        return self._least is not self._most

    def cycles(self, kernel: Kernel) -> int:
        """The cycles at the values of the figures."""
        return self._estimate(kernel).cycles

    def ahead(self, kernel: Kernel) -> int:
        """The part of the cycles that the phase before may hide."""
        return self._estimate(kernel).ahead

    def tiles(self, kernel: Kernel) -> int:
        """The tiles that have work."""
        return self._estimate(kernel).tiles

    def _estimate(self, kernel: Kernel) -> Estimate:
        if self._last is None or self._last[0] is not kernel:
            trace = self._trace(kernel)
            self._last = kernel, _priced(trace, self._middle, self._alone, self._shares(trace))
        return self._last[1]

    def at_ends(self, kernel: Kernel) -> tuple[int, int]:
        """The least and the most cycles."""
        trace = self._trace(kernel)
        shares, ends = self._shares(trace), (self._least, self._most)
        least, most = (_priced(trace, end, self._alone, shares).cycles for end in ends)
        return least, most

    def kinds(self, kernel: Kernel) -> Shares:
        """The shares that the phase has in the kinds of commands that it uses."""
        return self._shares(self._trace(kernel))

    def _shares(self, trace: Trace) -> Shares:
        return NOTHING if self._use is None else self._use.shares(trace.kinds, self._groups)

    def in_a_row(self, phases: Sequence[tuple[Trace, Shares]]) -> tuple[int, int, int]:
        """Cycles of phases without a barrier between them: least, at the figures' values, and most."""
        prices = self._least, self._middle, self._most
        least, middle, most = (_timeline(phases, pricing).now // TICKS for pricing in prices)
        return least, middle, most

    def _trace(self, kernel: Kernel) -> Trace:
        known = next((trace for other, trace in self._recent if other is kernel), None)
        if known is None:
            known = trace_of(kernel)
            self._recent.append((kernel, known))
        return known
