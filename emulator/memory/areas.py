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
"""Bytes of SPM that have a mark in common, as a power of two."""
GRANULE_SHIFT = 14
"""Bytes of DDR that have a mark in common, as a power of two."""
SCRATCH_BYTES = 192 << 20
"""Working memory of a thread: what the largest instruction of the matrix engine needs."""
LARGEST_SPM = SECOND - (64 << 10)
"""The kernels keep a copy of an operand before ``SECOND``, and small pieces after that copy."""
_PIECE = 64 << 20
"""A refused mapping below this size is not halved any further."""
_SMALLEST_DDR = 1 << 16


class HostMemoryError(Tx8Error):
    """The host cannot give the memory that the machine description asks for."""


def anonymous(size: int) -> Bytes | None:
    """``size`` zero bytes that are backed by memory as they are touched; None when the host refuses.

    A refusal is tried once more after a garbage collection: machines that are no longer in use may still
    hold the address space.
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
    """``count`` areas of ``size`` times a byte, each at the beginning of a page; None when the host refuses.

    The areas have the pages of one file until they write to them, so the host supplies only those that a
    program writes. To supply and fill all of 48 MB takes 7 ms, and 200 ms in a virtual machine whose own host
    gives it each page when it is touched first (measured).
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
    """The descriptor of a file in the host's memory, which stays as long as the process."""
    file = memory_file("a scratchpad in its reset state")
    os.pwrite(file, bytes([byte]) * size, 0)
    return file


def memory_file(name: str) -> int:
    """The descriptor of an empty file in the memory of the host; HostMemoryError when it refuses."""
    try:
        return os.memfd_create(name)
    except OSError as error:
        raise HostMemoryError(f"the host refuses a file in memory: {error.strerror}") from None


def map_privately(file: int, begin: int, area: Bytes) -> bool:
    """Give an area, whole pages of a mapping, the content of a file from ``begin`` on; whether the host does.

    A page of the file becomes one of the area when something is written to it.
    """
    return _mapped(area, mmap.MAP_PRIVATE, file, begin)


def _mapped(area: Bytes, kind: int, file: int = -1, begin: int = 0) -> bool:
    """Replace the pages of an area; whether the host does."""
    place, access = area.ctypes.data, mmap.PROT_READ | mmap.PROT_WRITE
    return bool(_map_fixed()(place, area.size, access, kind | _FIXED | _NO_RESERVE, file, begin) == place)


@cache
def _map_fixed() -> ctypes._NamedFuncPointer:
    """The function mmap of the C library, which Python's module does not offer with an address."""
    function = ctypes.CDLL(None, use_errno=True).mmap
    size = ctypes.c_size_t
    function.argtypes = (ctypes.c_void_p, size, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long)
    function.restype = ctypes.c_void_p
    return function


def allow_huge_pages(area: Bytes) -> None:
    """Let the host give an area pages of megabytes; without them nothing but time is lost."""
    _advise(area, _HUGE_PAGES)


def drop_pages(area: Bytes) -> None:
    """Let all bytes of an ``anonymous`` area be zero again."""
    if not _advise(area, _DROP_PAGES):
        area[:] = 0


def _advise(area: Bytes, what: int) -> bool:
    """Tell the host how an area is used; whether it accepts that."""
    advise = getattr(ctypes.CDLL(None), "madvise", None)
    size = ctypes.c_size_t(area.size)
    return advise is not None and advise(ctypes.c_void_p(area.ctypes.data), size, what) == 0


def renew_in_huge_pages(pads: Sequence[Scratchpad]) -> None:
    """Give scratchpads that a program uses again and again new pages, of megabytes where the host has them.

    All of it counts as written, so that the next reset fills it. A run of ResNet-50 or of SqueezeNet takes
    4 % less time then (measured), because fewer addresses have to be translated anew; the pages are supplied
    and filled once, in about 10 ms.
    """
    for pad in pads:
        if _mapped(pad.data, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS):
            allow_huge_pages(pad.data)
            pad.mark(0, pad.data.size)


def map_ddr(machine: Machine, needed: int) -> Bytes:
    """DDR, or as much of its beginning as the host's limits allow, at least ``needed`` bytes."""
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
    """Working memory for the kernels of one thread; HostMemoryError when the host refuses it."""
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

    The marks fill whole words of eight bytes; the last marks may belong to no line."""

    data: Bytes
    lines: Bytes

    def mark(self, start: int, size: int) -> None:
        """Note that a range was written."""
        if size > 0:
            self.lines[start // LINE_BYTES : (start + size - 1) // LINE_BYTES + 1] = 1

    def written(self) -> list[tuple[int, int]]:
        """Written ranges as (first byte, end), whole lines."""
        edges = np.diff(np.concatenate(([0], self.lines, [0])).astype(np.int8))
        starts, ends = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)
        return [(int(a) * LINE_BYTES, int(b) * LINE_BYTES) for a, b in zip(starts, ends, strict=True)]


def make_scratchpads(machine: Machine) -> list[Scratchpad]:
    """The SPMs of all tiles in their reset state: every byte holds the machine's reset byte."""
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
