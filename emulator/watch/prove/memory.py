"""Field elements of the numbers in a memory.

An element is stored for the first byte of its number, and marks for the others. A number without an element
is a *literal*: constants of the program, masks, zeros, numbers that the kernel core has stored. A literal
becomes an element when an instruction computes with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import as_strided

from emulator.memory.areas import LINE_SHIFT, Bytes, HostMemoryError, anonymous
from tx8isa.numbers.formats import Format
from tx8isa.numbers.prime_field import Elements, PrimeField

Places = npt.NDArray[np.int64]
"""Offsets of the first bytes of numbers."""
Taken = npt.NDArray[np.float32]
"""Elements and marks [rows, blocks, bytes] of blocks of bytes."""
_SHIFT = float(1 << 22)
"""Added to residues, so that no element is stored as 0."""
_MARKS = {2: ((-1.0, 0.0),), 4: ((1.0, 2.0**23), (-1.0, 2.0**23), (-1.0, 0.0))}
"""By the size of a number, for each of its later bytes: a sign and an addend; all exact in binary32."""
_APART = Format.UINT8, Format.INT32
"""Formats whose elements are stored as others, because a format of floats, or of signed bytes, is as long."""
_DENSE = 2
"""A contiguous range is read if it has at most this many numbers for each wanted one."""
_LARGE = 64
"""Bytes of blocks that are cleared one by one."""


@dataclass(frozen=True)
class _Run:
    """Numbers of ``size`` bytes that contain some places: a contiguous range, or only these places."""

    first: int
    end: int
    size: int
    places: Places | None = None
    """The places, if few numbers between them are wanted."""
    order: Places | None = None
    """For each place its index in the run; None if the places are in the run's order."""
    shape: tuple[int, ...] = ()

    @classmethod
    def of(cls, places: Places, size: int) -> _Run:
        if not places.size:
            return cls(0, 0, size, places.ravel(), None, places.shape)
        flat = places.ravel()
        first, last = int(flat[0]), int(flat[-1])
        if last - first == (flat.size - 1) * size and _step(flat, size) == size:
            return cls(first, last + size, size, None, None, places.shape)
        first, last = int(flat.min()), int(flat.max())
        order = flat - first
        if (last - first) // size >= _DENSE * order.size or (order & size - 1).any():
            return cls(first, last + size, size, flat, None, places.shape)
        order >>= size.bit_length() - 1
        return cls(first, last + size, size, None, order, places.shape)

    def at(self, byte: int = 0) -> slice | Places:
        """Return the places of one byte of each number."""
        if self.places is not None:
            return self.places + byte
        return slice(self.first + byte, self.end, self.size)

    def spread(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Select values of the run [..., numbers] at the places, in their shape."""
        chosen = values if self.order is None else values.take(self.order, values.ndim - 1)
        return chosen.reshape(*values.shape[:-1], *self.shape)


class FieldMemory:
    """The elements of one memory, whose bytes are ``data``; HostMemoryError when the host has no room."""

    def __init__(self, data: Bytes, field: PrimeField) -> None:
        self.data, self.field = data, field
        size = 4 * (field.residues + 1) * data.size
        area = anonymous(size)
        if area is None:
            raise HostMemoryError(
                f"the host refuses {size} bytes of address space for a proof; raise the memory limit, or "
                "describe a machine with less DDR"
            )
        self._rows = area.view(np.float32).reshape(field.residues + 1, data.size)
        self._elements = self._rows[:-1]
        self.writer = 0
        """The number of the writing instruction, stored with elements; 0 if it is not needed."""
        self._lines = np.zeros((data.size >> LINE_SHIFT) + 2, np.bool_)
        """True for lines that have had elements."""

    def has_elements(self, places: Places) -> bool:
        """Return True if any of the numbers is an element."""
        if not places.size:
            return False
        first, last = int(places.min()), int(places.max())
        if not self._touched(first, last + 1) or not self._elements[0, first : last + 1].any():
            return False
        return bool(self._elements[0, places].any())

    def _touched(self, first: int, end: int) -> bool:
        """Return True if there may be elements in a range of bytes."""
        return bool(self._lines[first >> LINE_SHIFT : (end - 1 >> LINE_SHIFT) + 1].any())

    def read(self, places: Places, fmt: Format) -> Elements:
        """Return the elements at places, also of literals; a number composed of parts of others is a hash."""
        run = _Run.of(places, fmt.bits // 8)
        if not places.size or not self._touched(run.first, run.end):
            return run.spread(self.field.of_patterns(self._patterns(run), fmt))
        first = self._elements[0, run.at()]
        literal, torn = first == 0.0, self._torn(run, first)
        found = np.subtract(self._elements[:, run.at()], _SHIFT, dtype=np.float64)
        if literal.any():
            found[:, literal] = self.field.of_patterns(self._patterns(run)[literal], fmt)
        if torn.any():
            found[:, torn] = self.field.random("torn", (int(torn.sum()),))
        if fmt in _APART:
            found[:, ~literal] = inverted(self.field, found[:, ~literal])
        return run.spread(found)

    def _torn(self, run: _Run, first: npt.NDArray[np.float32]) -> npt.NDArray[np.bool_]:
        """Return True where the bytes of a number come from different numbers."""
        torn = np.zeros(first.shape, np.bool_)
        for byte in range(1, run.size):
            torn |= self._elements[0, run.at(byte)] != _mark(first, byte, run.size)
        if torn.any():
            torn &= ~np.isnan(first)  # NaN is an unknown element anyway
        return torn

    def patterns(self, places: Places, fmt: Format) -> npt.NDArray[np.int64]:
        """Return the bits of literals, unsigned."""
        run = _Run.of(places, fmt.bits // 8)
        return run.spread(self._patterns(run))

    def _patterns(self, run: _Run) -> npt.NDArray[np.int64]:
        words = self.data[run.at()].astype(np.int64)
        for byte in range(1, run.size):
            words |= self.data[run.at(byte)].astype(np.int64) << 8 * byte
        return words

    def write(self, places: Places, fmt: Format, elements: Elements) -> None:
        """Store elements at places, for numbers of a format."""
        if not places.size:
            return
        size, elements = fmt.bits // 8, inverted(self.field, elements) if fmt in _APART else elements
        run = _Run.of(places, size)
        self._lines[run.first >> LINE_SHIFT : (run.end - 1 >> LINE_SHIFT) + 1] = True
        stored = np.add(elements, _SHIFT, dtype=np.float32, casting="same_kind")
        if run.order is None:
            at, flat = run, stored.reshape(stored.shape[0], -1)
        else:  # some places of the run may be unchanged
            at, flat = _Run(run.first, run.end, size, places.ravel()), stored.reshape(stored.shape[0], -1)
        self._elements[:, at.at()] = flat
        if self.writer:
            self._rows[-1, at.at()] = self.writer
        for byte in range(1, size):
            self._elements[0, at.at(byte)] = _mark(flat[0], byte, size)

    def clear(self, first: int, count: int) -> None:
        """Make bytes literals."""
        if count > 0 and self._touched(first, first + count):
            self._elements[0, first : first + count] = 0.0

    def forget(self, first: int, count: int) -> None:
        """Make bytes unknown: numbers read from them are NaN."""
        self.put(np.array([first]), count, np.full((self._moved.shape[0], 1, count), np.nan, np.float32))

    def clear_places(self, places: Places, size: int) -> None:
        """Make numbers of ``size`` bytes literals."""
        if places.size and self._touched(int(places.min()), int(places.max()) + size):
            for byte in range(size):
                self._elements[0, places + byte] = 0.0

    def taken(self, places: Places, size: int) -> npt.NDArray[np.float32] | None:
        """Return elements and marks [rows, blocks, size] of blocks of bytes; None if all are literals."""
        if not places.size or not self._touched(int(places.min()), int(places.max()) + size):
            return None
        blocks = self._blocks(places, size)
        if blocks is not None:
            return blocks.copy()
        return self._moved[:, places.reshape(-1, 1) + np.arange(size)]

    @property
    def _moved(self) -> npt.NDArray[np.float32]:
        """Return the rows that move with bytes: elements and marks."""
        return self._rows if self.writer else self._elements

    def _blocks(self, places: Places, size: int) -> npt.NDArray[np.float32] | None:
        """Return a view [rows, blocks, size] of evenly spaced blocks; None for others."""
        rows, flat = self._moved, places.ravel()
        step = _step(flat, size)
        if step is None or int(flat[0]) < 0 or int(flat[-1]) + size > rows.shape[1]:
            return None
        strides = rows.strides[0], step * rows.strides[1], rows.strides[1]
        return as_strided(rows[:, int(flat[0]) :], (rows.shape[0], flat.size, size), strides)

    def kept(self, first: int, count: int) -> npt.NDArray[np.float32]:
        """Return a copy of the elements and marks [residues, bytes] of bytes that stay after a run."""
        return self._elements[:, first : first + count].copy()

    def put_back(self, first: int, kept: npt.NDArray[np.float32]) -> None:
        """Put back the elements and marks of bytes that have stayed since an earlier run."""
        end = first + kept.shape[1]
        self._lines[first >> LINE_SHIFT : (end - 1 >> LINE_SHIFT) + 1] = True
        self._elements[:, first:end] = kept

    def is_truth(self, taken: Taken) -> bool:
        """Return True if a number was taken that is 1 or 0 in all fields, as results of relations are."""
        numbers = taken[: self.field.residues, 0, 0] - _SHIFT
        return bool((numbers == numbers[0]).all()) and numbers[0] in (0.0, 1.0)

    def writers(self, places: Places) -> npt.NDArray[np.int64]:
        """Return, for each number, the instruction that has computed it; 0 for literals and inputs."""
        return np.asarray(self._rows[-1, places], np.int64)

    def put(self, places: Places, size: int, taken: npt.NDArray[np.float32] | None) -> None:
        """Store the rows from ``taken`` for other bytes."""
        if taken is None:
            self._clear_blocks(places, size)
            return
        first, end = int(places.min()), int(places.max()) + size
        self._lines[first >> LINE_SHIFT : (end - 1 >> LINE_SHIFT) + 1] = True
        blocks = self._blocks(places, size)
        if blocks is not None:
            blocks[:] = taken
        else:
            self._moved[:, places.reshape(-1, 1) + np.arange(size)] = taken

    def _clear_blocks(self, places: Places, size: int) -> None:
        if size < _LARGE:
            self.clear_places(places, size)
            return
        for place in places.ravel().tolist():
            self.clear(place, size)

    def move(self, sources: Places, targets: Places, size: int) -> None:
        """Move numbers within the memory; all are read before any is written."""
        self.put(targets, size, self.taken(sources, size))


def _step(flat: Places, size: int) -> int | None:
    """Return the distance of evenly ascending blocks of ``size`` bytes; None if uneven or overlapping."""
    step = int(flat[1] - flat[0]) if flat.size > 1 else size
    return step if step >= size and bool((np.diff(flat) == step).all()) else None


def _mark(first: npt.NDArray[np.float32], byte: int, size: int) -> npt.NDArray[np.float32]:
    """Compute the mark at a later byte of a number, from the stored first residue; 0 for a literal.

    It depends on the size of the number, so that half of a number is not taken for a whole one.
    """
    sign, more = _MARKS[size][byte - 1]
    if not more:  # the mark of a literal is a zero, too
        return -first if sign < 0 else first
    return np.where(first == 0.0, np.float32(0.0), np.float32(sign) * (first + np.float32(more)))


def inverted(field: PrimeField, x: Elements) -> Elements:
    """Other elements in place of given ones; inverting them twice changes nothing.

    So a byte without a sign differs from one with a sign, which has the other highest bit, and an integer of
    32 bits from a float.
    """
    return field.subtract(field.random("inverted", (1,) * (x.ndim - 1)), x)


def move(of: FieldMemory, sources: Places, to: FieldMemory, targets: Places, size: int) -> None:
    """Move blocks of ``size`` bytes with their elements; all are read before any is written."""
    if sources.size and size:
        to.put(targets, size, of.taken(sources, size))
