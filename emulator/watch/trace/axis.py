"""Time cut into a bounded number of bins: what the counters of a trace are gathered in.

Bins double in width when the run gets longer, so that no number of slices needs more memory, and slices may
come in any order.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from emulator.timing.slices import TICKS

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


class Pieces(NamedTuple):
    """Intervals cut at the edges of bins: piece i is ``ticks[i]`` of interval ``row[i]``, in ``bin[i]``."""

    row: Integers
    bin: Integers
    ticks: Integers


class Axis:
    """``bins`` bins of ``width`` ticks each from time 0 on; a cycle at first."""

    def __init__(self, bins: int) -> None:
        self.bins, self.width = bins, TICKS

    def fit(self, end: int) -> int:
        """Double the width until ``end`` (ticks) is on the axis; how often that was."""
        times = 0
        while end > self.width * self.bins:
            self.width *= 2
            times += 1
        return times

    def cut(self, begin: Integers, end: Integers) -> Pieces:
        """Cut intervals, which ``fit`` has made fit. An empty one gives one piece of no ticks."""
        first = np.minimum(begin // self.width, self.bins - 1)
        count = np.maximum((end - 1) // self.width - first, 0) + 1
        row = np.repeat(np.arange(len(first)), count)
        offset = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
        where = first[row] + offset
        ticks = np.minimum(end[row], (where + 1) * self.width) - np.maximum(begin[row], where * self.width)
        return Pieces(row, where, ticks)


class Sums:
    """Amounts by series and bin, each spread evenly over an interval."""

    def __init__(self, series: int, bins: int) -> None:
        self.axis = Axis(bins)
        self.sums: Floats = np.zeros((series, bins))

    def add(self, series: Integers, begin: Integers, end: Integers, amount: Integers) -> None:
        """Add ``amount[i]`` to a series, spread over ``begin[i]`` .. ``end[i]`` (ticks)."""
        if not len(begin):
            return
        for _ in range(self.axis.fit(int(end.max()))):
            merged = self.sums[:, 0::2] + self.sums[:, 1::2]
            self.sums = np.concatenate((merged, np.zeros_like(merged)), axis=1)
        pieces = self.axis.cut(begin, end)
        length = (end - begin)[pieces.row]
        share = np.where(length == 0, 1, pieces.ticks / np.maximum(length, 1))
        np.add.at(self.sums, (series[pieces.row], pieces.bin), share * amount[pieces.row])

    def rates(self) -> Floats:
        """[series, bin]: amount per tick."""
        return self.sums / self.axis.width
