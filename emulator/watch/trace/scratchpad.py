"""Measures the use of a scratchpad over time, from the byte ranges of the instructions.

Two bit maps for each tile have the 256-byte lines that were read and written in each bin of time. A line is
in use in a bin in which it is touched, and between a write and a later read of it. Within a bin, reads count
as if they came first: a line that is read was in use before, if it had been written.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import numpy.typing as npt

from emulator.timing.slices import TICKS, Batch
from emulator.watch.accesses import spm_accesses
from emulator.watch.bins import Axis, Ints
from tx8isa.numbers.layouts import LINE_BYTES

BINS = 512
_SLAB = 64
"""Rows of the bit map that are filled at once."""
_READ, _WRITTEN = 0, 1
Bits = npt.NDArray[np.uint8]


class ScratchpadUse:
    """The maps of all tiles; a tile's are made when it first touches its scratchpad."""

    def __init__(self, tiles: int, spm_bytes: int) -> None:
        self.axis = Axis(BINS, TICKS)
        self._lines = -(-spm_bytes // LINE_BYTES)
        self._maps: list[Bits | None] = [None] * tiles

    def add(self, batch: Batch) -> None:
        """Record the ranges of slices."""
        slices = batch.slices
        row, first, size, written, tile = spm_accesses(slices, batch.ranges)
        if not len(row):
            return
        begin, end = slices["started"][row], slices["ended"][row]
        for _ in range(self.axis.reach(int(end.max()))):
            self._maps = [None if m is None else _merged(m) for m in self._maps]
        parts = self.axis.cut(begin, end)
        of = parts.row
        place = (tile[of] * 2 + written[of]) * BINS + parts.bin
        last = np.minimum((first + size - 1) // LINE_BYTES, self._lines - 1)
        self._mark(place, first[of] // LINE_BYTES, last[of] + 1)

    def _mark(self, place: Ints, first: Ints, end: Ints) -> None:
        """Mark lines ``first`` .. ``end`` - 1 in the bit map row with the number ``place``."""
        places, index = np.unique(place, return_inverse=True)
        order = np.argsort(index, kind="stable")
        low, high = int(first.min()) // 8 * 8, int(end.max())  # most programs use a part of it
        edges = np.searchsorted(index[order], np.arange(0, len(places) + _SLAB, _SLAB))
        for slab, (begin, stop) in enumerate(pairwise(edges.tolist())):
            chosen = order[begin:stop]
            rows = min(_SLAB, len(places) - slab * _SLAB)
            steps = np.zeros((rows, high - low + 1), dtype=np.int32)
            at = index[chosen] - slab * _SLAB
            np.add.at(steps, (at, first[chosen] - low), 1)
            np.add.at(steps, (at, end[chosen] - low), -1)
            bits = np.packbits(np.cumsum(steps[:, :-1], axis=1, dtype=np.int32) > 0, axis=1)
            for number, line in zip(places[slab * _SLAB :][:rows].tolist(), bits, strict=True):
                tile, rest = divmod(number, 2 * BINS)
                own = self._map(tile)[rest // BINS, rest % BINS, low // 8 :]
                own[: len(line)] |= line

    def _map(self, tile: int) -> Bits:
        found = self._maps[tile]
        if found is None:
            found = self._maps[tile] = np.zeros((2, BINS, -(-self._lines // 8)), dtype=np.uint8)
        return found

    def in_use(self, tile: int) -> tuple[Ints, Ints] | None:
        """Return bytes in use, and bytes written so far, by bin; None when the tile has touched nothing."""
        found = self._maps[tile]
        if found is None:
            return None
        written = np.bitwise_or.accumulate(found[_WRITTEN], axis=0)
        used = found[_READ] | found[_WRITTEN]
        needed = np.zeros_like(used[0])
        for at in range(BINS - 1, -1, -1):
            used[at] |= needed & written[at]
            needed = found[_READ, at] | (needed & ~found[_WRITTEN, at])
        return _bytes(used), _bytes(written)


def _merged(bits: Bits) -> Bits:
    half = bits[:, 0::2] | bits[:, 1::2]
    return np.concatenate((half, np.zeros_like(half)), axis=1)


def _bytes(bits: Bits) -> Ints:
    lines: Ints = np.bitwise_count(bits).sum(axis=1, dtype=np.int64)
    return lines * LINE_BYTES
