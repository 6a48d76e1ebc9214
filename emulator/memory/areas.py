"""The emulated memories: DDR mapped sparsely, the scratchpads, and working memory for kernels.

The host supplies their pages as they are touched, those of scratchpads as they are written.
"""

from __future__ import annotations

import ctypes
import gc
import mmap
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from tx8isa.errors import Tx8Error
from tx8isa.machine.description import Machine
from tx8isa.numbers.layouts import LINE_BYTES

from .rows import SECOND

Bytes = npt.NDArray[np.uint8]

_FIXED = 0x10
"""MAP_FIXED of Linux: the mapping replaces what is mapped at its address."""
_DROP_PAGES = 4
"""MADV_DONTNEED of Linux: the pages of an anonymous range are zeros again."""
_HUGE_PAGES = 14
"""MADV_HUGEPAGE of Linux: the host may give a range pages of megabytes."""
_NO_RESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000)  # in the mmap module from Python 3.13 on
LINE_SHIFT = LINE_BYTES.bit_length() - 1
"""Bytes of SPM with a common mark, as a power of two."""
GRANULE_SHIFT = 14
"""Bytes of DDR with a common mark, as a power of two."""
SCRATCH_BYTES = 192 << 20
"""Working memory of a thread, enough for the largest instruction of the matrix engine."""
LARGEST_SPM = SECOND - (64 << 10)
"""Largest SPM: kernels keep a copy of an operand before ``SECOND``, and small pieces after that copy."""
_PIECE = 64 << 20
"""A refused mapping below this size is not halved any further."""
_SMALLEST_DDR = 1 << 16


class HostMemoryError(Tx8Error):
    """The host cannot supply the memory of the machine description."""


def anonymous(size: int) -> Bytes | None:
    """Map ``size`` zero bytes, which get memory when they are touched; None when the host refuses.

    A refused mapping is tried again after a garbage collection, because unused machines may still hold
    address space.
    """
    for last in (False, True):
        try:
            area = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE)
            return np.frombuffer(area, dtype=np.uint8)
        except (OSError, ValueError):
            if not last:
                gc.collect()
    return None


def adjacent(count: int, size: int, byte: int) -> list[Bytes] | None:
    """Map ``count`` areas of ``size`` times a byte, each in pages of its own; None when the host refuses.

    The areas share the pages of one file until they write to them. So the host supplies only pages that a
    program writes. Supplying and filling all 48 MB takes 7 ms, and 200 ms in a virtual machine whose host
    supplies each page on first touch (measured).
    """
    stride = size + -size % mmap.PAGESIZE
    whole = anonymous(count * stride)
    if whole is None:
        return None
    areas = [whole[at * stride : (at + 1) * stride] for at in range(count)]
    if not all(map_privately(_filled_file(stride, byte), 0, area) for area in areas):
        return None
    return [area[:size] for area in areas]


@cache
def _filled_file(size: int, byte: int) -> int:
    """Return the descriptor of a file in the host's memory, which exists as long as the process."""
    file = memory_file("a scratchpad in its reset state")
    os.pwrite(file, bytes([byte]) * size, 0)
    return file


def memory_file(name: str) -> int:
    """Make an empty file in the memory of the host and return its descriptor; HostMemoryError on refusal."""
    try:
        return os.memfd_create(name)
    except OSError as error:
        raise HostMemoryError(f"the host refuses a file in memory: {error.strerror}") from None


def map_privately(file: int, begin: int, area: Bytes) -> bool:
    """Map a file from ``begin`` into an area of whole pages, copy on write; False on refusal."""
    return _mapped(area, mmap.MAP_PRIVATE, file, begin)


def _mapped(area: Bytes, kind: int, file: int = -1, begin: int = 0) -> bool:
    """Replace the pages of an area; False when the host refuses."""
    place, access = area.ctypes.data, mmap.PROT_READ | mmap.PROT_WRITE
    return bool(_map_fixed()(place, area.size, access, kind | _FIXED | _NO_RESERVE, file, begin) == place)


