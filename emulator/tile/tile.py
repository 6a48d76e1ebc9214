"""One tile: its scratchpad, registers and queues, and the words that compiled code works on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

import numpy as np

from emulator.engines import queues, tables
from emulator.engines.packets import PLACE, PLACES, register_map
from emulator.memory import state
from emulator.memory.areas import Bytes, Scratchpad
from tx8isa.machine.description import Machine
from tx8isa.numbers.primitives import s64
from tx8isa.records.record import Engine
from tx8isa.table.packets import WRITE_BACK

from .moment import Moment

MASK_RESET = (1 << 48) - 1
"""Every exception is masked after a reset (spec)."""


class Status(Enum):
    """The status of a tile between two rounds."""

    RUNNING = "running"
    SENDING = "waiting for its DTE copies"
    BARRIER = "waiting at a barrier"
    TIMING = "waiting until simulated time has reached it"
    EXITED = "exited"


@dataclass(frozen=True)
class TileTotals:
    """A tile's totals after its run, for statistics; the tile's next run does not change them."""

    counts: np.ndarray
    """For each record: executed, bytes read, bytes written, unused."""
    retired: int
    status: Status


@dataclass
class Tile:
    """A tile, and its state for the scheduler."""

    number: int
    spm: Scratchpad
    words: np.ndarray
    queue: np.ndarray
    """The queues of the workers, one after another."""
    window: np.ndarray
    """The operand registers of the workers, one after another, and the map of ``packets``."""
    counts: np.ndarray
    """For each record: executed, bytes read, bytes written, unused."""
    status: Status = Status.RUNNING
    moment: Moment | None = None
    """Simulated time, while an instruction that reads it is executed; None without simulated time."""
    group: int = 0
    """The tile set of the barrier it waits at."""
    exit_code: int = 0
    pmu: dict[int, int] = field(default_factory=dict)
    """Registers of the PMU that were written, by offset."""
    csrs: dict[str, int] = field(default_factory=dict)
    """Control and status registers that were written; counters have the difference to the instructions."""
    output: list[tuple[int, bytes]] = field(default_factory=list)
    """(file, data) of output that is not shown yet."""

    @property
    def pc(self) -> int:
        return int(self.words[state.PC])

    @pc.setter
    def pc(self, address: int) -> None:
        self.words[state.PC] = address

    @property
    def retired(self) -> int:
        return int(self.words[state.RETIRED])

    def totals(self) -> TileTotals:
        """Return the tile's counts until now."""
        return TileTotals(self.counts.copy(), self.retired, self.status)

    def register(self, number: int) -> int:
        """Return the value of an x register, signed."""
        return int(self.words[state.X + number])

    def set_register(self, number: int, value: int) -> None:
        if number:
            self.words[state.X + number] = value

    def advance(self, size: int) -> None:
        """Count an instruction that was executed outside the compiled loop, and go to the next."""
        self.words[state.PC] += size
        self.words[state.RETIRED] += 1

    @property
    def detail(self) -> tuple[int, int, int, int]:
        """The four words that explain the last stop."""
        first, second, third, fourth = self.words[state.DETAIL : state.DETAIL + 4].tolist()
        return first, second, third, fourth

    def fields(self, count: int) -> list[int]:
        """Return operand values of the instruction that was refused or is executed by Python."""
        values: list[int] = self.queue[self._entry(queues.E_FIELDS) :][:count].tolist()
        return values

    def set_fields(self, values: Sequence[int]) -> None:
        """Put operand values into the entry being built."""
        at = self._entry(queues.E_FIELDS)
        self.queue[at : at + len(values)] = [s64(value) for value in values]

    def range_starts(self, count: int) -> list[int]:
        """Return the first byte of each range of the entry being built; for DDR plus ``queues.DDR``."""
        ranges = self.queue[self._entry(queues.E_FIRST_RANGE) :][: count * queues.RANGE_WORDS]
        starts: list[int] = ranges[queues.R_FIRST :: queues.RANGE_WORDS].tolist()
        return starts

    def _entry(self, at: int) -> int:
        """Return the position of a word of the entry being built, of the worker that issued last."""
        block = int(self.words[state.WORKER]) * queues.WORDS
        return block + queues.entry_at(int(self.queue[block + queues.NEXT])) + at

    @property
    def workers(self) -> int:
        return int(self.words[state.WORKERS])

    def block(self, worker: int) -> np.ndarray:
        """Return the queues of one worker; see ``queues``."""
        return self.queue[worker * queues.WORDS : (worker + 1) * queues.WORDS]

    def registers(self, worker: int) -> np.ndarray:
        """Return the operand registers of one worker; see ``packets``."""
        return self.window[worker * PLACES : (worker + 1) * PLACES]

    def pending(self) -> int:
        """Return the number of instructions in the queues of all workers."""
        return int(self.queue[queues.PENDING :: queues.WORDS].sum())


