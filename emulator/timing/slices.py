"""Time slices, the result of the simulation: one row for each interval in which a unit was busy.

Statistics, traces and reports are computed from these rows only. Times are ticks, ``TICKS`` of them in a
cycle; all tiles count from the same origin.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from tx8isa.cost.instructions import TICKS

__all__ = [
    "MOST_RANGES",
    "SLICE",
    "TICKS",
    "Batch",
    "Cause",
    "Later",
    "Repeatable",
    "Sink",
    "Track",
    "Waiting",
]


class Track(IntEnum):
    """The unit that was busy. The first seven are the engines' codes (``tx8isa.records.record.Engine``)."""

    CT = 0
    NE = 1
    RDMA = 2
    WDMA = 3
    TDMA = 4
    SCALAR = 5
    DTE = 6
    CORE = 7
    """The kernel core waits: for room in a queue, at a wait, for copies, arrivals, or at a barrier."""


class Cause(IntEnum):
    """The reason why an instruction could not start on a free engine, took longer, or the core waited."""

    NOTHING = 0
    QUEUE = 1
    """Core: the engine's queue is full."""
    DEPENDENCY = 2
    """Engine: an older instruction has not ended, or has the path of CT and TDMA; core: ``ncc.wait``."""
    BANK = 3
    """Engine: its data take longer because another engine uses the same scratchpad banks."""
    DDR = 4
    """Engine: its data take longer than on an idle chip, because other tiles use the DDR."""
    NOC = 5
    """DTE: links of its route are occupied."""
    DTE = 6
    """Core: copies it has started have not ended."""
    ARRIVAL = 7
    """Core: packets that others send have not arrived."""
    BARRIER = 8
    """Core: other tiles have not reached the barrier."""
    PROGRAM = 9
    """Core: the fixed time of every program (``core.program``)."""


SLICE = np.dtype(
    [
        ("tile", "i2"),
        ("worker", "i1"),
        ("track", "i1"),
        ("record", "i2"),  # number of the record (``tables.records()``), -1 when it is not an instruction
        ("cause", "i1"),  # Cause of ``blocked``
        ("sources", "i1"),  # ranges of the instruction that are noted in ``Batch.ranges``
        ("number", "i8"),  # of the instruction on its tile, from 0, in program order; core: of the next one
        ("pc", "i8"),  # core address of the instruction, or of the store that started it
        ("issued", "i8"),  # the core has submitted it
        ("started", "i8"),  # the engine begins; core: the wait begins
        ("ended", "i8"),  # all its effects are there; core: the wait ends
        ("blocked", "i8"),  # ticks between the engine being free and ``started``, or, for BANK, DDR and NOC,
        # ticks that the instruction took longer
        ("blocker", "i8"),  # number of the instruction of the same tile that caused it, -1 when there is none
        ("target", "i4"),  # DTE: the tile that gets the data (one slice per target); else -1
        ("spm_read", "i8"),
        ("spm_written", "i8"),
        ("ddr_read", "i8"),
        ("ddr_written", "i8"),  # bytes
        ("operations", "i8"),  # NE: multiply-adds times 2; CT: elements computed; else 0
    ]
)
"""One slice. Rows of CORE: ``blocked`` is ``ended`` - ``started``; ``pc`` is the instruction that waits."""

MOST_RANGES = 8


class Batch(NamedTuple):
    """Slices that have become final, with the ranges and operands of each row."""

    slices: npt.NDArray[np.void]
    """Records of type ``SLICE``, in the order of ``ended`` for each tile and track."""
    ranges: npt.NDArray[np.int64]
    """[row, k, 3]: first byte, bytes, 1 when written; DDR offsets with ``queues.DDR`` added. Zero beyond
    ``sources``."""
    fields: npt.NDArray[np.int64]
    """[row, field]: values of the instruction's operands, in the order of its record; zero beyond them. DDR
    addresses are offsets."""


class Sink(Protocol):
    """Receives slices while a program runs. It must not keep them all."""

    def take(self, batch: Batch) -> None:
        """Receive slices that have become final."""

    def close(self, ends: Sequence[int]) -> None:
        """The run is over; ``ends`` is the time in ticks at which each tile exited or was stopped."""


class Repeatable(Sink, Protocol):
    """A sink whose findings depend only on the slices, so that equal runs can share them."""

    def findings(self) -> Repeatable:
        """Return the findings of ``close``, separate from the sink; nobody changes them later."""

    def repeat(self, found: Repeatable) -> bool:
        """Take over the findings of an equal run's sink; False if it was a sink of another kind."""


class Later:
    """A finding about a run that is computed on demand, or before another run takes its place."""

    def __init__(self) -> None:
        self._find: Callable[[Any], None] | None = None
        self._lock = threading.RLock()

    def expect(self, find: Callable[[Any], None], lock: threading.RLock) -> None:
        """Set ``find``, which will be called with this object under ``lock``."""
        self._find, self._lock = find, lock

    def settle(self) -> None:
        """Compute the finding now, if that was not done."""
        with self._lock:
            find, self._find = self._find, None
            if find is not None:
                find(self)


class Waiting(Later):
    """A sink before another one, which keeps no batch; the other one receives the slices of a run at
    ``settle``."""

    def __init__(self, sink: Repeatable) -> None:
        super().__init__()
        self._sink = sink

    def take(self, batch: Batch) -> None:
        self._sink.take(batch)

    def close(self, ends: Sequence[int]) -> None:
        self._sink.close(ends)

    def findings(self) -> Repeatable:
        """Return the results of the sink."""
        return self._sink.findings()

    def repeat(self, found: Repeatable | None) -> bool:
        """Let the sink take over findings about an equal run; False if there are none of its kind."""
        return found is not None and self._sink.repeat(found)
