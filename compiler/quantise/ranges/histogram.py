"""Histograms of values, in bins whose width is a power of two.

Bins begin at whole multiples of their width. If there would be too many bins, each pair becomes one, which is
exact. So the result does not depend on the order of the samples or on how they are split.
"""

from __future__ import annotations

import math

import numpy as np

from compiler.graph import Array

MOST_BINS = 4096
_LEAST_EXPONENT = -148
_DIGITS = 24
"""Bits of binary32; narrower bins than the spacing of the largest value would be empty."""


class Histogram:
    """Counts of binary32 values. ``lowest`` and ``highest`` are exact; ``lowest`` is at most 0 and
    ``highest`` at least 0."""

    def __init__(self) -> None:
        self.lowest = self.highest = 0.0
        self.counts: Array = np.zeros(1, np.int64)
        self._exponent = _LEAST_EXPONENT
        self._first = 0

    @property
    def centres(self) -> Array:
        """The middle of each bin; the bin that begins at zero is limited by the exact bounds.

        So results of a Relu are zero, not half a bin away.
        """
        index = np.arange(self._first, self._first + len(self.counts))
        return np.where(index == 0, 0.0, (index + 0.5) * self.width)

    @property
    def width(self) -> float:
        """The width of a bin."""
        return math.ldexp(1.0, self._exponent)

    @property
    def edges(self) -> Array:
        """The beginning of each bin, and the end of the last one."""
        return np.arange(self._first, self._first + len(self.counts) + 1) * self.width

    def add(self, values: Array) -> None:
        """Count the values of an array, which are finite."""
        if not values.size:
            return
        self.lowest = min(self.lowest, float(values.min()))
        self.highest = max(self.highest, float(values.max()))
        self._widen()
        index = np.floor(values * np.float32(1.0 / self.width)) if self._scales() else self._slow(values)
        found = np.bincount((index.astype(np.int64) - self._first).reshape(-1), minlength=len(self.counts))
        self.counts = self.counts + found

    def _scales(self) -> bool:
        """Return True if the factor 1 / width is a normal number of binary32."""
        return -126 <= -self._exponent <= 126

    def _slow(self, values: Array) -> Array:
        return np.floor(values.astype(np.float64) / self.width)

    def _widen(self) -> None:
        """Make room for values from ``lowest`` to ``highest``; earlier counts move to the new bins."""
        largest = max(-self.lowest, self.highest)
        exponent = max(self._exponent, math.frexp(largest)[1] - _DIGITS if largest else _LEAST_EXPONENT)
        while True:
            first, last = (math.floor(math.ldexp(end, -exponent)) for end in (self.lowest, self.highest))
            if last - first < MOST_BINS:
                break
            exponent += 1
        shift = exponent - self._exponent
        old = np.flatnonzero(self.counts)
        counts = np.zeros(last - first + 1, np.int64)
        moved = [((self._first + int(at)) >> shift) - first for at in old]
        np.add.at(counts, moved, self.counts[old])
        self.counts, self._exponent, self._first = counts, exponent, first
