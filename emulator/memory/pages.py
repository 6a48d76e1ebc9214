"""Pages that the memories of several chips share, copied on write.

The large segments of a program are in an unnamed file in the memory of the host: the copy of the program's
file if it was read from one (``image_file``). They are mapped privately into each DDR, so that a written page
becomes the writing memory's own.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Mapping
from typing import NamedTuple
from weakref import finalize

from .areas import Bytes, HostMemoryError, map_privately, memory_file
from .image_file import LEAST, ImageFile

_CHUNK = 1 << 26
"""Bytes that are written to the file at a time."""


class SharedSegments:
    """Large segments of a program, by name, with offset in DDR and content.

    HostMemoryError when the host refuses the memory.
    """

    def __init__(self, segments: Mapping[str, tuple[int, bytes | memoryview]]) -> None:
        large = {name: pair for name, pair in segments.items() if len(pair[1]) >= LEAST}
        self._places: dict[str, _Place] = {}
        copied: dict[str, tuple[int, bytes | memoryview]] = {}
        for name, (offset, data) in large.items():
            begin = _place_in_file(data)
            if begin is None or (begin - offset) % mmap.PAGESIZE:
                copied[name] = offset, data
            else:
                assert isinstance(data, memoryview) and isinstance(data.obj, ImageFile)
                self._places[name] = _Place(data.obj.descriptor, begin, offset, data)
        if copied:
            self._copy(copied)

    def _copy(self, segments: Mapping[str, tuple[int, bytes | memoryview]]) -> None:
        """Copy segments into a file of the host's memory, unless they are in one already."""
        self._file = memory_file("segments of a program")
        finalize(self, os.close, self._file)
        end = 0
        for name, (offset, data) in segments.items():
            begin = end + offset % mmap.PAGESIZE
            self._places[name] = _Place(self._file, begin, offset, data)
            self._write(data, begin)
            end = begin + len(data) + -(begin + len(data)) % mmap.PAGESIZE

    def _write(self, data: bytes | memoryview, at: int) -> None:
        """Write bytes to the file; HostMemoryError when there is no memory for them."""
        rest = memoryview(data)
        try:
            while rest:
                written = os.pwrite(self._file, rest[:_CHUNK], at)
                rest, at = rest[written:], at + written
        except OSError as error:
            text = f"the host refuses {len(data)} bytes for a segment of the program: {error.strerror}"
            raise HostMemoryError(text) from None

    def map(self, name: str, ddr: Bytes) -> bool:
        """Map a segment into DDR; False if it is not in DDR. HostMemoryError when the host refuses."""
        if name not in self._places:
            return False
        file, begin, offset, data = self._places[name]
        before = -offset % mmap.PAGESIZE
        whole = (len(data) - before) // mmap.PAGESIZE * mmap.PAGESIZE
        place = offset + before
        if not map_privately(file, begin + before, ddr[place : place + whole]):
            raise HostMemoryError(f"the host refuses to map {whole} bytes of a segment of the program")
        for first, end in ((0, before), (before + whole, len(data))):
            ddr[offset + first : offset + end] = memoryview(data)[first:end]
        return True


class _Place(NamedTuple):
    """A segment: the descriptor of a file, its position there, its offset in DDR, and its bytes."""

    file: int
    begin: int
    offset: int
    data: bytes | memoryview


def _place_in_file(data: bytes | memoryview) -> int | None:
    """Return the position of bytes in their ``ImageFile``; None for other bytes."""
    file = data.obj if isinstance(data, memoryview) else None
    return file.offset_of(data) if isinstance(file, ImageFile) and isinstance(data, memoryview) else None
