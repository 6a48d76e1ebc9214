"""Guard bytes after the buffers in DDR, to detect stores beyond the end of a buffer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np

from emulator.chip.system import System

_GUARD, _MOST = 0xFF, 4096
"""The byte of a guard, which is NaN in every float format, and the most bytes after a buffer."""


class Extent(NamedTuple):
    """A buffer in DDR: its name, offset from the first byte of DDR, and bytes."""

    name: str
    offset: int
    size: int


class StrayStores(msgspec.Struct, frozen=True):
    """Bytes that were stored after the end of a buffer."""

    buffer: str
    bytes: int

    @property
    def text(self) -> str:
        """The finding as a line."""
        return f"{self.bytes:,} bytes after the end of '{self.buffer}' were overwritten"


class Guards:
    """The guard bytes of a run: between each buffer and the next one, or the end of its page."""

    def __init__(self, system: System, extents: Sequence[Extent]) -> None:
        self._bytes: list[tuple[str, np.ndarray[Any, np.dtype[np.uint8]]]] = []
        begins = sorted(extent.offset for extent in extents)
        for name, offset, size in extents:
            end = offset + size
            after = min((begin for begin in begins if begin >= end), default=end + _MOST)
            page = min(after, -(-end // _MOST) * _MOST)
            if page > end:
                guard = system.memories.ddr[end:page]
                guard[:] = _GUARD
                self._bytes.append((name, guard))

    def stray(self) -> tuple[StrayStores, ...]:
        """Return the stores beyond buffers after a run."""
        counts = [(name, int((guard != _GUARD).sum())) for name, guard in self._bytes]
        return tuple(StrayStores(name, count) for name, count in counts if count)
