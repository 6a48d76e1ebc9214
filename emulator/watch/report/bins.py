"""Time, and addresses, in a fixed number of bins whose width doubles when they no longer reach far enough."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


class Axis:
    """``bins`` stretches of ``width`` each, from 0 on."""

    def __init__(self, bins: int, width: int) -> None:
        self.bins, self.width = bins, width

    def reach(self, end: int) -> int:
        """Make the axis contain everything below ``end``; how often its width was doubled for that.

        Whoever keeps an array along the axis halves it as often (``halved``).
        """
        times = 0
        while end > self.bins * self.width:
            self.width *= 2
            times += 1
        return times

    def used(self, end: int) -> int:
        """Bins that begin below ``end``, at least one."""
        return max(-(-end // self.width), 1)


def halved(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Sums of neighbouring pairs of the last axis, in its first half; zeros behind them."""
    folded = np.zeros_like(values)
    folded[..., : values.shape[-1] // 2] = values[..., ::2] + values[..., 1::2]
    return folded


def summed(values: npt.NDArray[Any], factor: int) -> npt.NDArray[Any]:
    """Sums of ``factor`` neighbours of the last axis, which is filled up with zeros."""
    missing = -values.shape[-1] % factor
    padded = np.pad(values, [(0, 0)] * (values.ndim - 1) + [(0, missing)])
    sums: npt.NDArray[Any] = padded.reshape(*values.shape[:-1], -1, factor).sum(-1)
    return sums


class Pieces(NamedTuple):
    """Stretches cut at the borders of bins: of which row, in which bin, and how much of it."""

    row: Ints
    bin: Ints
    length: Ints


def cut(first: Ints, end: Ints, width: int) -> Pieces:
    """The stretches ``first`` <= t < ``end``, cut; an empty one has a piece of length 0."""
    start_bin, last_bin = first // width, np.maximum(end - 1, first) // width
    counts = last_bin - start_bin + 1
    row = np.repeat(np.arange(len(first)), counts)
    within = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
    number = start_bin[row] + within
    length = np.minimum(end[row], (number + 1) * width) - np.maximum(first[row], number * width)
    return Pieces(row, number, length)
