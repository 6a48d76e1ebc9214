"""Running one tile under a debugger: to a breakpoint, or by one instruction."""

from __future__ import annotations

import time
from collections.abc import Callable

from emulator.chip.pause import Marks
from emulator.chip.system import System
from emulator.core import predecode
from emulator.engines import queues, tables
from emulator.engines.packets import Refused
from emulator.memory import state, stop
from emulator.memory.areas import scratch_memory
from emulator.tile import trap
from emulator.tile.fault import place
from emulator.tile.tile import Tile

from .history import Position
from .stops import Stop
from .watchpoints import Watches

_FIRST, _MOST = 1 << 8, 1 << 20
"""Instructions between two checks for an interrupt by the user, at first and at most."""
_SHORT, _LONG = 0.005, 0.02
"""Seconds that should pass between them."""


class Steps:
    """The tiles of a system, run one at a time, with breakpoints and watchpoints."""

    def __init__(self, system: System) -> None:
        self.system = system
        self.marks = Marks()
        self.watches = Watches(system, self.marks)
        self._scratch = scratch_memory()
        for tile in system.tiles:
            tile.words[state.SCRATCH] = self._scratch.ctypes.data
            tile.words[state.SCRATCH_BYTES] = self._scratch.size
        self.blind = False
        """True during repetition, when breakpoints and watchpoints are ignored."""
        self.reason = stop.LIMIT
        """The reason why the compiled loop returned last."""
        self.rounds = 0
        """Rounds that have ended."""
        self.full: set[int] = set()
        """Tiles whose log of simulated time is full, as ``System._run_quanta`` treats them."""
        self.inside: dict[int, int] = {}
        """For each tile that has stopped inside a wait: its number of executed instructions."""
        self.before = Position(0, 0, 0)
        """Position of the chip before the access of the last ``Stop.done``."""
        self.passing: dict[int, int] = {}
        """For each tile that stopped before a watched access: its number of executed instructions then."""
        self.chunk = _FIRST
        self._breaks: dict[int, int] = {}
        """For each tile: address of the ebreak it has stopped at, which is not executed again."""

    def position(self) -> Position:
        """Return the chip's position."""
        tiles = self.system.tiles
        trapped = sum(int(tile.words[state.TRAPPED]) == tile.retired + 1 for tile in tiles)
        pending = sum(tile.pending() for tile in tiles)
        return Position(self.rounds, sum(tile.retired for tile in tiles), trapped - pending)

    def is_marked(self, tile: Tile) -> bool:
        """Return True if a tile is at a breakpoint that counts."""
        return not self.blind and tile.pc in self.marks.addresses

    def is_inside(self, tile: Tile) -> bool:
        """Return True if a tile has stopped inside an instruction, or in a trap before its handler."""
        trapped = int(tile.words[state.TRAPPED]) == tile.retired + 1
        return trapped or self.inside.get(tile.number) == tile.retired

    def forget(self) -> None:
        """Forget how the chip came to its position, because it was put somewhere else."""
        for known in (self.full, self._breaks, self.passing, self.inside):
            known.clear()
        self.marks.forget()

    def go(self, tile: Tile, limit: int) -> Stop | None:
        """Run a tile to a breakpoint, to a need of Python, or for the time between two checks.

        ``limit``: instructions after which it stops in any case.
        """
        self.pass_break(tile)
        code = self.system.codes[tile.number]
        armed = code if self.blind else self.marks.marked(code)
        tile.words[state.CODE] = armed.words.ctypes.data
        reason = self._enter(tile, min(limit, tile.retired + self.chunk), armed.words)
        if reason in (stop.LIMIT, stop.LOG_FULL):
            return None
        if reason == stop.ILLEGAL and not self.blind:
            if self.is_marked(tile):
                return Stop(tile.number)
            at = code.index(tile.pc)
            if at is not None and int(code.words[at]) & 0xFF != predecode.NOTHING:
                return self.one(tile)
        return self._serve(tile, reason)

    def one(self, tile: Tile) -> Stop | None:
        """Execute the instruction at a tile's program counter, even if it is marked."""
        if self.pass_break(tile):
            return None
        found = self._drained(tile)
        if found is not None:
            return found
        access = self.watches.core_access(tile)
        if access is not None and self.passing.get(tile.number) != tile.retired:
            return access
        return self._watched(tile, lambda: self._step(tile))

    def _step(self, tile: Tile) -> Stop | None:
        tile.words[state.CODE] = tile.words[state.PLAIN]
        reason = stop.KERNEL
        while reason == stop.KERNEL:
            reason = self._enter(tile, tile.retired + 1)
            if reason not in (stop.LIMIT, stop.LOG_FULL, stop.KERNEL):
                return self._serve(tile, reason)
            if reason == stop.KERNEL:
                self.system.serve(tile, reason)
        return None

    def inch(self, tile: Tile) -> Stop | None:
        """Make one step inside the instruction at a tile's program counter.

        The step is an engine instruction that a wait waits for, or the trap of an instruction that cannot be
        executed.
        """
        worker = self._waits_for(tile)
        if worker is not None and tile.block(worker)[queues.PENDING]:
            self.inside[tile.number] = tile.retired
            return self._watched(tile, lambda: self._step_engine(tile, worker))
        return self._step(tile)

    def pass_break(self, tile: Tile) -> bool:
        """Go past the ebreak at which a tile has stopped; False if the tile is elsewhere."""
        passed = self._breaks.pop(tile.number, None) == tile.pc
        if passed:
            tile.advance(self.system.codes[tile.number].size(tile.pc))
        return passed

    # -- watchpoints -----------------------------------------------------------------------------------

    def _watched(self, tile: Tile, step: Callable[[], Stop | None]) -> Stop | None:
        """Make a step of a tile; return the stop after it when an engine has touched watched bytes."""
        watched = [] if self.blind else self.watches.pending(tile)
        if not watched:
            return step()
        before = self.position()
        found = step() or self.watches.executed(tile, watched)
        if found is not None and found.done:
            self.before = before
        return found

    def _waits_for(self, tile: Tile) -> int | None:
        """Return the worker for whose instructions a tile is about to wait; None if it does not wait."""
        code = self.system.codes[tile.number]
        at = code.index(tile.pc)
        if at is None:
            return None
        word = int(code.words[at])
        record, worker = word >> 32 & (1 << tables.WORKER_SHIFT) - 1, word >> 32 + tables.WORKER_SHIFT
        waits = word & 0xFF == predecode.ENGINE and record == tables.numbers()["ncc.wait"]
        return worker if waits and worker < tile.workers else None

    def _drained(self, tile: Tile) -> Stop | None:
        """At a wait: execute the awaited instructions, up to one that touches watched bytes."""
        worker = self._waits_for(tile)
        if worker is None or not self.watches.pending(tile):
            return None
        while tile.block(worker)[queues.PENDING]:
            found = self._watched(tile, lambda: self._step_engine(tile, worker))
            if found is not None:
                self.inside[tile.number] = tile.retired
                return found
        return None

    def _step_engine(self, tile: Tile, worker: int) -> None:
        try:
            self.system.engines.step(tile, worker)
        except Refused as refused:
            self.reason = refused.reason
            self.system.serve(tile, refused.reason)

    # -- the compiled loop -----------------------------------------------------------------------------

    def _serve(self, tile: Tile, reason: int) -> Stop | None:
        """Handle the reason why the compiled loop returned."""
        if reason == stop.SYSTEM and not trap.has_handler(tile):
            record, _ = self.system.codes[tile.number].scalar(tile.pc)
            if record.mnemonic == "ebreak":
                self._breaks[tile.number] = tile.pc
                return Stop(tile.number, text=f"{place(self.system.image, tile, tile.pc)}: ebreak")
        return self._watched(tile, lambda: self.system.serve(tile, reason))

    def _enter(self, tile: Tile, limit: int, armed: predecode.Words | None = None) -> int:
        """Run a tile up to a number of instructions, and adapt the distance of checks to the time that took.

        ``armed`` has the words with marks; marks at accesses of unwatched bytes are passed over.
        """
        tile.words[state.LIMIT] = limit
        start = time.perf_counter()
        skip = self.watches.skip
        if skip is None or armed is None or self.blind:
            self.reason = self.system.enter(tile)
        else:
            self.reason = skip.enter(tile, armed)
        taken = time.perf_counter() - start
        if self.reason == stop.LOG_FULL:
            self.full.add(tile.number)
            tile.words[state.LIMIT] = limit
        if taken > _LONG:
            self.chunk = max(self.chunk // 2, 1)
        elif taken < _SHORT and self.reason == stop.LIMIT:
            self.chunk = min(2 * self.chunk, _MOST)
        return self.reason
