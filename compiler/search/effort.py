"""How much is tried: numbers of candidates, not seconds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Effort:
    """At most ``total`` candidates in a compilation; ``least`` to ``most`` of them for one template, and one
    for every ``worth`` cycles of it: what is short cannot get much shorter. ``stack``: candidates that fit of
    one stack, beyond the total."""

    total: int
    least: int
    most: int
    worth: int = 1
    stack: int = 0

    def shares(self, weights: Sequence[int]) -> list[int]:
        """Candidates for templates of these weights (cycles of all their groups together)."""
        whole = max(sum(weights), 1)
        shares = (max(self.least, min(self.most, self.total * weight // whole)) for weight in weights)
        return [min(share, weight // self.worth) for share, weight in zip(shares, weights, strict=True)]


EFFORTS = {"off": Effort(0, 0, 0), "fast": Effort(400, 4, 16, 500, 2), "full": Effort(4000, 24, 200, 1, 8)}
"""By the name that ``--search`` takes."""
