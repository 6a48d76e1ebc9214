"""Memory for values that live for a while: two share bytes only if one is dead before the other begins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tx8isa.numbers.division import round_up


@dataclass(frozen=True)
class Life:
    """``size`` bytes from step ``first`` to step ``last``, both included."""

    first: int
    last: int
    size: int

    def with_size(self, size: int) -> Life:
        """The same for at least so many bytes."""
        return replace(self, size=max(self.size, size))

    def until(self, step: int) -> Life:
        """The same, to this step at least."""
        return replace(self, last=max(self.last, step))


def best_fit(lives: Sequence[Life], grain: int) -> list[int]:
    """An address for each, a multiple of ``grain``: the smallest gap between those alive then that holds it.

    In the order in which they begin, the larger first.
    """
    addresses = [0] * len(lives)
    alive: list[int] = []
    for at in sorted(range(len(lives)), key=lambda at: (lives[at].first, -lives[at].size, at)):
        alive = [other for other in alive if lives[other].last >= lives[at].first]
        taken = [(addresses[other], lives[other].size) for other in alive]
        addresses[at] = _smallest_gap(sorted(taken), lives[at].size, grain)
        alive.append(at)
    return addresses


def _smallest_gap(taken: Sequence[tuple[int, int]], size: int, grain: int) -> int:
    """Where ``size`` bytes fit best between ranges (address, size); behind them all if nowhere else."""
    best: tuple[int, int] | None = None
    cursor = 0
    for address, other in taken:
        gap = address - cursor
        if gap >= size and (best is None or gap < best[0]):
            best = (gap, cursor)
        cursor = max(cursor, round_up(address + max(other, 1), grain))
    return cursor if best is None else best[1]
