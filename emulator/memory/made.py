"""Marks the lines of SPM and DDR that engines and copies would have written, in runs without data."""

from __future__ import annotations

import numpy as np

from .areas import LINE_SHIFT, Bytes, HostMemoryError, Scratchpad, anonymous, drop_pages


class MadeBytes:
    """A byte for each line of the memories of a chip, not 0 if an engine or a copy would have written it."""

    def __init__(self, ddr: Bytes, spm: list[Scratchpad]) -> None:
        self._memories = [ddr, *(pad.data for pad in spm)]
        sizes = [(memory.size >> LINE_SHIFT) + 1 for memory in self._memories]
        whole = anonymous(sum(sizes))
        if whole is None:
            raise HostMemoryError(f"the host refuses {sum(sizes)} bytes of marks; raise the memory limit")
        self._whole = whole
        self._marks: list[Bytes] = np.split(whole, np.cumsum(sizes)[:-1])

    def addresses(self, tile: int) -> tuple[int, int]:
        """Return the host addresses of the marks of DDR and of a tile's SPM."""
        return int(self._marks[0].ctypes.data), int(self._marks[1 + tile].ctypes.data)

    def mark(self, tile: int | None, start: int, size: int) -> None:
        """Mark a range of a tile's SPM, or of DDR, that would have been written."""
        if size > 0:
            marks = self._marks[0 if tile is None else 1 + tile]
            marks[start >> LINE_SHIFT : (start + size - 1 >> LINE_SHIFT) + 1] = 1

    def holds(self, data: Bytes) -> bool:
        """Return True if bytes of one of the memories lack data, because nothing was written."""
        for memory, marks in zip(self._memories, self._marks, strict=True):
            start = int(data.ctypes.data) - int(memory.ctypes.data)
            if data.size and 0 <= start < memory.size:
                return bool(marks[start >> LINE_SHIFT : (start + data.size - 1 >> LINE_SHIFT) + 1].any())
        return False

    def clear(self) -> None:
        """Remove all marks for the next run."""
        drop_pages(self._whole)
