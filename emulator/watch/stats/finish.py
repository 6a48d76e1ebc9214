"""Attributes the end of each tile to graph nodes.

The slices of a tile are taken in the order of its program, with the time by which all slices so far have
ended. A node gets the time that its slices add. Work that is hidden by older work adds nothing, and the sum
over all nodes is the tile's end, exactly to the tick.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .places import NO_NODE, Ints

_MOST = 1 << 16
"""Limit of a tile's slices that wait for an older one; beyond it, the oldest are counted at once."""


class _Rows(NamedTuple):
    """Slices by columns. ``order`` is twice the instruction's number, plus 1 for the instruction itself."""

    order: Ints
    ended: Ints
    node: Ints

    def at(self, chosen: Ints | slice) -> _Rows:
        return _Rows(*(column[chosen] for column in self))


_NOTHING = _Rows(*(np.zeros(0, dtype=np.int64) for _ in range(3)))


class Finish:
    """Ticks by node and tile."""

    def __init__(self, tiles: int) -> None:
        self.ticks = np.zeros((1, tiles), dtype=np.int64)
        self._reached = [0] * tiles
        self._next = [0] * tiles
        """For each tile: the instruction before which all slices are known."""
        self._waiting = [_NOTHING] * tiles

    def take(self, tile: Ints, number: Ints, is_core: Ints, ended: Ints, node: Ints, nodes: int) -> None:
        """Count slices, in any order for each tile. ``nodes``: the number of nodes."""
        self.ticks = grown(self.ticks, nodes)
        rows = _Rows(2 * number + 1 - is_core, ended, node)
        order = np.argsort(tile << 44 | rows.order, kind="stable")
        bounds = np.searchsorted(tile[order], np.arange(len(self._reached) + 1))
        for one in np.flatnonzero(np.diff(bounds)).tolist():
            self._add(one, rows.at(order[bounds[one] : bounds[one + 1]]))

    def _add(self, tile: int, new: _Rows) -> None:
        """Count the slices before the first missing instruction; the others wait."""
        rows = new
        if len(self._waiting[tile].order):
            rows = _Rows(*map(np.concatenate, zip(self._waiting[tile], new, strict=True)))
            rows = rows.at(np.argsort(rows.order, kind="stable"))
        self._next[tile] = _next_missing(rows.order, self._next[tile])
        known = int(np.searchsorted(rows.order, 2 * self._next[tile]))
        known = max(known, len(rows.order) - _MOST)
        self._count(tile, rows.at(slice(0, known)))
        self._waiting[tile] = rows.at(slice(known, None))

    def _count(self, tile: int, rows: _Rows) -> None:
        if not len(rows.order):
            return
        reached = np.maximum(np.maximum.accumulate(rows.ended), self._reached[tile])
        np.add.at(self.ticks[:, tile], rows.node, np.diff(reached, prepend=self._reached[tile]))
        self._reached[tile] = int(reached[-1])

    def close(self, ends: Sequence[int]) -> None:
        """Count the waiting slices, and the rest up to each tile's end, which belongs to no node."""
        for tile, end in enumerate(ends):
            self._count(tile, self._waiting[tile])
            self._waiting[tile] = _NOTHING
            self.ticks[NO_NODE, tile] += max(end - self._reached[tile], 0)


def _next_missing(order: Ints, first: int) -> int:
    """Return the lowest instruction from ``first`` that is not among sorted rows."""
    numbers = order[(order & 1 == 1) & (order >= 2 * first)] >> 1
    if not len(numbers) or numbers[0] != first:
        return first
    gaps = np.flatnonzero(np.diff(numbers) > 1)
    return int(numbers[gaps[0] if len(gaps) else -1]) + 1


def grown(array: Ints, rows: int) -> Ints:
    """Return the array with at least ``rows`` rows, new ones zero."""
    if len(array) >= rows:
        return array
    more = np.zeros((max(rows, 2 * len(array)) - len(array), *array.shape[1:]), dtype=np.int64)
    return np.concatenate([array, more])
