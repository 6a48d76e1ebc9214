"""Field elements beside the bytes of a memory.

An element stands at the first byte of its number, and marks at the others. Where none stands, the bytes are a
number of their own, a *literal*: constants of the program, masks, zeros, what the kernel core has stored. It
becomes an element when an instruction computes with it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from emulator.memory.areas import LINE_SHIFT, Bytes, HostMemoryError, anonymous
from tx8isa.numbers.formats import Format
from tx8isa.numbers.prime_field import Elements, PrimeField

Places = npt.NDArray[np.int64]
"""Offsets of the first bytes of numbers."""
_SHIFT = float(1 << 22)
"""Added to residues, so that no element is stored as 0."""
_MARKS = {2: ((-1.0, 0.0),), 4: ((1.0, 2.0**23), (-1.0, 2.0**23), (-1.0, 0.0))}
"""By the size of a number, for each of its later bytes: a sign, and what is added; all exact in binary32."""
_LARGE = 64
"""Bytes of blocks that are cleared one by one."""


class FieldMemory:
    """The elements beside one memory, whose bytes are ``data``; HostMemoryError when there is no room."""

    def __init__(self, data: Bytes, field: PrimeField) -> None:
        self.data, self.field = data, field
        size = 4 * field.residues * data.size
        area = anonymous(size)
        if area is None:
            raise HostMemoryError(
                f"the host refuses {size} bytes of address space for a proof; raise the memory limit, or "
                "describe a machine with less DDR"
            )
        self._elements = area.view(np.float32).reshape(field.residues, data.size)
        self._lines = np.zeros((data.size >> LINE_SHIFT) + 2, np.bool_)
        """Whether lines have had elements."""

    def has_elements(self, places: Places) -> bool:
        """Whether any of some numbers is an element."""
        return self._any(places) and bool(self._elements[0, places].any())

    def _any(self, places: Places) -> bool:
        """Whether there may be elements at places."""
        return bool(places.size) and self._touched(int(places.min()), int(places.max()) + 1)

    def _touched(self, first: int, end: int) -> bool:
        return bool(self._lines[first >> LINE_SHIFT : (end - 1 >> LINE_SHIFT) + 1].any())

    def read(self, places: Places, fmt: Format) -> Elements:
        """The elements at places, literals made elements. Pieces of several are none of them, but a hash."""
        if not self._any(places):
            return self.field.of_patterns(self.patterns(places, fmt), fmt)
        found = self._elements[:, places].astype(np.float64)
        literal, torn = found[0] == 0.0, self._torn(places, fmt.bits // 8)
        found -= _SHIFT
        if literal.any():
            found[:, literal] = self.field.of_patterns(self.patterns(places[literal], fmt), fmt)
        if torn.any():
            found[:, torn] = self.field.random("torn", (int(torn.sum()),))
        return found

    def _torn(self, places: Places, size: int) -> npt.NDArray[np.bool_]:
        """Whether the bytes of a number do not belong together."""
        first = self._elements[0, places]
        torn = np.zeros(places.shape, np.bool_)
        for byte in range(1, size):
            torn |= self._elements[0, places + byte] != _mark(first, byte, size)
        torn &= ~np.isnan(first)  # of NaN nothing is known anyway
        return torn

    def patterns(self, places: Places, fmt: Format) -> npt.NDArray[np.int64]:
        """The bits of literals, unsigned."""
        size = fmt.bits // 8
        words = np.zeros(places.shape, np.int64)
        for byte in range(size):
            words |= self.data[places + byte].astype(np.int64) << 8 * byte
        return words

    def write(self, places: Places, size: int, elements: Elements) -> None:
        """Put elements at places, numbers of ``size`` bytes."""
        if not places.size:
            return
        first, end = int(places.min()), int(places.max()) + size
        self._lines[first >> LINE_SHIFT : (end - 1 >> LINE_SHIFT) + 1] = True
        self._elements[:, places] = elements + _SHIFT
        first = self._elements[0, places]
        for byte in range(1, size):
            self._elements[0, places + byte] = _mark(first, byte, size)

    def clear(self, first: int, count: int) -> None:
        """Let bytes be literals."""
        if count > 0 and self._touched(first, first + count):
            self._elements[0, first : first + count] = 0.0

    def clear_places(self, places: Places, size: int) -> None:
        """Let numbers of ``size`` bytes be literals."""
        if places.size and self._touched(int(places.min()), int(places.max()) + size):
            for byte in range(size):
                self._elements[0, places + byte] = 0.0

    def taken(self, places: Places, size: int) -> npt.NDArray[np.float32] | None:
        """What stands beside the bytes of numbers of ``size`` bytes; None where all are literals."""
        if not places.size or not self._touched(int(places.min()), int(places.max()) + size):
            return None
        return self._elements[:, (places.reshape(-1, 1) + np.arange(size)).ravel()]

    def put(self, places: Places, size: int, taken: npt.NDArray[np.float32] | None) -> None:
        """Put what was taken beside other bytes."""
        if taken is None:
            self._clear_blocks(places, size)
            return
        first, end = int(places.min()), int(places.max()) + size
        self._lines[first >> LINE_SHIFT : (end - 1 >> LINE_SHIFT) + 1] = True
        self._elements[:, (places.reshape(-1, 1) + np.arange(size)).ravel()] = taken

    def _clear_blocks(self, places: Places, size: int) -> None:
        if size < _LARGE:
            self.clear_places(places, size)
            return
        for place in places.ravel().tolist():
            self.clear(place, size)

    def move(self, sources: Places, targets: Places, size: int) -> None:
        """Move numbers within the memory; all are read before any is written."""
        self.put(targets, size, self.taken(sources, size))


def _mark(first: npt.NDArray[np.float32], byte: int, size: int) -> npt.NDArray[np.float32]:
    """What stands at a later byte of a number, by the first residue as it is stored: 0 for a literal.

    It depends on the size of the number, so that a half of one is no number of its own.
    """
    sign, more = _MARKS[size][byte - 1]
    return np.where(first == 0.0, np.float32(0.0), np.float32(sign) * (first + np.float32(more)))


def move(of: FieldMemory, sources: Places, to: FieldMemory, targets: Places, size: int) -> None:
    """Move blocks of ``size`` bytes with their elements; all are read before any is written."""
    if sources.size and size:
        to.put(targets, size, of.taken(sources, size))
