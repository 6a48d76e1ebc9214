"""Resets memories by compiled code; several host threads share the work, area by area.

A run of a network leaves tens of megabytes to reset. One thread would take a tenth of the run's time for
them. All functions outside the classes are plain ones that are compiled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from emulator import native
from emulator.native.primitives.memory import get, put, view_u8
from emulator.native.primitives.threads import atomic_add
from tx8isa.numbers.primitives import u64

from .areas import Bytes

# Words that the threads share
NEXT = 0  # number of the next area to reset
COUNT = 1  # areas
HEAD = 2  # beginning of the words of the areas

# Words of an area
DATA = 0  # address of its bytes
SIZE = 1  # bytes
MARKS = 2  # address of its marks
SHIFT = 3  # bytes with a common mark, as a power of two
BYTE = 4  # value of every byte after the reset
ROW = 5

TOGETHER = 8
"""Marks in a word, which are tested together."""
PASSED_OVER = 64
"""Words of marks that are skipped together if nothing is marked, as in most of a large DDR."""
ALL_MARKED = 0x0101010101010101


def fill(target: int, size: int, byte: int) -> None:
    """Set ``size`` bytes."""
    view = view_u8(target, size)
    for i in range(u64(size)):
        view[i] = byte


def reset_marked(data: int, size: int, marks: int, first: int, shift: int, byte: int) -> None:
    """Reset the bytes whose marks are set among the word of marks from number ``first``."""
    for number in range(first, first + TOGETHER):
        if view_u8(marks + number, 1)[u64(0)] != 0:
            fill(data + (number << shift), min(1 << shift, size - (number << shift)), byte)


def reset_area(data: int, size: int, marks: int, shift: int, byte: int) -> None:
    """Reset all marked bytes of an area, and remove the marks."""
    step = TOGETHER << shift
    words = (size + step - 1) // step
    for first in range(0, words, PASSED_OVER):
        end = min(first + PASSED_OVER, words)
        if any_marked(marks, first, end) != 0:
            for word in range(first, end):
                reset_word(data, size, marks, word, shift, byte)


def any_marked(marks: int, first: int, end: int) -> int:
    """Combine words of marks: not 0 if any mark is set."""
    found = 0
    for word in range(first, end):
        found = found | get(marks, word)
    return found


def reset_word(data: int, size: int, marks: int, word: int, shift: int, byte: int) -> None:
    """Reset the bytes of a word of marks, and remove the marks."""
    step = TOGETHER << shift
    found, first = get(marks, word), TOGETHER * word
    if found == ALL_MARKED and step <= size - word * step:
        fill(data + word * step, step, byte)
    elif found != 0:
        reset_marked(data, size, marks, first, shift, byte)
    if found != 0:
        put(marks, word, 0)


def reset_share(c: int) -> int:
    """Do one thread's part; ``c`` is the address of the words."""
    number = atomic_add(c + 8 * NEXT, 1)
    while number < get(c, COUNT):
        row = c + 8 * (HEAD + ROW * number)
        reset_area(get(row, DATA), get(row, SIZE), get(row, MARKS), get(row, SHIFT), get(row, BYTE))
        number = atomic_add(c + 8 * NEXT, 1)
    return 0


def reset_kernel() -> int:
    """Return the address of the compiled ``reset_share``."""
    return native.compile_once(reset_share, "reset of memories", 1)


@dataclass(frozen=True)
class Area:
    """Bytes and their marks, one for every ``1 << shift`` bytes; a mark is not 0 if any of them was written.

    The marks begin at a multiple of eight and fill whole words of eight; marks beyond the last byte are 0.
    """

    data: Bytes
    marks: Bytes
    shift: int
    byte: int
    """Value of every byte in the reset state."""

    def mark(self, start: int, size: int) -> None:
        """Mark a range as written."""
        if size > 0:
            self.marks[start >> self.shift : (start + size - 1 >> self.shift) + 1] = 1


class Resetting:
    """The words that threads share when they reset the same areas, in their order."""

    def __init__(self, areas: Sequence[Area], kernel: int) -> None:
        """``kernel``: ``reset_kernel``."""
        rows = [(a.data.ctypes.data, a.data.size, a.marks.ctypes.data, a.shift, a.byte) for a in areas]
        self.words = np.array([0, len(areas), *np.ravel(rows)], dtype=np.int64)
        self._kernel, self._address = kernel, int(self.words.ctypes.data)

    def begin(self) -> None:
        """Start a reset; must be called before the threads call ``share``."""
        self.words[NEXT] = 0

    def share(self) -> None:
        """Do one thread's part; the reset is complete when all threads have returned."""
        native.call(self._kernel, self._address)
