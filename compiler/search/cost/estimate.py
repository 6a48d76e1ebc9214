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

from .pricing import Pricing, pricing_of
from .timeline import Timeline
from .trace import Trace, trace_of

_RECENT = 8
"""Traces that are kept: those of the candidates for a stack are priced again after all have been compared."""


@dataclass(frozen=True)
class Estimate:
    """Cycles of a phase, busy cycles of each engine of one tile, and DDR traffic of all tiles in bytes.

    An exchange between chips takes as long as its links, if its engines need less.
    """

    cycles: int
    ahead: int
    """Cycles of them before the tiles meet for the first time, if until then only constants are loaded."""
    engines: dict[str, int]
    ddr_bytes: int
    tiles: int
    """Tiles that have work."""


def estimate(kernel: Kernel, machine: Machine) -> Estimate:
    """The time of a phase whose buffers have been placed."""
    return _priced(trace_of(kernel), pricing_of(machine))


def _priced(trace: Trace, pricing: Pricing, alone: bool = False) -> Estimate:
    timeline = _timeline([trace], pricing, alone)
    engines = {engine.name: ticks // TICKS for engine, ticks in sorted(timeline.busy.items())}
    moved = timeline.ddr_bytes * trace.tiles
    cycles = max(timeline.now // TICKS, trace.links)
    return Estimate(cycles, timeline.ahead // TICKS, engines, moved, trace.tiles)


def _timeline(traces: Sequence[Trace], pricing: Pricing, alone: bool = False) -> Timeline:
    """A tile after phases, one after another, without a barrier between them.

    ``alone`` as in ``Estimates``.
    """
    timeline = Timeline(pricing.machine, traces[0].sharing)
    if alone:
        timeline.first = round(pricing.machine.timing.dte.first.value * TICKS)
    for trace in traces:
        timeline.sharing = trace.sharing
        for event in trace.events:
            event.happen(timeline, pricing)
    return timeline


@lru_cache(maxsize=8)
def _at_ends(machine: Machine) -> tuple[Pricing, Pricing]:
    """The prices at both ends of the ranges; the same where there are none."""
    return pricing_of(at_end(machine, End.LEAST)), pricing_of(at_end(machine, End.MOST))


class Estimates:
    """Estimated cycles on one machine, and at both ends of the ranges of its figures.

    The trace of a phase is made once for all of them. ``alone``: the phase is the only one of its program, so
    that no other one makes the first copy of the DTE, which takes much longer.
    """

    def __init__(self, machine: Machine, alone: bool = False) -> None:
        self._alone = alone
        self._middle = pricing_of(machine)
        self._least, self._most = _at_ends(machine)
        self._recent: deque[tuple[Kernel, Trace]] = deque(maxlen=_RECENT)
        self._last: tuple[Kernel, Estimate] | None = None

    @property
    def has_range(self) -> bool:
        """Whether the ends differ."""
        return self._least is not self._most

    def cycles(self, kernel: Kernel) -> int:
        """The cycles at the values of the figures."""
        return self._estimate(kernel).cycles

    def ahead(self, kernel: Kernel) -> int:
        """The cycles of them that a phase before may hide."""
        return self._estimate(kernel).ahead

    def _estimate(self, kernel: Kernel) -> Estimate:
        if self._last is None or self._last[0] is not kernel:
            self._last = kernel, _priced(self._trace(kernel), self._middle, self._alone)
        return self._last[1]

    def at_ends(self, kernel: Kernel) -> tuple[int, int]:
        """The least and the most cycles."""
        trace = self._trace(kernel)
        least, most = (_priced(trace, ends, self._alone).cycles for ends in (self._least, self._most))
        return least, most

    def in_a_row(self, traces: Sequence[Trace]) -> tuple[int, int, int]:
        """Cycles of phases without a barrier between them: the least, those at the values, and the most."""
        prices = self._least, self._middle, self._most
        least, middle, most = (_timeline(traces, pricing).now // TICKS for pricing in prices)
        return least, middle, most

    def _trace(self, kernel: Kernel) -> Trace:
        known = next((trace for other, trace in self._recent if other is kernel), None)
        if known is None:
            known = trace_of(kernel)
            self._recent.append((kernel, known))
        return known
