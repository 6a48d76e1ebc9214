"""Best-fit allocation: the smallest gap between the bytes that are taken."""

from __future__ import annotations

import math
from collections.abc import Iterable


def best_gap(taken: Iterable[tuple[int, int]], size: int, capacity: float = math.inf) -> int | None:
    """The first address of the smallest gap that holds ``size`` bytes, the lowest of equal ones; or None.

    Gaps are between the ranges ``taken``, (first address, address after the last), which may overlap one
    another, and from the last of them to ``capacity``.
    """
    best: tuple[float, int] | None = None
    cursor = 0
    for begin, end in sorted(taken):
        gap = begin - cursor
        if gap >= size and (best is None or gap < best[0]):
            best = (gap, cursor)
        cursor = max(cursor, end)
    gap_at_end = capacity - cursor
    if gap_at_end >= size and (best is None or gap_at_end < best[0]):
        best = (gap_at_end, cursor)
    return None if best is None else best[1]
