"""Bytes that grow in place, to assemble large files without copies."""

from __future__ import annotations

import mmap

import numpy as np
import numpy.typing as npt

_FIRST = 1 << 16


class GrowingBytes:
    """A buffer that grows at its end.

    It has pages of its own, which the system remaps as they grow. So a gigabyte is written only once, and
    unused capacity takes no memory.
    """

    def __init__(self) -> None:
        self._pages = mmap.mmap(-1, _FIRST, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def extend(self, size: int) -> npt.NDArray[np.uint8]:
        """Append ``size`` zero bytes and return a view for writing them.

        BufferError if an earlier view is still in use, because the buffer may move.
        """
        first, end = self._size, self._size + size
        if end > len(self._pages):
            self._pages.resize(max(end, 2 * len(self._pages)))
        self._size = end
        return self.view(first, size)

    def view(self, begin: int, size: int) -> npt.NDArray[np.uint8]:
        """``size`` bytes from ``begin``."""
        return np.frombuffer(self._pages, np.uint8, size, begin)

    def read_only(self) -> memoryview:
        """Return all bytes so far; while this view is in use, the buffer cannot grow."""
        return memoryview(self._pages).toreadonly()[: self._size]
