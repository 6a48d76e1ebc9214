"""Keeps ranges of DDR when memories are reset, by copies that compiled code updates.

A step of a decoder writes a row for each head of dozens of caches. So one call checks the marks of all ranges
and copies the granules that the step has written. All functions outside the class are compiled.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from emulator import native
from emulator.native.primitives.memory import get, put, view_u8
from tx8isa.numbers.primitives import u64

from .areas import Bytes
from .resetting import Area

# Words of the table
COUNT = 0  # kept ranges
DIRECTION = 1  # direction, one of those below
HEAD = 2  # beginning of the words of the ranges

KEEP = 0  # copy marked bytes from memory to the copy, and exempt them from the reset
PUT_BACK = 1  # from the copy to memory
AFTER_RESET = 2  # restore from the copy the bytes of shared granules that the reset has overwritten

# Words of a range
DATA = 0  # address of its first byte
COPY = 1  # address of the copy
SIZE = 2  # bytes
MARKS = 3  # address of the mark of the first granule that overlaps the range
GRANULES = 4  # number of granules that overlap the range
BEFORE = 5  # bytes of the first granule before the range
OWN = 6  # number of the first granule completely inside the range
OWN_END = 7  # number of the first granule after these
FIRST = 8  # 1 if the first granule was marked and is shared with other bytes
LAST = 9  # the same for the last granule
ROW = 10


def copy_granule(row: int, granule: int, shift: int, back: int) -> None:
    """Copy the part of a range in a granule; ``back``: from the copy to memory."""
    begin = max((granule << shift) - get(row, BEFORE), 0)
    size = min((granule + 1 << shift) - get(row, BEFORE), get(row, SIZE)) - begin
    source, target = get(row, DATA) + begin, get(row, COPY) + begin
    if back != 0:
        source, target = target, source
    read, written = view_u8(source, size), view_u8(target, size)
    for i in range(u64(size)):
        written[i] = read[i]


def keep_range(row: int, shift: int, back: int) -> None:
    """Copy marked granules, and remove the marks of granules completely inside the range."""
    marks, last = view_u8(get(row, MARKS), get(row, GRANULES)), get(row, GRANULES) - 1
    put(row, FIRST, 0)
    put(row, LAST, 0)
    for granule in range(last + 1):
        if marks[u64(granule)] != 0:
            copy_granule(row, granule, shift, back)
            if get(row, OWN) <= granule < get(row, OWN_END):
                marks[u64(granule)] = 0
            elif granule == 0:
                put(row, FIRST, 1)
            else:
                put(row, LAST, 1)


def keep_all(table: int, shift: int) -> int:
    """Update all ranges or their copies, by the direction."""
    direction = get(table, DIRECTION)
    for number in range(get(table, COUNT)):
        row = table + 8 * (HEAD + ROW * number)
        if direction != AFTER_RESET:
            keep_range(row, shift, direction)
        else:
            if get(row, FIRST) != 0:
                copy_granule(row, 0, shift, 1)
            if get(row, LAST) != 0:
                copy_granule(row, get(row, GRANULES) - 1, shift, 1)
    return 0


def keep_kernel() -> int:
    """Return the address of the compiled ``keep_all``."""
    return native.compile_once(keep_all, "bytes that stay", 2)


class Keeping:
    """The words of the kept ranges of one memory, each with its copy."""

    def __init__(self, area: Area, ranges: Sequence[tuple[int, Bytes]]) -> None:
        """``ranges``: the first byte of each, and its copy."""
        rows = [_row(area, offset, copy) for offset, copy in ranges]
        self._words = np.array([len(rows), KEEP, *np.ravel(rows)], dtype=np.int64)
        self._kernel, self._shift = keep_kernel(), area.shift
        self._held = area, ranges

    def follow(self, direction: int) -> None:
        """Copy: ``KEEP`` or ``PUT_BACK`` before memories are reset, then ``AFTER_RESET``."""
        self._words[DIRECTION] = direction
        native.call(self._kernel, int(self._words.ctypes.data), self._shift)


def _row(area: Area, offset: int, copy: Bytes) -> list[int]:
    shift, end = area.shift, offset + copy.size
    first, after = offset >> shift, (end - 1 >> shift) + 1
    own = -(-offset >> shift) - first, max((end >> shift) - first, 0)
    addresses = area.data.ctypes.data + offset, copy.ctypes.data
    marks = area.marks.ctypes.data + first
    return [*addresses, copy.size, marks, after - first, offset - (first << shift), *own, 0, 0]
