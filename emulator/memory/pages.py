"""Pages that the memories of several chips have in common until one of them writes to a page.

The large segments of a program are kept in a file without a name in the memory of the host, and mapped into
each DDR privately: a page that is written becomes a page of the memory that wrote it.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Mapping
from weakref import finalize

from .areas import Bytes, HostMemoryError

LEAST = 1 << 20
"""Bytes of a segment from which on sharing it is worth a mapping of its own."""
_FIXED = 0x10
"""MAP_FIXED of Linux: the mapping replaces what is mapped at its address."""
_CHUNK = 1 << 26
"""Bytes that are written to the file at a time."""


class SharedSegments:
    """Large segments of a program, by name: offset in DDR, and content.

    HostMemoryError when the host refuses the memory.
    """

    def __init__(self, segments: Mapping[str, tuple[int, bytes | memoryview]]) -> None:
        large = {name: pair for name, pair in segments.items() if len(pair[1]) >= LEAST}
        try:
            self._file = os.memfd_create("segments of a program")
        except OSError as error:
            raise HostMemoryError(f"the host refuses a file in memory: {error.strerror}") from None
        finalize(self, os.close, self._file)
        self._places: dict[str, tuple[int, int, bytes | memoryview]] = {}
        end = 0
        for name, (offset, data) in large.items():
            begin = end + offset % mmap.PAGESIZE
            self._places[name] = (begin, offset, data)
            self._write(data, begin)
            end = begin + len(data) + -(begin + len(data)) % mmap.PAGESIZE

    def _write(self, data: bytes | memoryview, at: int) -> None:
        """Write bytes to a place of the file; HostMemoryError when there is no memory for them."""
        rest = memoryview(data)
        try:
            while rest:
                written = os.pwrite(self._file, rest[:_CHUNK], at)
                rest, at = rest[written:], at + written
        except OSError as error:
            text = f"the host refuses {len(data)} bytes for a segment of the program: {error.strerror}"
            raise HostMemoryError(text) from None

    def map(self, name: str, ddr: Bytes) -> bool:
        """Map a segment into DDR; False for one that is not here. HostMemoryError when the host refuses."""
        if name not in self._places:
            return False
        begin, offset, data = self._places[name]
        before = -offset % mmap.PAGESIZE
        whole = (len(data) - before) // mmap.PAGESIZE * mmap.PAGESIZE
        found = _map_fixed()(
            ddr.ctypes.data + offset + before,
            whole,
            mmap.PROT_READ | mmap.PROT_WRITE,
            mmap.MAP_PRIVATE | _FIXED,
            self._file,
            begin + before,
        )
        if found != ddr.ctypes.data + offset + before:
            raise HostMemoryError(f"the host refuses to map {whole} bytes of a segment of the program")
        for first, end in ((0, before), (before + whole, len(data))):
            ddr[offset + first : offset + end] = memoryview(data)[first:end]
        return True


def _map_fixed() -> ctypes._NamedFuncPointer:
    """The function mmap of the C library, which Python's module does not offer with an address."""
    function = ctypes.CDLL(None, use_errno=True).mmap
    size = ctypes.c_size_t
    function.argtypes = (ctypes.c_void_p, size, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long)
    function.restype = ctypes.c_void_p
    return function
