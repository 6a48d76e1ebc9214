"""Bytes of DDR that stay when memories are reset: states, and constants that were replaced.

A copy beside them is what the last complete run left. After a run only granules that it has marked are
compared with it, so that a run which writes a row of a large cache costs no copy of the cache.
"""

from __future__ import annotations

from collections.abc import Iterator

from emulator.memory.areas import GRANULE_SHIFT, Bytes
from emulator.memory.resetting import Area


class KeptBytes:
    """The bytes of DDR from ``offset`` on, and their copy; ``area`` is all of DDR with its marks."""

    def __init__(self, area: Area, offset: int, size: int) -> None:
        self._data = area.data[offset : offset + size]
        self.saved: Bytes = self._data.copy()
        """The bytes as they were after the last complete run."""
        first, end = offset >> GRANULE_SHIFT, (offset + size - 1 >> GRANULE_SHIFT) + 1
        self._marks, self._before = area.marks[first:end], offset - (first << GRANULE_SHIFT)
        whole = offset + -offset % (1 << GRANULE_SHIFT) >> GRANULE_SHIFT, offset + size >> GRANULE_SHIFT
        self._own = area.marks[whole[0] : max(whole)]
        self._touched: list[slice] = []

    def set(self, data: Bytes) -> None:
        """Set the kept bytes and their copy."""
        self.saved[:] = self._data[:] = data

    def keep(self) -> None:
        """Take over the present bytes into the copy, after a complete run and before memories are reset."""
        for part in self._begin_reset():
            self.saved[part] = self._data[part]

    def put_back(self) -> None:
        """Restore the bytes from the copy, after an incomplete run and before memories are reset."""
        for part in self._begin_reset():
            self._data[part] = self.saved[part]

    def after_reset(self) -> None:
        """Put back what the reset has overwritten, in granules that hold other bytes as well."""
        for part in self._touched:
            self._data[part] = self.saved[part]

    def _begin_reset(self) -> list[slice]:
        """The parts that the run may have written; the reset passes over granules that hold nothing else."""
        touched = self._touched = list(self._parts())
        if self._own.size and touched:
            self._own[:] = 0
            self._touched = list(self._parts())
        return touched

    def _parts(self) -> Iterator[slice]:
        """The bytes whose granules are marked, in runs of granules."""
        first = end = -1
        for granule in self._marks.nonzero()[0].tolist():
            if granule != end:
                if end >= 0:
                    yield self._part(first, end)
                first = granule
            end = granule + 1
        if end >= 0:
            yield self._part(first, end)

    def _part(self, first: int, end: int) -> slice:
        """The bytes of some granules, which count from the first that holds any of them."""
        begin = (first << GRANULE_SHIFT) - self._before
        return slice(max(begin, 0), min((end << GRANULE_SHIFT) - self._before, self._data.size))
