"""Live data in the scratchpads: by tile, block of addresses and time, the kind that wrote them.

Data are live from the start of their write to the end of the last read before the next write. A block or a
stretch of time with several writers shows the last one.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from emulator.watch.accesses import SpmAccesses
from emulator.watch.bins import Axis, Ints
from tx8isa.numbers.layouts import LINE_BYTES

from .kinds import NOBODY

BLOCKS = 128
COLUMNS = 256


class Residence:
    """``map``: [tile, block, column], the kind of the instruction that wrote the live data there."""

    def __init__(self, tiles: int, time: Axis) -> None:
        self._time, self._per_column = time, time.bins // COLUMNS
        self.space = Axis(BLOCKS, LINE_BYTES)
        self.map = np.zeros((tiles, BLOCKS, COLUMNS), dtype=np.uint16)
        self._owner = np.zeros((tiles, BLOCKS), dtype=np.int64)
        self._column = np.zeros((tiles, BLOCKS), dtype=np.int64)
        """The column up to which the block's map is drawn."""

    @property
    def column_width(self) -> int:
        """Ticks of a column."""
        return self._time.width * self._per_column

    def halve(self) -> None:
        """Adapt the columns after the time axis has doubled the width of its bins."""
        self.map = _later(self.map)
        self._column //= 2

    def add(self, slices: npt.NDArray[np.void], accesses: SpmAccesses, kinds: Ints) -> None:
        """Take slices, their reads and writes, and their kinds."""
        row, first, size, written, tile = accesses
        if not len(row):
            return
        for _ in range(self.space.reach(int((first + size).max()))):
            self._halve_space()
        parts = self.space.cut(first, first + size)
        row, written, tile = row[parts.row], written[parts.row], tile[parts.row]
        begin, time = (slices["started"][row], slices["ended"][row])
        cell = tile * BLOCKS + parts.bin
        order = np.lexsort((written, time, cell))
        writer = np.where(written, kinds[row], NOBODY)
        begin_column, column = (np.minimum(t[order] // self.column_width, COLUMNS - 1) for t in (begin, time))
        self._live(cell[order], begin_column, column, writer[order])

    def _live(self, cell: Ints, begin_column: Ints, column: Ints, writer: Ints) -> None:
        """Draw events, ordered by cells and time; ``writer`` is NOBODY for a read."""
        place = np.arange(len(cell))
        first = np.maximum.accumulate(np.where(np.diff(cell, prepend=-1) != 0, place, 0))
        last_write = np.maximum.accumulate(np.where(writer != NOBODY, place, -1))
        before = self._owner.reshape(-1)[cell]
        owner = np.where(last_write >= first, writer[last_write], before)
        drawn = np.where(place > first, np.roll(column, 1), self._column.reshape(-1)[cell])
        begin = np.where(writer != NOBODY, begin_column, np.minimum(drawn, column))
        counts = np.where(owner != NOBODY, column - begin + 1, 0)
        event = np.repeat(place, counts)
        within = np.arange(len(event)) - np.repeat(np.cumsum(counts) - counts, counts)
        self.map.reshape(-1)[cell[event] * COLUMNS + begin[event] + within] = owner[event]
        final = np.append(np.diff(cell) != 0, True)
        self._owner.reshape(-1)[cell[final]] = owner[final]
        self._column.reshape(-1)[cell[final]] = column[final]

    def _halve_space(self) -> None:
        self.map = np.swapaxes(_later(np.swapaxes(self.map, 1, 2)), 1, 2).copy()
        later = self._column[:, 1::2] > self._column[:, ::2]
        for array in (self._owner, self._column):
            half = np.where(later, array[:, 1::2], array[:, ::2])
            array[:] = 0
            array[:, : half.shape[1]] = half


def _later(values: npt.NDArray[np.uint16]) -> npt.NDArray[np.uint16]:
    """Halve the last axis: of two neighbours the second is kept, or the first if that is empty."""
    pairs = values.reshape(*values.shape[:-1], -1, 2)
    folded = np.zeros_like(values)
    folded[..., : pairs.shape[-2]] = np.where(pairs[..., 1] != NOBODY, pairs[..., 1], pairs[..., 0])
    return folded
