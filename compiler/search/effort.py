"""Efforts of the search, in numbers of candidates and not in seconds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Effort:
    """Bounds of a search.

    A compilation tries about ``total`` candidates. A template gets ``least`` to ``most`` of them, but at most
    one for every ``cycles_per_candidate`` that its groups take, because short groups can gain only a little.
    For a stack, which the total does not count, up to ``stack`` candidates that fit are tried. A stack of
    over two groups is tried if ``predicted`` times its predicted cycles are among the least; with 0
    all are. Of the groups that may grow into sequences, ``grown`` are tried.
    """

    total: int
    least: int
    most: int
    cycles_per_candidate: int = 1
    stack: int = 0
    predicted: float = 0.0
    grown: int = 0

    def shares(self, weights: Sequence[int]) -> list[int]:
        """Candidates per template; ``weights`` are the cycles of all groups of each template together."""
        whole = max(sum(weights), 1)
        shares = (max(self.least, min(self.most, self.total * weight // whole)) for weight in weights)
        return [
            min(share, weight // self.cycles_per_candidate)
            for share, weight in zip(shares, weights, strict=True)
        ]


EFFORTS = {
    "off": Effort(0, 0, 0),
    "fast": Effort(400, 4, 16, 500, 4, 0.8, 100),
    "full": Effort(4000, 24, 200, 1, 8, 0.0, 1000),
}
"""The efforts by the name that ``--search`` takes."""
