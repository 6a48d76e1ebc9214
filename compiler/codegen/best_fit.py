"""Gaps between taken bytes: the smallest, for best-fit allocation, and the first."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator


def best_gap(taken: Iterable[tuple[int, int]], size: int, capacity: float = math.inf) -> int | None:
    """The first address of the smallest gap that holds ``size`` bytes, the lowest of equal ones; or None.

    Gaps are between the ranges ``taken``, (first address, address after the last), which may overlap one
    another, and from the last of them to ``capacity``.
    """
    return min(_gaps(taken, size, capacity), key=lambda gap: gap[1], default=(None, 0))[0]


def first_gap(taken: Iterable[tuple[int, int]], size: int, capacity: int) -> int | None:
    """The first address of the lowest gap that holds ``size`` bytes, or None.

    ``taken`` as for ``best_gap``.
    """
    return next((address for address, _ in _gaps(taken, size, capacity)), None)


def _gaps(taken: Iterable[tuple[int, int]], size: int, capacity: float) -> Iterator[tuple[int, float]]:
    """The gaps that hold ``size`` bytes, by rising address: the first address, and the number of bytes."""
    cursor = 0
    for begin, end in sorted(taken):
        if begin - cursor >= size:
            yield cursor, begin - cursor
        cursor = max(cursor, end)
    if capacity - cursor >= size:
        yield cursor, capacity - cursor
