"""Files of large programs in the memory of the host, where memories of chips map what they need of them."""

from __future__ import annotations

import mmap
import os
from pathlib import Path
from weakref import finalize

import numpy as np

from tx8isa.tools.overwrite import note_read

from .areas import HostMemoryError

LEAST = 1 << 20
"""Bytes from which on a file, or a segment of one, is mapped and not copied."""


class ImageFile(mmap.mmap):
    """The bytes of a file, copied into a file without a name in the memory of the host, of ``descriptor``.

    They do not change with the file itself.
    """

    descriptor: int

    @classmethod
    def copied(cls, path: Path) -> ImageFile:
        """Copy a file. OSError when it cannot be read, HostMemoryError when the host refuses the memory."""
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            try:
                descriptor = os.memfd_create("a program")
                os.truncate(descriptor, size)
                made = cls(descriptor, size)
            except OSError as error:
                raise HostMemoryError(f"the host refuses {size} bytes: {error.strerror}") from None
            made.descriptor = descriptor
            finalize(made, os.close, descriptor)
            with memoryview(made) as view:
                while size and (count := file.readinto(view[len(view) - size :])):
                    size -= count
        return made

    def forget(self) -> None:
        """Take the pages out of the memory of this process; they come back where they are read."""
        self.madvise(mmap.MADV_DONTNEED)

    def offset_of(self, data: memoryview) -> int:
        """Where bytes of the file are in it."""
        first, place = (np.frombuffer(view, np.uint8).ctypes.data for view in (memoryview(self), data))
        return int(place - first)


def bytes_of(path: Path) -> bytes | memoryview:
    """The bytes of a file; those of a large one are a view of an ``ImageFile``, with its errors."""
    note_read(path, "the program")
    if path.stat().st_size < LEAST:
        return path.read_bytes()
    return memoryview(ImageFile.copied(path))