@cache
def _map_fixed() -> ctypes._NamedFuncPointer:
    """Return mmap of the C library; Python's module cannot map at an address."""
    function = ctypes.CDLL(None, use_errno=True).mmap
    size = ctypes.c_size_t
    function.argtypes = (ctypes.c_void_p, size, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long)
    function.restype = ctypes.c_void_p
    return function


def allow_huge_pages(area: Bytes) -> None:
    """Let the host use pages of megabytes for an area; a refusal only costs time."""
    _advise(area, _HUGE_PAGES)


def drop_pages(area: Bytes) -> None:
    """Zero all bytes of an ``anonymous`` area by dropping its pages."""
    if not _advise(area, _DROP_PAGES):
        area[:] = 0


def _advise(area: Bytes, what: int) -> bool:
    """Advise the host about the use of an area; False when it refuses."""
    advise = getattr(ctypes.CDLL(None), "madvise", None)
    size = ctypes.c_size_t(area.size)
    return advise is not None and advise(ctypes.c_void_p(area.ctypes.data), size, what) == 0


def renew_in_huge_pages(pads: Sequence[Scratchpad]) -> None:
    """Give scratchpads that a program uses repeatedly new pages, of megabytes if the host has them.

    All bytes count as written, so that the next reset fills them. A run of ResNet-50 or of SqueezeNet then
    takes 4 % less time (measured), because of fewer misses in the TLB; supplying and filling the pages takes
    about 10 ms, once.
    """
    for pad in pads:
        if _mapped(pad.data, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS):
            allow_huge_pages(pad.data)
            pad.mark(0, pad.data.size)


def map_ddr(machine: Machine, needed: int) -> Bytes:
    """Map DDR, or as much of its beginning as the host's limits allow, at least ``needed`` bytes."""
    size = machine.ddr.bytes
    if needed > size:
        raise HostMemoryError(f"the program needs {needed} bytes of DDR, machine {machine.name} has {size}")
    least = min(max(needed, _SMALLEST_DDR), size)
    while True:
        area = anonymous(size)
        if area is not None:
            return area
        if size == least:
            break
        size = max(size // 2, least) if size > _PIECE else least
    raise HostMemoryError(
        f"the host refuses to map the {least} bytes of DDR that the program needs; raise the memory limit"
    )


def scratch_memory() -> Bytes:
    """Map working memory for the kernels of one thread; HostMemoryError when the host refuses it."""
    area = anonymous(SCRATCH_BYTES)
    if area is None:
        raise HostMemoryError(
            f"the host refuses {SCRATCH_BYTES} bytes of working memory; raise the memory limit"
        )
    allow_huge_pages(area)
    return area


@dataclass(frozen=True)
class Scratchpad:
    """The SPM of one tile; ``lines[i]`` is 1 when line i (256 bytes) was written.

    The marks fill whole words of eight bytes, so the last marks may have no line.
    """

    data: Bytes
    lines: Bytes

    def mark(self, start: int, size: int) -> None:
        """Mark a range as written."""
        if size > 0:
            self.lines[start // LINE_BYTES : (start + size - 1) // LINE_BYTES + 1] = 1

    def written(self) -> list[tuple[int, int]]:
        """Yield written ranges as (first byte, end), whole lines."""
        edges = np.diff(np.concatenate(([0], self.lines, [0])).astype(np.int8))
        starts, ends = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)
        return [(int(a) * LINE_BYTES, int(b) * LINE_BYTES) for a, b in zip(starts, ends, strict=True)]


def make_scratchpads(machine: Machine) -> list[Scratchpad]:
    """Make the SPMs of all tiles in their reset state: every byte holds the machine's reset byte."""
    size = machine.spm.bytes
    if size > LARGEST_SPM:
        raise Tx8Error(
            f"machine {machine.name} has {size} bytes of SPM, the emulator's working memory is made for "
            f"at most {LARGEST_SPM}"
        )
    pads = adjacent(machine.tiles, size, machine.spm.reset_byte)
    if pads is None:
        raise HostMemoryError(
            f"the host refuses {size} bytes for each of {machine.tiles} scratchpads; raise the memory limit"
        )
    lines = -(-size // LINE_BYTES)
    return [Scratchpad(data, np.zeros(lines + 7 & -8, dtype=np.uint8)[:lines]) for data in pads]
