"""The emulated memories: DDR mapped sparsely, the scratchpads, and working memory for kernels.

All of it is anonymous memory of the host that costs nothing until it is touched.
"""

from __future__ import annotations

import gc
import mmap
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from weakref import finalize

import numpy as np
import numpy.typing as npt

from tx8isa.errors import Tx8Error
from tx8isa.machine.description import Machine
from tx8isa.numbers.layouts import LINE_BYTES

from .rows import SECOND

Bytes = npt.NDArray[np.uint8]

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


def anonymous(size: int, large_pages: bool = False) -> Bytes | None:
    """``size`` zero bytes that are backed by memory as they are touched; None when the host refuses.

    ``large_pages`` is for memory that is written as a whole: the host then has hundreds of times fewer pages
    to supply.
    """
    area = _mapping(size, large_pages)
    return None if area is None else np.frombuffer(area, dtype=np.uint8)


def _mapping(size: int, large_pages: bool) -> mmap.mmap | None:
    """``anonymous`` before it is an array.

    A refusal is tried once more after a garbage collection: machines that are no longer in use may still
    hold the address space.
    """
    for last in (False, True):
        try:
            area = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE)
        except (OSError, ValueError):
            if not last:
                gc.collect()
            continue
        if large_pages:
            with suppress(OSError):  # a host without them
                area.madvise(mmap.MADV_HUGEPAGE)
        return area
    return None


_unused: deque[mmap.mmap] = deque(maxlen=1)
"""The mapping of scratchpads that are no longer in use, for the next ones of the same size: the host takes
three times as long to supply pages as it takes to fill them, and thirty times where it has no large ones."""


def adjacent(count: int, size: int) -> list[Bytes] | None:
    """``count`` areas of ``size`` bytes, each at the beginning of a page; None when the host refuses.

    They may hold anything.
    """
    stride = size + -size % mmap.PAGESIZE
    area = _used_before(count * stride) or _mapping(count * stride, large_pages=True)
    if area is None:
        return None
    whole = np.frombuffer(area, dtype=np.uint8)  # lives as long as any view of it does
    finalize(whole, _unused.append, area)
    return [whole[i * stride : i * stride + size] for i in range(count)]


def _used_before(size: int) -> mmap.mmap | None:
    """A mapping of exactly this size that is no longer in use."""
    with suppress(IndexError):
        area = _unused.pop()
        return area if len(area) == size else None
    return None


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
    pads = adjacent(machine.tiles, size)
    if pads is None:
        raise HostMemoryError(
            f"the host refuses {size} bytes for each of {machine.tiles} scratchpads; raise the memory limit"
        )
    for data in pads:
        data[:] = machine.spm.reset_byte
    lines = -(-size // LINE_BYTES)
    return [Scratchpad(data, np.zeros(lines + 7 & -8, dtype=np.uint8)[:lines]) for data in pads]
