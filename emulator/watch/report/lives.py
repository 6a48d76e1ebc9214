"""Declared buffers of a scratchpad: on each tile from their first access to their last."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from asm.image import LiveRange
from emulator.watch.accesses import SpmAccesses
from emulator.watch.bins import Ints

MOST_LIVES = 4000
"""The most live ranges that are followed: the largest ones."""
NEVER = -1


class Lives:
    """The followed live ranges ``ranges``, with the times of their accesses by tile.

    ``start`` and ``end``, [range, tile], are the ticks in which the first access begins and the last one
    ends, ``NEVER`` without an access. An access belongs to the range that is alive at its program counter and
    address.
    """

    def __init__(self, declared: Sequence[LiveRange], tiles: int, spm_bytes: int) -> None:
        inside = [live for live in declared if live.address + live.size <= spm_bytes]
        largest = sorted(inside, key=lambda live: -live.size)[:MOST_LIVES]
        self.ranges = sorted(largest, key=lambda live: (live.begin, live.address))
        self.left_out = len(declared) - len(self.ranges)
        self.start = np.full((len(self.ranges), tiles), NEVER, dtype=np.int64)
        self.end = self.start.copy()
        self._span = spm_bytes
        self._edges = np.unique([edge for live in self.ranges for edge in (live.begin, live.end)])
        self._keys, self._owner = self._table()

    def _table(self) -> tuple[Ints, Ints]:
        """Return an ascending number made of a stretch of code between two edges and a first byte.

        And the ranges' numbers.
        """
        begins = np.searchsorted(self._edges, [live.begin for live in self.ranges])
        counts = np.searchsorted(self._edges, [live.end for live in self.ranges]) - begins
        owner = np.repeat(np.arange(len(self.ranges)), counts)
        within = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)
        addresses = np.array([live.address for live in self.ranges], dtype=np.int64)
        keys = (begins[owner] + within) * self._span + addresses[owner]
        order = np.argsort(keys, kind="stable")
        return keys[order], owner[order]

    def add(self, slices: npt.NDArray[np.void], accesses: SpmAccesses) -> None:
        """Take slices and their accesses."""
        if not len(self.ranges) or not len(accesses.row):
            return
        stretch = np.searchsorted(self._edges, slices["pc"][accesses.row], side="right") - 1
        at = np.searchsorted(self._keys, stretch * self._span + accesses.first, side="right") - 1
        owner = self._owner[np.maximum(at, 0)]
        sizes = np.array([live.size for live in self.ranges], dtype=np.int64)
        distance = stretch * self._span + accesses.first - self._keys[np.maximum(at, 0)]
        found = np.flatnonzero((stretch >= 0) & (at >= 0) & (distance < sizes[owner]))
        place = owner[found], accesses.tile[found]
        started, ended = (slices[name][accesses.row[found]] for name in ("started", "ended"))
        known = np.where(self.start == NEVER, np.iinfo(np.int64).max, self.start)
        np.minimum.at(known, place, started)
        np.maximum.at(self.end, place, ended)
        self.start = np.where(self.end == NEVER, NEVER, known)

    def peak(self) -> tuple[int, int]:
        """Return the most bytes that are alive at once, and the address of the code where that begins."""
        steps = np.zeros(len(self._edges) + 1, dtype=np.int64)
        for live in self.ranges:
            steps[np.searchsorted(self._edges, live.begin)] += live.size
            steps[np.searchsorted(self._edges, live.end)] -= live.size
        sums = np.cumsum(steps)
        most = int(np.argmax(sums))
        return int(sums[most]), int(self._edges[most]) if len(self._edges) else 0
