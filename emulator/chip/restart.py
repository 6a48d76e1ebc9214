"""Reuses a system for the next run of its program, instead of making a new one."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Unpack

import numpy as np

from asm.image import Image
from emulator.engines import queues
from emulator.memory import state
from emulator.tile.tile import Status, row_sizes
from tx8isa.machine.description import Machine

from .memories import Memories
from .options import DEFAULTS, RunOptions
from .system import System


class Restart:
    """One system for many runs of a program in the same memories."""

    def __init__(self, image: Image, machine: Machine, memories: Memories) -> None:
        self.image, self.machine, self.memories = image, machine, memories
        self._system: System | None = None
        self._options: dict[str, Any] = {}
        self._words = self._first = np.empty(0, np.int64), np.empty(0, np.int64)
        """The words of all tiles that a run changes, and their values at its beginning."""

    def begin(self, **options: Unpack[RunOptions]) -> System:
        """Return a system at the beginning of the program.

        Its memories must be in the state after loading.
        """
        kept: dict[str, Any] = {**DEFAULTS, **options}
        show, sinks = kept.pop("show"), kept.pop("sinks")
        kept["watched"] = bool(sinks)
        system = self._system
        if system is None or kept != self._options or not _repeatable(system):
            self._options = kept
            return self._made(options)
        (rows, heads), (first_rows, first_heads) = self._words, self._first
        rows[:], heads[:] = first_rows, first_heads
        rows[:, state.CODE] = system.code.translation.dispatch.ctypes.data
        for tile in system.tiles:
            tile.status, tile.moment, tile.group, tile.exit_code = Status.RUNNING, None, 0, 0
            for found in (tile.pmu, tile.csrs, tile.output):
                found.clear()
        system.traffic.polls = [""] * len(system.tiles)
        system.show = show
        system.simulate_again(sinks)
        if system.order_run is not None:
            system.order_run.begin()
        return system

    def forget(self) -> None:
        """Make a new system for the next run, because this one was stopped in the middle of its program."""
        self._system = None

    def _made(self, options: RunOptions) -> System:
        system = System(self.image, self.machine, memories=self.memories, **options)
        self._system = system
        self._words = rows, heads = _views(system)
        self._first = rows.copy(), heads.copy()
        return system


def _repeatable(system: System) -> bool:
    """Return True if this class resets everything that a run leaves in a system."""
    watched = system.sanitizer or system.field_run
    return not (system.altered or watched or any(system.traffic.started))


def _views(system: System) -> tuple[np.ndarray, np.ndarray]:
    """Return the words of all tiles that a run changes (state, registers and counts), and the heads of
    queues.

    Executed entries of a queue do not matter.
    """
    every = system.memories.rows
    size = sum(row_sizes(system.machine)[:-1])
    return every[:, :size], every[:, size:].reshape(len(every), -1, queues.WORDS)[:, :, : queues.HEAD]


class Pool:
    """Memories that no run uses at the moment, with the system of the last run; at most one set is kept."""

    def __init__(self, make: Callable[[], Restart]) -> None:
        self._make, self._idle = make, list[Restart]()
        self._lock = threading.Lock()

    def take(self) -> Restart:
        """Take memories in the state after loading, for exclusive use."""
        with self._lock:
            found = self._idle.pop() if self._idle else None
        return found or self._make()

    def give_back(self, kept: Restart) -> None:
        """Return the memories of a finished run; they are reset."""
        with self._lock:
            if not self._idle:
                self._idle.append(kept)
