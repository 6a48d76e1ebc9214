"""One tile: its scratchpad, registers and queues, and the words compiled code works on."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

import numpy as np

from tx8isa.machine import Machine
from tx8isa.record import Engine

from . import queues, state, tables
from .memory import Bytes, Scratchpad, make_scratchpad


class Status(Enum):
    """What a tile is doing between two rounds."""

    RUNNING = "running"
    SENDING = "waiting for its DTE copies"
    BARRIER = "waiting at a barrier"
    EXITED = "exited"


@dataclass(frozen=True)
class Send:
    """A DTE copy that was started and not carried out yet; DDR addresses are offsets from its byte 0."""

    source: int
    target: int
    tile: int
    size: int
    source_in_ddr: bool
    target_in_ddr: bool


@dataclass
class Tile:
    """A tile and what the scheduler knows about it."""

    number: int
    spm: Scratchpad
    words: np.ndarray
    queue: np.ndarray
    counts: np.ndarray
    """By record: executed, bytes read, bytes written, unused."""
    status: Status = Status.RUNNING
    sends: list[Send] = field(default_factory=list)
    group: int = 0
    """The tile set of the barrier it waits at."""
    exit_code: int = 0
    exceptions: int = 0
    """Exception register of the NCC: one 8-bit field per unit (spec)."""
    ncc: dict[int, int] = field(default_factory=dict)
    """Registers of the NCC window that were written, by offset."""
    csrs: dict[str, int] = field(default_factory=dict)
    """Control and status registers that were written; counters hold what is added to the instructions."""
    output: list[tuple[int, bytes]] = field(default_factory=list)
    """(file, data) of what it wrote and nobody has shown yet."""

    @property
    def pc(self) -> int:
        return int(self.words[state.PC])

    @pc.setter
    def pc(self, address: int) -> None:
        self.words[state.PC] = address

    @property
    def retired(self) -> int:
        return int(self.words[state.RETIRED])

    def register(self, number: int) -> int:
        """Value of an x register, signed."""
        return int(self.words[state.X + number])

    def set_register(self, number: int, value: int) -> None:
        if number:
            self.words[state.X + number] = value

    def advance(self, size: int) -> None:
        """Go past an instruction that was executed outside the compiled loop."""
        self.words[state.PC] += size
        self.words[state.RETIRED] += 1

    @property
    def detail(self) -> tuple[int, int, int, int]:
        """The four words that explain the last stop."""
        first, second, third, fourth = self.words[state.DETAIL : state.DETAIL + 4].tolist()
        return first, second, third, fourth

    def fields(self, count: int) -> list[int]:
        """Operand values of the instruction that was refused or is executed outside."""
        values: list[int] = self.queue[self._entry(queues.E_FIELDS) :][:count].tolist()
        return values

    def range_starts(self, count: int) -> list[int]:
        """First bytes of its ranges, DDR offsets with ``queues.DDR`` added."""
        ranges = self.queue[self._entry(queues.E_FIRST_RANGE) :][: count * queues.RANGE_WORDS]
        starts: list[int] = ranges[queues.R_FIRST :: queues.RANGE_WORDS].tolist()
        return starts

    def _entry(self, at: int) -> int:
        """Place of a word of the entry being built."""
        return queues.entry_at(int(self.queue[queues.NEXT])) + at

    @property
    def pending(self) -> int:
        """Instructions in the queues."""
        return int(self.queue[queues.PENDING])


def make_tile(number: int, machine: Machine, ddr: Bytes, serial: bool) -> Tile:
    """A tile in its reset state."""
    spm = make_scratchpad(machine)
    words = np.zeros(state.SIZE, dtype=np.int64)
    queue = np.zeros(queues.WORDS, dtype=np.int64)
    counts = np.zeros((len(tables.records()), 4), dtype=np.int64)
    windows = machine.windows
    words[state.TILE] = number
    words[state.SPM], words[state.SPM_BYTES] = spm.data.ctypes.data, spm.data.size
    words[state.DDR], words[state.DDR_BYTES] = ddr.ctypes.data, ddr.size
    words[state.LINES] = spm.lines.ctypes.data
    words[state.SERIAL_MODE] = int(serial)
    words[state.RANDOM] = number + 1  # any non-zero seed will do; the same in every run
    words[state.RECORDS] = tables.table().ctypes.data
    words[state.COUNTS], words[state.QUEUE] = counts.ctypes.data, queue.ctypes.data
    words[state.CORE_SPM], words[state.CORE_SPM_STRONG] = windows.spm_weak, windows.spm_strong
    words[state.CORE_DDR], words[state.CORE_DDR_UNCACHED] = windows.ddr_cached, windows.ddr_uncached
    words[state.CORE_WINDOW] = min(windows.ddr_core_bytes, ddr.size)
    words[state.ENGINE_DDR] = windows.ddr_engine
    for engine in (Engine.CT, Engine.NE, Engine.RDMA, Engine.WDMA, Engine.TDMA):
        words[state.DEPTH + engine] = getattr(machine.queues, engine.name.lower())
    # The stack grows down through the part of SPM that is kept for the core's runtime (proposed).
    words[state.X + 2] = windows.spm_weak + machine.spm.bytes
    return Tile(number, spm, words, queue, counts)
