"""Memory for values with live ranges: two values share bytes only if they are never alive together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

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

    In the order of their first steps, larger ones first, each gets the smallest gap between the values that
    are alive then.
    """
    addresses = [0] * len(live_ranges)
    alive: list[int] = []
    order = sorted(range(len(live_ranges)), key=lambda at: (live_ranges[at].first, -live_ranges[at].size, at))
    for at in order:
        alive = [other for other in alive if live_ranges[other].last >= live_ranges[at].first]
        taken = [(addresses[other], live_ranges[other].size) for other in alive]
        addresses[at] = _smallest_gap(sorted(taken), live_ranges[at].size, grain)
        alive.append(at)
    return addresses


def _smallest_gap(taken: Sequence[tuple[int, int]], size: int, grain: int) -> int:
    """The address of the smallest gap between (address, size) ranges that holds ``size`` bytes.

    If no gap does, it is the address after the last range.
    """
    best: tuple[int, int] | None = None
    cursor = 0
    for address, other in taken:
        gap = address - cursor
        if gap >= size and (best is None or gap < best[0]):
            best = (gap, cursor)
        cursor = max(cursor, round_up(address + max(other, 1), grain))
    return cursor if best is None else best[1]
