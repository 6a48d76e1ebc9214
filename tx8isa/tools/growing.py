"""Bytes that grow in place: large files are put together in them without copies."""

from __future__ import annotations

import mmap

import numpy as np
import numpy.typing as npt

_FIRST = 1 << 16


class GrowingBytes:
    """Bytes to whose end others are appended.

    They are pages of their own, which the system moves when there are more of them. So what grows to a
    gigabyte is written once, and room that is not used takes no memory.
    """

    def __init__(self) -> None:
        self._pages = mmap.mmap(-1, _FIRST, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def extend(self, size: int) -> npt.NDArray[np.uint8]:
        """``size`` more bytes, which are zeros, to be written now.

        BufferError if a view of earlier ones is still in use: they may move.
        """
        first, end = self._size, self._size + size
        if end > len(self._pages):
            self._pages.resize(max(end, 2 * len(self._pages)))
        self._size = end
        return self.view(first, size)

    def view(self, begin: int, size: int) -> npt.NDArray[np.uint8]:
        """``size`` bytes from ``begin`` on."""
        return np.frombuffer(self._pages, np.uint8, size, begin)

    def read_only(self) -> memoryview:
        """All bytes so far; as long as they are in use, there cannot be more."""
        return memoryview(self._pages).toreadonly()[: self._size]
