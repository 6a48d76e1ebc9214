"""Places values with live ranges in memory: two values share bytes only if they are never alive together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from compiler.codegen.best_fit import best_gap
from tx8isa.numbers.division import round_up


@dataclass(frozen=True)
class LiveRange:
    """A value of ``size`` bytes that is alive from step ``first`` to step ``last``, both included."""

    first: int
    last: int
    size: int

    def with_size(self, size: int) -> LiveRange:
        """The live range with room for at least ``size`` bytes."""
        return replace(self, size=max(self.size, size))

    def until(self, step: int) -> LiveRange:
        """The live range with its end at ``step`` or later."""
        return replace(self, last=max(self.last, step))


def best_fit(live_ranges: Sequence[LiveRange], grain: int) -> list[int]:
    """An address for each live range, a multiple of ``grain``.

    Ranges are placed by their first steps, larger ones before smaller ones. Each gets the smallest gap
    between the values that are alive then.
    """
    addresses = [0] * len(live_ranges)
    spans = [round_up(max(live_range.size, 1), grain) for live_range in live_ranges]
    alive: list[int] = []
    order = sorted(range(len(live_ranges)), key=lambda at: (live_ranges[at].first, -live_ranges[at].size, at))
    for at in order:
        alive = [other for other in alive if live_ranges[other].last >= live_ranges[at].first]
        taken = [(addresses[other], addresses[other] + spans[other]) for other in alive]
        address = best_gap(taken, live_ranges[at].size)
        assert address is not None
        addresses[at] = address
        alive.append(at)
    return addresses
