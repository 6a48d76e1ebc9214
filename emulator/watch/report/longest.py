"""The longest slices, one by one; the others are only in the bins."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from emulator.watch.bins import Ints

_SCATTER = 0x9E3779B97F4A7C15
"""Odd, near 2**64 divided by the golden ratio, so that its multiples spread evenly over all words."""

KEPT = np.dtype(
    [
        ("tile", "u1"),
        ("track", "u1"),
        ("cause", "u1"),
        ("kind", "u2"),
        ("pc", "i8"),
        ("number", "i8"),
        ("started", "i8"),
        ("ended", "i8"),
        ("blocked", "i8"),
    ]
)
"""A kept slice: some fields of ``SLICE``, and its kind."""


class Longest:
    """At most ``most`` slices. Of equally long slices an even sample is kept, not only early ones."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept = np.zeros(0, dtype=KEPT)
        self._least = 0
        """Slices shorter than this can no longer be among the longest."""
        self.seen = 0

    def add(self, slices: npt.NDArray[np.void], kinds: Ints) -> None:
        """Take slices and their kinds."""
        self.seen += len(slices)
        chosen = np.flatnonzero(slices["ended"] - slices["started"] >= self._least)
        rows = np.zeros(len(chosen), dtype=KEPT)
        for name in set(KEPT.names or ()) - {"kind"}:
            rows[name] = slices[name][chosen]
        rows["kind"] = kinds[chosen]
        self._kept = np.concatenate((self._kept, rows))
        if len(self._kept) > 2 * self._most:
            self._drop()

    def final(self) -> npt.NDArray[np.void]:
        """Return the kept slices, by time."""
        self._drop()
        return self._kept[np.lexsort((self._kept["track"], self._kept["tile"], self._kept["started"]))]

    def _drop(self) -> None:
        if len(self._kept) > self._most:
            number = self._kept["number"] + self._kept["tile"] + 1
            chance = number.astype(np.uint64) * np.uint64(_SCATTER)
            length = self._kept["ended"] - self._kept["started"]
            order = np.lexsort((chance, length))[-self._most :]
            self._least = int(length[order[0]])
            self._kept = self._kept[np.sort(order)]
