"""Bytes of DDR that persist when memories are reset: states, and constants that were replaced.

A copy holds them as of the last complete run. After a run only granules that it has marked are copied there.
So a run that writes a row of a large cache does not copy the whole cache.
"""

from __future__ import annotations

from emulator.memory.areas import Bytes
from emulator.memory.resetting import Area


class KeptBytes:
    """The ``size`` bytes of DDR from ``offset``, and their copy; ``area`` is all of DDR."""

    def __init__(self, area: Area, offset: int, size: int) -> None:
        self.offset = offset
        self._data = area.data[offset : offset + size]
        self.saved: Bytes = self._data.copy()
        """The bytes as they were after the last complete run."""

    def set(self, data: Bytes) -> None:
        """Set the kept bytes and their copy."""
        self.saved[:] = self._data[:] = data
