"""Runs of one program from the reset state, in memories that are kept between runs."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import ClassVar, Unpack

from emulator.chip.memories import Memories
from emulator.chip.options import RunOptions, host_cores
from emulator.chip.restart import Restart
from emulator.chip.system import System
from emulator.memory.buffers import Array
from emulator.program import Program

MOST_BYTES = 1 << 29
"""The most bytes of memories that wait for another run, over all programs."""
SHORT = 2e-3
"""Processor seconds; shorter runs take longer when several host threads share them."""


class RepeatedRuns:
    """Begins runs of a program fast: a run that ends well leaves its chip, after a reset, to the next run.

    Any number of runs may exist at a time. When the memories of all programs together become too large, those
    not used for longest are released.
    """

    _waiting: ClassVar[list[weakref.ref[RepeatedRuns]]] = []
    """The objects that have memories, the least recently used first."""
    _lock = threading.Lock()

    def __init__(self, program: Program) -> None:
        self.program = program
        self._idle: Restart | None = None
        self._seconds = SHORT
        segments = sum(segment.size for segment in program.image.segments)
        self.size = segments + program.machine.tiles * program.machine.spm.bytes
        """Bytes of its memories, without pages that the host supplies later."""

    @property
    def threads(self) -> int:
        """Return the default number of host threads for a run: one if the last run was short."""
        return host_cores() if self._seconds >= SHORT else 1

    @contextmanager
    def started(self, inputs: Mapping[str, Array], **options: Unpack[RunOptions]) -> Iterator[System]:
        """Yield a system as ``Program.start`` returns it; within the block it belongs to the caller."""
        taken: list[Restart] = []

        def make(**options: Unpack[RunOptions]) -> System:
            taken.append(self._take())
            return taken[0].begin(**options)

        system = self.program.start(inputs, make=make, **options)
        begin = time.process_time()
        yield system
        self._seconds = time.process_time() - begin
        taken[0].memories.reset(system.threads)
        self._give_back(taken[0])

    def _take(self) -> Restart:
        with self._lock:
            found, self._idle = self._idle, None
        image, machine = self.program.image, self.program.machine
        return found or Restart(image, machine, Memories(image, machine))

    def _give_back(self, kept: Restart) -> None:
        with self._lock:
            self._idle = kept
            others = [ref for ref in self._waiting if (each := ref()) and each is not self and each._idle]
            self._waiting[:] = [*others, weakref.ref(self)]
            held = sum(each.size for ref in self._waiting if (each := ref()))
            while held > MOST_BYTES and (oldest := self._waiting.pop(0)()):
                oldest._idle, held = None, held - oldest.size
