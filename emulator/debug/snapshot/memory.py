"""The pieces of a chip's memories that differ from the state after loading."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from emulator.chip.system import System
from emulator.memory.areas import Bytes, HostMemoryError, Scratchpad
from tx8isa.numbers.layouts import LINE_BYTES

from .types import Blocks, SnapshotError

PAGE = 4096
"""Bytes of a piece of DDR."""
_CHUNK = 1 << 24
"""Bytes of DDR that are compared at a time."""
_PAGEMAP = Path("/proc/self/pagemap")
_ENTRY = 8
"""Bytes of an entry of the page map, and of a number of a piece."""
_ENTRIES = 1 << 17
"""Entries that are read at a time."""
_PRESENT_OR_SWAPPED = 62
"""The lower of two bits of an entry of the page map (Linux, Documentation/admin-guide/mm/pagemap.rst)."""

Numbers = npt.NDArray[np.int64]


def save_spm(spm: Scratchpad, reset: int) -> Blocks:
    """Return the lines that do not hold the reset byte throughout."""
    lines = spm.data.reshape(-1, LINE_BYTES)
    words = lines.view(np.uint64)
    changed = np.flatnonzero((words != np.uint64(reset * 0x0101010101010101)).any(axis=1))
    return Blocks(changed.astype(np.int64).tobytes(), lines[changed].tobytes())


def restore_spm(spm: Scratchpad, reset: int, blocks: Blocks) -> None:
    """Restore an SPM; SnapshotError for lines it does not have."""
    lines = spm.data.reshape(-1, LINE_BYTES)
    numbers, data = _checked(blocks, len(lines), LINE_BYTES, "SPM")
    spm.data[:] = reset
    lines[numbers] = data


def save_ddr(system: System) -> Blocks:
    """Return the pages that differ from the program's file, or from zeros where it loads nothing."""
    numbers, data = [np.empty(0, np.int64)], []
    for first, found, loaded in _resident(system):
        changed = np.flatnonzero((found != loaded).any(axis=1))
        numbers.append(first + changed)
        data.append(found[changed].tobytes().ljust(changed.size * PAGE, b"\0"))
    return Blocks(np.concatenate(numbers).tobytes(), b"".join(data))


def restore_ddr(system: System, blocks: Blocks) -> None:
    """Restore DDR; SnapshotError for pages that are not mapped."""
    size = system.ddr.size
    numbers, data = _checked(blocks, -(-size // PAGE), PAGE, "DDR")
    for _, found, loaded in _resident(system):
        changed = (found != loaded).any(axis=1)
        found[changed] = loaded[changed]
    for number, page in zip(numbers.tolist(), data, strict=True):
        at = system.ddr[number * PAGE : (number + 1) * PAGE]
        at[:] = page[: at.size]


def _checked(blocks: Blocks, count: int, size: int, what: str) -> tuple[Numbers, npt.NDArray[np.uint8]]:
    """Return numbers and bytes of the pieces of a memory with ``count`` of them."""
    if len(blocks.numbers) % _ENTRY or len(blocks.numbers) // _ENTRY * size != len(blocks.data):
        raise SnapshotError(f"the pieces of {what} are not whole")
    numbers = np.frombuffer(blocks.numbers, np.int64)
    if numbers.size and not 0 <= numbers.min() <= numbers.max() < count:
        raise SnapshotError(
            f"the saved state holds {what} up to byte {int(numbers.max() + 1) * size}, this run has "
            f"{count * size}: the host gives less memory than it did"
        )
    return numbers, np.frombuffer(blocks.data, np.uint8).reshape(-1, size)


def _resident(system: System) -> Iterator[tuple[int, Bytes, Bytes]]:
    """Yield (number of the first page, present pages, pages as loaded) of DDR that was ever touched.

    Both are [page, byte]. A last page that is mapped only in part is returned separately, and is shorter.
    """
    ddr = system.ddr
    whole = ddr.size // PAGE * PAGE
    for first, end in _touched(ddr):
        for start in range(first, min(end, whole), _CHUNK):
            size = min(end, whole, start + _CHUNK) - start
            found = ddr[start : start + size]
            yield start // PAGE, found.reshape(-1, PAGE), _loaded(system, start, size).reshape(-1, PAGE)
        if end > whole:
            rest = ddr.size - whole
            yield whole // PAGE, ddr[whole:].reshape(1, rest), _loaded(system, whole, rest).reshape(1, rest)


def _loaded(system: System, start: int, size: int) -> Bytes:
    """Return the contents of a range of DDR after loading."""
    found = np.zeros(size, np.uint8)
    for segment in system.image.segments:
        at = system.memories.offset(segment.address)
        first, end = max(at, start), min(at + len(segment.data), start + size)
        if first < end:
            data = np.frombuffer(segment.data, np.uint8)
            found[first - start : end - start] = data[first - at : end - at]
    return found


def _touched(memory: Bytes) -> list[tuple[int, int]]:
    """Return [first, end) of the ranges that were ever touched, for which the host has pages."""
    host = mmap.PAGESIZE
    found, at, pages = [], 0, -(-memory.size // host)
    try:
        with _PAGEMAP.open("rb", buffering=0) as file:
            file.seek(memory.ctypes.data // host * _ENTRY)
            while at < pages:
                entries = np.frombuffer(file.read(min(pages - at, _ENTRIES) * _ENTRY), np.uint64)
                if not entries.size:
                    raise OSError("it ends too early")
                if entries.any():
                    found.append(at + np.flatnonzero(entries >> np.uint64(_PRESENT_OR_SWAPPED)))
                at += entries.size
    except OSError as error:
        text = f"{_PAGEMAP}, which says what DDR was touched, cannot be read: {error.strerror or error}"
        raise HostMemoryError(f"no snapshots on this host: {text}") from None
    numbers = np.concatenate(found) if found else np.empty(0, np.int64)
    runs = np.split(numbers, np.flatnonzero(np.diff(numbers) != 1) + 1)
    return [(int(run[0]) * host, min((int(run[-1]) + 1) * host, memory.size)) for run in runs if run.size]
