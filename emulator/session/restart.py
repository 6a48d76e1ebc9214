"""A system that begins its program again without being made anew."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from emulator.chip.system import System
from emulator.engines import queues
from emulator.memory import state
from emulator.tile.tile import Status, row_sizes


class Restart:
    """One system for many runs of a program; ``make`` makes it."""

    def __init__(self, make: Callable[[], System]) -> None:
        self._make = make
        self._system: System | None = None
        self._rows = self._heads = np.empty(0, np.int64)

    def begin(self) -> System:
        """A system at the beginning of the program; its memories must be those after loading."""
        system = self._system
        if system is None or system.altered or system.simulator or any(system.traffic.started):
            return self._made()
        rows, heads = _views(system)
        rows[:], heads[:] = self._rows, self._heads
        rows[:, state.CODE] = system.code.translation.dispatch.ctypes.data
        for tile in system.tiles:
            tile.status, tile.moment, tile.group, tile.exit_code = Status.RUNNING, None, 0, 0
            for found in (tile.pmu, tile.csrs, tile.output):
                found.clear()
        system.traffic.polls = [""] * len(system.tiles)
        return system

    def forget(self) -> None:
        """Make a new system for the next run: this one was stopped in the middle of its program."""
        self._system = None

    def _made(self) -> System:
        system = self._system = self._make()
        rows, heads = _views(system)
        self._rows, self._heads = rows.copy(), heads.copy()
        return system


def _views(system: System) -> tuple[np.ndarray, np.ndarray]:
    """The words of all tiles that a run changes: state, registers and counts; and the heads of the queues.

    What entries of a queue that were executed hold does not matter.
    """
    every = system.memories.rows
    size = sum(row_sizes(system.machine)[:-1])
    return every[:, :size], every[:, size:].reshape(len(every), -1, queues.WORDS)[:, :, : queues.HEAD]
