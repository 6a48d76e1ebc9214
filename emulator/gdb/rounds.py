"""Running a program under a debugger: the rounds of ``System``, which can be left at any instruction.

Tiles have the same time slices and copies are carried out at the same points as without a debugger, so a
program computes the same. Inside a round tiles run one after the other in the order of their numbers; a tile
that is stepped comes first. Tiles that the debugger holds have no part in a round.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from .. import predecode, queues, state, stop, tables, trap
from ..fault import Fault, place
from ..memory import scratch_memory
from ..pause import UNLIMITED
from ..system import System
from ..tile import Status, Tile
from ..window import Refused
from .marks import Marks
from .stops import Ended, Signal, Stop, fault_signal
from .watch import Watches

_FIRST, _MOST = 1 << 8, 1 << 20
"""Instructions between two looks at whether the user wants to stop, at first and at most."""
_SHORT, _LONG = 0.005, 0.02
"""Seconds that should pass between them."""
_SCALAR_BYTES = 4


@dataclass(frozen=True)
class Action:
    """How a tile goes on: freely, or by instructions, as long as it is at ``first`` .. ``end`` - 1."""

    steps: bool = False
    first: int = 0
    end: int = 0


class Rounds:
    """The scheduler. ``limit`` is the number of instructions a tile may execute."""

    def __init__(self, system: System, limit: int) -> None:
        self.system, self.limit = system, limit
        self.marks = Marks()
        self.watches = Watches(system, self.marks)
        system.observers.append(self.watches)
        self._scratch = scratch_memory()
        for tile in system.tiles:
            tile.words[state.SCRATCH] = self._scratch.ctypes.data
            tile.words[state.SCRATCH_BYTES] = self._scratch.size
        self._chunk = _FIRST
        self._reason = stop.LIMIT
        self._breaks: dict[int, int] = {}
        """By tile: the ebreak it has stopped at, which is not executed again."""
        self._last: Stop | None = None
        self._passing: dict[int, int] = {}
        """By tile: instructions executed when it stopped before a watched access, which it makes next."""
        self._slices, system.slices = system.slices, {}
        """By tile that has a part in this round still: where its slice ends."""
        self._full: set[int] = set()
        """Tiles whose log of simulated time is full, as ``System._run_slices`` treats them."""
        self._ran = bool(self._slices)
        if not self._slices:
            self._begin(range(len(system.tiles)))

    def resume(self, actions: Mapping[int, Action], interrupted: Callable[[], bool]) -> Stop | Ended:
        """Go on until something happens. ``actions`` are those of the tiles that may run."""
        found = self._seen_step(actions)
        while found is None:
            tile = self._next(actions)
            found = self._turn(actions) if tile is None else self._advance(tile, actions[tile.number])
            if found is None and interrupted():
                found = Stop(tile.number if tile else min(actions), Signal.INT)
        self.system.show_output()
        self._last = found if isinstance(found, Stop) else None
        return found

    def _seen_step(self, actions: Mapping[int, Action]) -> Stop | Ended | None:
        """The end of a step that has happened before it was asked for.

        GDB expects the chip to stop before a watched access, and steps over it before it looks what changed
        (``gdbarch_have_nonsteppable_watchpoint``). An engine's access cannot be stepped over.
        """
        last, self._last = self._last, None
        if last is None or not last.watch:
            return None
        if not last.done:
            self._passing[last.tile] = self.system.tiles[last.tile].retired
            return None
        action = actions.get(last.tile)
        return Stop(last.tile) if action is not None and action.steps else None

    def leave(self) -> None:
        """Hand the rest of the round over to ``System.run``, which goes on from here without a debugger."""
        self.system.observers.remove(self.watches)
        for tile in self.system.tiles:
            self._pass_break(tile)
            self.system.codes[tile.number].install(tile.words)
        self.system.show_output()
        self.system.slices = dict(self._slices)
        if not self._slices:
            self.system.end_round()

    # -- rounds ----------------------------------------------------------------------------------------

    def _begin(self, numbers: Iterable[int]) -> None:
        """Give the running ones of some tiles a slice in a new round."""
        for number in numbers:
            tile = self.system.tiles[number]
            if tile.status is Status.RUNNING:
                self._slices[number] = self.system.slice_end(tile, UNLIMITED)
                self._ran = True

    def _next(self, actions: Mapping[int, Action]) -> Tile | None:
        """The tile whose turn it is; None when the round is over for those that may run."""
        free = [n for n in sorted(self._slices) if n in actions and n not in self._full]
        stepped = [number for number in free if actions[number].steps]
        return self.system.tiles[(stepped or free)[0]] if free else None

    def _turn(self, actions: Mapping[int, Action]) -> Stop | Ended | None:
        """End a round and begin the next one."""
        if self._full and self.system.simulator:
            self._full.clear()
            self.system.simulator.advance()
            return None
        ran, self._ran = self._ran, False
        moved = self.system.end_round()
        if all(tile.status is Status.EXITED for tile in self.system.tiles):
            return Ended()
        if not moved and not self.system.serve_time() and not ran:
            return self._stuck(actions)
        self._begin(actions)
        return self.watches.copied()

    def _stuck(self, actions: Mapping[int, Action]) -> Stop:
        held = [t.number for t in self.system.tiles if t.number not in actions and t.status is Status.RUNNING]
        if held:
            text = f"the tiles that may go on wait for others, and tile {held[0]} is held by the debugger"
            return Stop(min(actions), Signal.NONE, f"{text}: set scheduler-locking off")
        waiting = [tile.number for tile in self.system.tiles if tile.status is not Status.EXITED]
        return Stop(waiting[0], Signal.ABRT, str(self.system.traffic.deadlock()), fatal=True)

    def _close(self, tile: Tile) -> None:
        """Take a tile out of the round where its slice ends: used up, or given up by waiting for others."""
        if tile.number in self._full:
            return
        used = tile.words[state.LIMIT] == 0 or tile.retired >= self._end(tile)
        if used or tile.status is not Status.RUNNING:
            del self._slices[tile.number]
        if used and tile.status is Status.RUNNING:
            self._reason = stop.LIMIT
            self.system.check_limit(tile, self.limit)

    def _end(self, tile: Tile) -> int:
        """Instructions after which a tile's slice ends, or all it may execute."""
        return min(self._slices[tile.number], self.limit)

    # -- one tile --------------------------------------------------------------------------------------

    def _advance(self, tile: Tile, action: Action) -> Stop | Ended | None:
        """Run a tile for a while, or one instruction of it."""
        self._ran = True
        try:
            found = self._one(tile) if action.steps else self._go(tile)
            self._close(tile)
        except Fault as fault:
            if tile.status is Status.EXITED:
                return Ended(tile.exit_code, str(fault))
            return Stop(tile.number, fault_signal(self._reason), str(fault), fatal=True)
        if found is None and action.steps and self._has_stepped(tile, action):
            return Stop(tile.number)
        return found

    def _has_stepped(self, tile: Tile, action: Action) -> bool:
        inside = action.first <= tile.pc < action.end and tile.pc not in self.marks.addresses
        return not inside and tile.status is not Status.EXITED

    def _go(self, tile: Tile) -> Stop | None:
        """Run a tile to a breakpoint, to something only Python can do, or for the time between two looks."""
        self._pass_break(tile)
        code = self.system.codes[tile.number]
        words = self.marks.words(code)
        tile.words[state.CODE] = words.ctypes.data
        limit = min(self._end(tile), tile.retired + self._chunk)
        reason = self._enter(tile, limit, words)
        if reason in (stop.LIMIT, stop.LOG_FULL):
            return None
        if reason == stop.ILLEGAL:
            if tile.pc in self.marks.addresses:
                return Stop(tile.number)
            at = tile.pc - code.base >> 2
            if 0 <= at < code.words.size and int(code.words[at]) & 0xFF != predecode.NOTHING:
                return self._one(tile)
        return self._serve(tile, reason)

    def _one(self, tile: Tile) -> Stop | None:
        """Execute the instruction at a tile's program counter, whatever marks it has."""
        if self._pass_break(tile):
            return None
        found = self._drained(tile)
        if found is not None:
            return found
        access = self.watches.core_access(tile)
        if access is not None and self._passing.get(tile.number) != tile.retired:
            return access
        before = self.watches.pending(tile)
        tile.words[state.CODE] = tile.words[state.PLAIN]
        reason = stop.KERNEL
        while reason == stop.KERNEL:
            reason = self._enter(tile, tile.retired + 1)
            if reason not in (stop.LIMIT, stop.LOG_FULL, stop.KERNEL):
                return self._serve(tile, reason)
            if reason == stop.KERNEL:
                self.system.serve(tile, reason)
        return self.watches.executed(tile, before)

    def _drained(self, tile: Tile) -> Stop | None:
        """At a wait: execute what it waits for, up to an instruction that touches something watched."""
        code = self.system.codes[tile.number]
        at = tile.pc - code.base >> 2
        if not self.watches.pending(tile) or not 0 <= at < code.words.size:
            return None
        word = int(code.words[at])
        record, worker = word >> 32 & (1 << tables.WORKER_SHIFT) - 1, word >> 32 + tables.WORKER_SHIFT
        waits = word & 0xFF == predecode.ENGINE and record == tables.numbers()["ncc.wait"]
        if not waits or worker >= tile.workers:
            return None
        while tile.block(worker)[queues.PENDING]:
            before = self.watches.pending(tile)
            try:
                self.system.engines.step(tile, worker)
            except Refused as refused:
                self._reason = refused.reason
                self.system.serve(tile, refused.reason)
            found = self.watches.executed(tile, before)
            if found is not None:
                return found
        return None

    def _serve(self, tile: Tile, reason: int) -> Stop | None:
        """Do what the compiled loop came back for."""
        if reason == stop.SYSTEM and not trap.has_handler(tile):
            record, _ = self.system.codes[tile.number].scalar(tile.pc)
            if record.mnemonic == "ebreak":
                self._breaks[tile.number] = tile.pc
                return Stop(tile.number, text=f"{place(self.system.image, tile, tile.pc)}: ebreak")
        before = self.watches.pending(tile)
        self.system.serve(tile, reason)
        return self.watches.executed(tile, before)

    def _pass_break(self, tile: Tile) -> bool:
        """Go past the ebreak that a tile has stopped at; False when it is somewhere else."""
        passed = self._breaks.pop(tile.number, None) == tile.pc
        if passed:
            tile.advance(_SCALAR_BYTES)
        return passed

    def _enter(self, tile: Tile, limit: int, armed: predecode.Words | None = None) -> int:
        """Run a tile up to a number of instructions; the distance of looks follows the time that took.

        ``armed``: its words with marks, which may be run over where they are of no interest.
        """
        tile.words[state.LIMIT] = limit
        start = time.perf_counter()
        skip = self.watches.skip
        if skip is None or armed is None:
            self._reason = self.system.enter(tile)
        else:
            self._reason = skip.enter(tile, armed)
        taken = time.perf_counter() - start
        if self._reason == stop.LOG_FULL:
            self._full.add(tile.number)
            tile.words[state.LIMIT] = limit
        if taken > _LONG:
            self._chunk = max(self._chunk // 2, 1)
        elif taken < _SHORT and self._reason == stop.LIMIT:
            self._chunk = min(2 * self._chunk, _MOST)
        return self._reason