def row_sizes(machine: Machine) -> tuple[int, int, int, int]:
    """Return the words of a tile's state, registers, counts and queues, which follow in this order."""
    workers, counts = machine.tile.workers, 4 * len(tables.records())
    return state.ROOM, workers * PLACES + PLACES // 8, counts, workers * queues.WORDS


class TileArrays:
    """The arrays of one tile that compiled code works on: allocated once, reset for every run."""

    def __init__(
        self, number: int, machine: Machine, spm: Scratchpad, ddr: Bytes, marks: Bytes, row: np.ndarray
    ) -> None:
        """Allocate the arrays.

        ``marks``: one byte for each granule of ``ddr``, as in ``resetting.Area``. ``row``: zeros, as many as
        all ``row_sizes`` together.
        """
        workers, ends = machine.tile.workers, np.cumsum(row_sizes(machine))[:-1]
        self.words, self.window, counts, self.queue = np.split(row, ends)
        self.window[workers * PLACES :] = register_map().view(np.int64)
        self.counts = counts.reshape(-1, 4)
        self._set_memories(spm, ddr, marks)
        self._set_machine(number, machine)
        self._returned = self._connect_workers(workers)
        self._initial = self.words.copy(), self.window.copy()

    def _set_memories(self, spm: Scratchpad, ddr: Bytes, marks: Bytes) -> None:
        words = self.words
        words[state.SPM], words[state.SPM_BYTES] = spm.data.ctypes.data, spm.data.size
        words[state.DDR], words[state.DDR_BYTES] = ddr.ctypes.data, ddr.size
        words[state.LINES], words[state.DDR_MARKS] = spm.lines.ctypes.data, marks.ctypes.data
        self._records = tables.table()  # kept: two threads that begin at once make two
        words[state.RECORDS] = self._records.ctypes.data
        words[state.COUNTS] = self.counts.ctypes.data

    def _set_machine(self, number: int, machine: Machine) -> None:
        words, windows = self.words, machine.windows
        words[state.TILE], words[state.HART] = number, machine.hartid(0, number)
        words[state.RANDOM] = number + 1  # any non-zero seed will do; the same in every run
        words[state.CORE_SPM], words[state.CORE_SPM_STRONG] = windows.spm_weak, windows.spm_strong
        words[state.CORE_DDR], words[state.CORE_DDR_UNCACHED] = windows.ddr_cached, windows.ddr_uncached
        words[state.CORE_WINDOW] = min(windows.ddr_core_bytes, words[state.DDR_BYTES])
        words[state.ENGINE_DDR] = windows.ddr_engine
        words[state.NCC], words[state.NCC_STRIDE] = windows.ncc, windows.ncc_stride
        for engine in (Engine.CT, Engine.NE, Engine.RDMA, Engine.WDMA, Engine.TDMA):
            words[state.DEPTH + engine] = getattr(machine.queues, engine.name.lower())
        # The stack grows down through the part of SPM that is kept for the core's runtime (proposed).
        words[state.X + 2] = windows.spm_weak + machine.spm.bytes

    def _connect_workers(self, workers: int) -> list[int]:
        """Set the addresses of queues and registers; return the write-back registers' by worker."""
        words, registers = self.words, int(self.window.ctypes.data)
        words[state.WORKERS], words[state.QUEUE] = workers, self.queue.ctypes.data
        words[state.REGISTERS] = registers
        words[state.REGISTER_MAP] = registers + 8 * workers * PLACES
        first = WRITE_BACK[0].register // PLACE
        returned = [registers + 8 * (worker * PLACES + first) for worker in range(workers)]
        words[state.WRITE_BACK] = returned[0]
        return returned

    def reset(self, serial: bool) -> None:
        """Put everything into the reset state; ``serial`` as in ``RunOptions``."""
        self.words[:], self.window[:] = self._initial
        self.counts[:] = 0
        blocks = self.queue.reshape(-1, queues.WORDS)
        if blocks[:, queues.PENDING].any():
            blocks[:] = 0
        blocks[:, : queues.HEAD] = 0  # the words of executed entries do not matter
        blocks[:, queues.SERIAL], blocks[:, queues.MASK] = int(serial), MASK_RESET
        blocks[:, queues.RETURNED] = self._returned
