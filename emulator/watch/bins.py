"""Bins of time or addresses. Their number is fixed; their width doubles when their range is too short.

So memory does not grow with the number of slices, and slices may come in any order.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


class BinParts(NamedTuple):
    """Intervals cut at the borders of bins: part i is ``length[i]`` of interval ``row[i]``, in ``bin[i]``."""

    row: Ints
    bin: Ints
    length: Ints


class Axis:
    """``bins`` bins of ``width`` each; the first begins at 0."""

    def __init__(self, bins: int, width: int) -> None:
        self.bins, self.width = bins, width

    def reach(self, end: int) -> int:
        """Extend the axis to contain everything below ``end``; return how often its width was doubled.

        The owner of an array along the axis halves it as often (``halved``).
        """
        times = 0
        while end > self.bins * self.width:
            self.width *= 2
            times += 1
        return times

    def used(self, end: int) -> int:
        """Return the number of bins that begin below ``end``, at least one."""
        return max(-(-end // self.width), 1)

    def cut(self, begin: Ints, end: Ints) -> BinParts:
        """Cut the intervals ``begin`` <= t < ``end``, which are on the axis.

        An empty interval gives one part of length 0.
        """
        first = np.minimum(begin // self.width, self.bins - 1)
        counts = np.maximum((end - 1) // self.width - first, 0) + 1
        row = np.repeat(np.arange(len(first)), counts)
        within = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
        number = first[row] + within
        length = np.minimum(end[row], (number + 1) * self.width) - np.maximum(begin[row], number * self.width)
        return BinParts(row, number, length)


def halved(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return sums of neighbouring pairs of the last axis, in its first half; zeros after them."""
    folded = np.zeros_like(values)
    folded[..., : values.shape[-1] // 2] = values[..., ::2] + values[..., 1::2]
    return folded


def summed(values: npt.NDArray[Any], factor: int) -> npt.NDArray[Any]:
    """Return sums of ``factor`` neighbours of the last axis, which is padded with zeros."""
    missing = -values.shape[-1] % factor
    padded = np.pad(values, [(0, 0)] * (values.ndim - 1) + [(0, missing)])
    sums: npt.NDArray[Any] = padded.reshape(*values.shape[:-1], -1, factor).sum(-1)
    return sums


class Sums:
    """Amounts by series and bin of time, each spread evenly over an interval."""

    def __init__(self, series: int, axis: Axis) -> None:
        self.axis = axis
        self.sums: Floats = np.zeros((series, axis.bins))

    def add(self, series: Ints, begin: Ints, end: Ints, amount: Ints) -> None:
        """Add ``amount[i]`` to a series, spread over ``begin[i]`` .. ``end[i]``."""
        if not len(begin):
            return
        for _ in range(self.axis.reach(int(end.max()))):
            self.sums = halved(self.sums)
        parts = self.axis.cut(begin, end)
        length = (end - begin)[parts.row]
        share = np.where(length == 0, 1, parts.length / np.maximum(length, 1))
        np.add.at(self.sums, (series[parts.row], parts.bin), share * amount[parts.row])

    def rates(self) -> Floats:
        """Return [series, bin]: amount per unit of the axis."""
        return self.sums / self.axis.width
