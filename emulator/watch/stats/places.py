"""Assigns small indices to program counters and instruction numbers, by which statistics count."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

NO_NODE = 0
"""Index of code that belongs to no graph node."""


class Places:
    """Rows for program counters, in the order of their first use, and their graph nodes."""

    def __init__(self, nodes: Mapping[int, str]) -> None:
        self._nodes = nodes
        self.names = [""]
        """Graph nodes by index; the first is none."""
        self._numbers = {"": NO_NODE}
        self._sorted = np.zeros(0, dtype=np.int64)
        self._row = np.zeros(0, dtype=np.int64)
        self.pcs = np.zeros(0, dtype=np.int64)
        self.node = np.zeros(0, dtype=np.int64)
        """For each row: program counter, index of the node."""

    def rows(self, pcs: Ints) -> Ints:
        """Return the row of each program counter; new ones get one."""
        at = np.searchsorted(self._sorted, pcs)
        known = np.minimum(at, max(len(self._sorted) - 1, 0))
        if not len(self._sorted) or not (self._sorted[known] == pcs).all():
            self._learn(np.setdiff1d(pcs, self._sorted))
            at = np.searchsorted(self._sorted, pcs)
        return self._row[at]

    def _learn(self, pcs: Ints) -> None:
        nodes = [self._number(self._nodes.get(pc, "")) for pc in pcs.tolist()]
        self.pcs = np.concatenate([self.pcs, pcs])
        self.node = np.concatenate([self.node, np.array(nodes, dtype=np.int64)])
        self._row = np.argsort(self.pcs, kind="stable")
        self._sorted = self.pcs[self._row]

    def _number(self, name: str) -> int:
        if name not in self._numbers:
            self._numbers[name] = len(self.names)
            self.names.append(name)
        return self._numbers[name]


class Recent:
    """The track of the latest instructions, by tile and number, which gives the unit that an instruction
    waited for.

    ``REMEMBERED`` is twice the most instructions of one call, so that a call does not overwrite its own. Runs
    of few instructions get a smaller table: supplying the pages of a large one takes milliseconds.
    """

    REMEMBERED = 1 << 16
    _FEWEST = 1 << 8

    def __init__(self, tiles: int) -> None:
        self._known = np.zeros((tiles, self._FEWEST), dtype=np.int64)

    def note(self, tile: Ints, number: Ints, track: Ints) -> None:
        """Record the tracks of instructions."""
        self._make_room(int(number.max(initial=0)))
        self._known[tile, number % self._known.shape[1]] = (number + 1) << 4 | track

    def _make_room(self, number: int) -> None:
        """Extend the table to an instruction, with as many places as are remembered, or a separate one."""
        tiles, size = self._known.shape
        if number >= size and size < self.REMEMBERED:
            larger = np.zeros((tiles, min(1 << number.bit_length(), self.REMEMBERED)), dtype=np.int64)
            larger[:, :size] = self._known
            self._known = larger

    def tracks(self, tile: Ints, number: Ints) -> Ints:
        """Return the track of each instruction, -1 where it is not remembered."""
        known = self._known[tile, number % self._known.shape[1]]
        return np.where((number >= 0) & (known >> 4 == number + 1), known & 15, -1)
