"""The performance counters of the NCC (docs/isa.md, Performance counters).

Busy and blocked times are simulated time in whole cycles; without simulated time only instructions are
counted.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from emulator.engines import queues
from emulator.memory import state
from tx8isa.cost.instructions import TICKS
from tx8isa.machine.description import Machine
from tx8isa.records.record import Engine

from .tile import Tile

ENABLE, CLEAR, WINDOW = 0x000, 0x004, 0x008
EXECUTED = 0x010
"""Instructions executed by unit, then the blocked times; a worker has ``_PER_WORKER`` bytes of both."""
UNITS = (Engine.CT, Engine.NE, Engine.RDMA, Engine.WDMA, Engine.TDMA, Engine.SCALAR)
_PER_WORKER = 0x30
_BUSY = range(0x13C, 0x174, 4)
"""Busy times: of any unit and of each one, 64 bits each."""
_BUSY_UNITS = (6, 0, 1, 2, 3, 4, 5)
"""Positions of these units in ``Moment.busy``."""
FIRST_WORKER = 0x1F8
EXCEPTIONS = 0x1FC
"""Eight words for each worker: raw status, status, mask, command id, low half first (order proposed)."""
_EXCEPTION_WORDS = 8
STOP = 0x284
COMPUTE_TIMEOUT, LSU_TIMEOUT = 0x288, 0x28C
UNIT_ENABLES = {Engine.RDMA: 0x298, Engine.WDMA: 0x29C, Engine.TDMA: 0x2A0}
"""0: exceptions of the unit are not recorded (their effect is proposed)."""
LSU_TIMEOUT_RESET = 0xFFFF
_RESET = {
    ENABLE: 0,
    WINDOW: 0,
    STOP: 0,
    COMPUTE_TIMEOUT: 0xFFFFFFFF,
    LSU_TIMEOUT: LSU_TIMEOUT_RESET,
    **dict.fromkeys(UNIT_ENABLES.values(), 1),
}
"""Registers that keep stored values; the time-outs are the spec's, the others proposed."""
_WRITABLE = {LSU_TIMEOUT: 0xFFFF, ENABLE: 1, STOP: 1, **dict.fromkeys(UNIT_ENABLES.values(), 1)}


def notes_exceptions(tile: Tile, engine: Engine) -> bool:
    """Return True if exceptions of a unit reach the registers."""
    register = UNIT_ENABLES.get(engine)
    return register is None or tile.pmu.get(register, _RESET[register]) == 1


Counts = npt.NDArray[np.int64]
"""All counts of a tile: instructions executed [worker, unit], blocked ticks [worker, unit], busy ticks.

The busy ticks are as in ``Moment.busy``.
"""


@dataclass
class _Counters:
    """Counts of one tile until counting was switched off, and the totals when it was switched on."""

    counted: Counts
    begun: Counts


class NccPmu:
    """The device; its registers are 32 bits wide. Counters count while ``ENABLE`` is 1 (proposed)."""

    def __init__(self, machine: Machine, tiles: int) -> None:
        self.base, self.size = machine.windows.pmu, machine.windows.pmu_bytes
        none = np.zeros(2 * machine.tile.workers * len(UNITS) + len(_NO_TIME), np.int64)
        self._counters = [_Counters(none, none) for _ in range(tiles)]

    def counters(self, tile: Tile) -> _Counters:
        """Return the counters of a tile."""
        return self._counters[tile.number]

    def load(self, tile: Tile, offset: int, size: int) -> int | None:
        """Return a register, or None if there is none, or one of another size."""
        if size != 4 or offset % 4:
            return None
        if offset in _RESET:
            return tile.pmu.get(offset, _RESET[offset])
        if offset == FIRST_WORKER:
            return int(tile.words[state.FIRST_EXCEPTION])
        workers = tile.workers
        if EXECUTED <= offset < EXECUTED + workers * _PER_WORKER:
            worker, place = divmod((offset - EXECUTED) // 4, _PER_WORKER // 4)
            what, unit = divmod(place, len(UNITS))
            count = int(self._counts(tile)[(what * workers + worker) * len(UNITS) + unit])
            return (count // TICKS if what else count) & 0xFFFFFFFF
        if EXCEPTIONS <= offset < EXCEPTIONS + 4 * _EXCEPTION_WORDS * workers:
            worker, place = divmod((offset - EXCEPTIONS) // 4, _EXCEPTION_WORDS)
            return _exception_word(tile, worker, place)
        if offset not in _BUSY:
            return None
        place, high = divmod((offset - _BUSY.start) // 4, 2)
        cycles = int(self._counts(tile)[2 * workers * len(UNITS) + _BUSY_UNITS[place]]) // TICKS
        return cycles >> 32 * high & 0xFFFFFFFF

    def needs_time(self, tile: Tile, offset: int, store: bool) -> bool:
        """Return True if an access needs the tile's ``moment``: counters of time, or their beginning."""
        if store:
            return offset in (ENABLE, CLEAR)
        worker, place = divmod(offset - EXECUTED, _PER_WORKER)
        return offset in _BUSY or (0 <= worker < tile.workers and place >= 4 * len(UNITS))

    def store(self, tile: Tile, offset: int, size: int, value: int) -> bool:
        """Write a register; False where that cannot be done."""
        if size != 4 or offset % 4 or not (offset in _RESET or offset == CLEAR):
            return False
        value &= _WRITABLE.get(offset, 0xFFFFFFFF)
        counters, now = self._counters[tile.number], _totals(tile)
        if offset == CLEAR:
            counters.counted, counters.begun = np.zeros_like(now), now
            return True
        if offset == ENABLE:
            counters.counted, counters.begun = self._counts(tile), now
        tile.pmu[offset] = value
        tile.words[state.LSU_TIMEOUT] = tile.pmu.get(LSU_TIMEOUT, _RESET[LSU_TIMEOUT])
        tile.words[state.STOP_ON_EXCEPTION] = tile.pmu.get(STOP, _RESET[STOP])
        return True

    def _counts(self, tile: Tile) -> Counts:
        counters = self._counters[tile.number]
        if tile.pmu.get(ENABLE, _RESET[ENABLE]) == 0:
            return counters.counted
        return counters.counted + _totals(tile) - counters.begun


_NO_TIME = np.zeros(7, np.int64)
"""``Moment.busy`` without simulated time."""


def _totals(tile: Tile) -> Counts:
    """Return a tile's counts since the reset."""
    first, moment = queues.EXECUTED, tile.moment
    executed = [tile.block(worker)[first : first + len(UNITS)] for worker in range(tile.workers)]
    blocked = moment.blocked.ravel() if moment else np.zeros(tile.workers * len(UNITS), np.int64)
    return np.concatenate([*executed, blocked, moment.busy if moment else _NO_TIME])


def _exception_word(tile: Tile, worker: int, place: int) -> int:
    block = tile.block(worker)
    raw, mask = int(block[queues.EXCEPTION]), int(block[queues.MASK]) & (1 << queues.KEEP_LAST) - 1
    value = (raw, raw & ~mask, mask, int(block[queues.CULPRIT]))[place // 2]
    return value >> 32 * (place % 2) & 0xFFFFFFFF
