"""Finds gaps between taken bytes: the smallest one (best fit) and the first one."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator


def best_gap(taken: Iterable[tuple[int, int]], size: int, capacity: float = math.inf) -> int | None:
    """Return the address of the smallest gap that holds ``size`` bytes, the lowest of equal gaps; or None.

    Gaps are between the ranges ``taken`` and after the last of them, up to ``capacity``. A range is its first
    address and the address after its end; ranges may overlap.
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
