"""Files of large programs in the memory of the host, from which memories of chips map their parts."""

from __future__ import annotations

import mmap
import os
from pathlib import Path
from weakref import finalize

import numpy as np

from tx8isa.tools.overwrite import note_read

from .areas import HostMemoryError

LEAST = 1 << 20
"""A file or segment of at least this many bytes is mapped and not copied."""


class ImageFile(mmap.mmap):
    """A copy of a file in an unnamed file in the memory of the host, with ``descriptor``.

    Later changes of the original do not affect it.
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
        """Drop the pages from the memory of this process; reading brings them back."""
        self.madvise(mmap.MADV_DONTNEED)

    def offset_of(self, data: memoryview) -> int:
        """Return the offset of a part of the file's bytes."""
        first, place = (np.frombuffer(view, np.uint8).ctypes.data for view in (memoryview(self), data))
        return int(place - first)


def bytes_of(path: Path) -> bytes | memoryview:
    """Read the bytes of a file; for a large one, a view of an ``ImageFile``, with its errors."""
    note_read(path, "the program")
    if path.stat().st_size < LEAST:
        return path.read_bytes()
    return memoryview(ImageFile.copied(path))
