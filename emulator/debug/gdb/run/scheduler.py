"""Running a program under a debugger: the rounds of ``System``, which can be left at any instruction.

Tiles have the same quanta and copies are carried out at the same points as without a debugger, so a
program computes the same. Inside a round tiles run one after the other in the order of their numbers; a tile
that is stepped comes first. Tiles that the debugger holds are not run in a round.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from emulator.chip.pause import UNLIMITED
from emulator.chip.system import System
from emulator.debug.gdb.output import Output
from emulator.memory import state, stop
from emulator.tile.fault import Fault
from emulator.tile.tile import Status, Tile

from .history import Position, Schedule
from .steps import Steps
from .stops import Ended, Signal, Stop, fault_signal

_FREE = Position(UNLIMITED, 0, 0)
"""A position that is never reached: no bound."""


@dataclass(frozen=True)
class Action:
    """How a tile continues: freely, or by single steps while its pc is in ``first`` .. ``end`` - 1."""

    steps: bool = False
    first: int = 0
    end: int = 0


class DebugScheduler:
    """Runs the tiles in rounds. ``limit`` is the most instructions that a tile may execute."""

    def __init__(self, system: System, limit: int) -> None:
        self.system, self.limit = system, limit
        self.steps = Steps(system)
        self.output = Output(system)
        system.observers.append(self.steps.watches)
        self._quanta, system.quanta = system.quanta, {}
        """For each tile left in this round, the instruction at which its quantum ends."""
        self._last: Stop | None = None
        self._ran = bool(self._quanta)
        self._bound = _FREE
        """The position at which repetition ends."""
        self.milestone = UNLIMITED
        """Instructions of all tiles after which execution is interrupted."""
        self._most: dict[int, int] = {}
        """Instructions after which some tiles stop early, by tile."""
        for number, end in self._quanta.items():
            system.tiles[number].words[state.LIMIT] = end
        if not self._quanta:
            self._begin(range(len(system.tiles)))

    def resume(
        self, actions: Mapping[int, Action], interrupted: Callable[[], bool], look: Callable[[], None]
    ) -> Stop | Ended:
        """Continue until something happens. ``actions`` are those of the tiles that may run.

        ``look`` is called from time to time, while no tile runs.
        """
        found = self._seen_step(actions)
        while found is None:
            tile = self._next(actions)
            found = self._turn(actions) if tile is None else self._advance(tile, actions[tile.number])
            if found is None and interrupted():
                found = Stop(tile.number if tile else min(actions), Signal.INT)
            look()
        self.stopped(found)
        return found

    def stopped(self, found: Stop | Ended) -> None:
        """Show the program's output, and record the reason of the stop."""
        self.output.show()
        self._last = found if isinstance(found, Stop) else None

    @property
    def faulted(self) -> bool:
        """Return True if the last stop was at an instruction that cannot be executed."""
        return self._last is not None and self._last.fatal

    def _seen_step(self, actions: Mapping[int, Action]) -> Stop | Ended | None:
        """Return the end of a step that happened before it was asked for.

        GDB expects the chip to stop before a watched access, and steps over it before it reads the changed
        value (``gdbarch_have_nonsteppable_watchpoint``). An engine's access cannot be stepped over.
        """
        last, self._last = self._last, None
        if last is None or not last.watch:
            return None
        if not last.done:
            self.steps.passing[last.tile] = self.system.tiles[last.tile].retired
            return None
        action = actions.get(last.tile)
        return Stop(last.tile) if action is not None and action.steps else None

    def leave(self) -> None:
        """Hand the rest of the round to ``System.run``, which continues without a debugger."""
        self.system.observers.remove(self.steps.watches)
        for tile in self.system.tiles:
            self.steps.pass_break(tile)
            self.system.codes[tile.number].install(tile.words)
        self.output.show()
        self.system.quanta = dict(self._quanta)
        if not self._quanta:
            self.system.end_round()

    # -- repetition ------------------------------------------------------------------------------------

    def schedule(self) -> Schedule | None:
        """Return the state of the scheduler; None while a full log of simulated time prevents that."""
        if self.steps.full:
            return None
        limits = tuple(int(tile.words[state.LIMIT]) for tile in self.system.tiles)
        return Schedule(
            self.steps.rounds,
            self._ran,
            dict(self._quanta),
            limits,
            self.output.written(),
            self.steps.watches.origins(),
        )

    def set_schedule(self, schedule: Schedule) -> None:
        """Restore the scheduler; the system has been restored already."""
        self.steps.forget()
        self.steps.rounds, self._ran, self._quanta = schedule.rounds, schedule.ran, dict(schedule.quanta)
        for tile, limit in zip(self.system.tiles, schedule.limits, strict=True):
            tile.words[state.LIMIT] = limit
        self.steps.watches.set_origins(schedule.origins)
        self.output.go_back(schedule.written)
        self._last = None

    def repeat(
        self,
        actions: Mapping[int, Action],
        end: Position,
        most: Mapping[int, int],
        look: Callable[[Stop | None], bool],
    ) -> bool:
        """Repeat the history up to ``end``; return True if it ended earlier.

        It ends earlier when a tile has executed ``most`` instructions, or when ``look``, which is called
        after each part with the stop there, returns True.
        """
        self._bound, self._most = end, dict(most)
        last: Stop | None = None
        inside = False
        ended = self._is_done(most)
        while not ended and (here := self.steps.position()) < end:
            tile = self._next(actions)
            found: Stop | Ended | None
            over = tile is not None and last is not None and not last.watch and tile.number == last.tile
            if tile is None:
                found = self._turn(actions)
            elif here[:2] != end[:2]:
                found = self._attempt(tile, self.steps.one if over else self._go)
            elif not over and not inside and self.steps.is_marked(tile):
                found = Stop(tile.number)
            else:
                found, inside = self._attempt(tile, self.steps.inch), True
            last = found if isinstance(found, Stop) else None
            if last and last.fatal:
                break  # only the end of a history entry faults
            if last and last.watch and not last.done:
                self.steps.passing[last.tile] = self.system.tiles[last.tile].retired
            ended = look(last) or self._is_done(most)
        self._bound, self._most = _FREE, {}
        return ended

    def _is_done(self, most: Mapping[int, int]) -> bool:
        return any(self.system.tiles[number].retired >= count for number, count in most.items())

    # -- rounds ----------------------------------------------------------------------------------------

    def _begin(self, numbers: Iterable[int]) -> None:
        """In a new round, give a quantum to those of some tiles that can run."""
        for number in numbers:
            tile = self.system.tiles[number]
            if tile.status is Status.RUNNING:
                self._quanta[number] = tile.words[state.LIMIT] = self.system.quantum_end(tile, UNLIMITED)
                self._ran = True

    def _next(self, actions: Mapping[int, Action]) -> Tile | None:
        """Return the tile to run next; None when the round is over for the tiles that may run."""
        free = [n for n in sorted(self._quanta) if n in actions and n not in self.steps.full]
        stepped = [number for number in free if actions[number].steps]
        return self.system.tiles[(stepped or free)[0]] if free else None

    def _turn(self, actions: Mapping[int, Action]) -> Stop | Ended | None:
        """End a round and begin the next one."""
        if self.steps.full and self.system.simulator:
            self.steps.full.clear()
            self.system.simulator.advance()
            return None
        self.steps.before = self.steps.position()
        self.steps.rounds += 1
        ran, self._ran = self._ran, False
        moved = self.system.end_round()
        if all(tile.status is Status.EXITED for tile in self.system.tiles):
            return Ended()
        if not moved and not self.system.serve_time() and not ran:
            return self._stuck(actions)
        self._begin(actions)
        return self.steps.watches.copied()

    def _stuck(self, actions: Mapping[int, Action]) -> Stop:
        held = [t.number for t in self.system.tiles if t.number not in actions and t.status is Status.RUNNING]
        if held:
            text = f"the tiles that may go on wait for others, and tile {held[0]} is held by the debugger"
            return Stop(min(actions), Signal.NONE, f"{text}: set scheduler-locking off")
        waiting = [tile.number for tile in self.system.tiles if tile.status is not Status.EXITED]
        return Stop(waiting[0], Signal.ABRT, str(self.system.traffic.deadlock()), fatal=True)

    def _close(self, tile: Tile) -> None:
        """Remove a tile from the round when its quantum is used up, or given up by waiting for others."""
        if tile.number in self.steps.full:
            return
        used = tile.words[state.LIMIT] == 0 or tile.retired >= self._end(tile)
        if used or tile.status is not Status.RUNNING:
            del self._quanta[tile.number]
        if used and tile.status is Status.RUNNING:
            self.steps.reason = stop.LIMIT
            self.system.check_limit(tile, self.limit)

    def _end(self, tile: Tile) -> int:
        """Return the instruction count at which a tile's quantum ends, or the most it may execute."""
        return min(self._quanta[tile.number], self.limit)

    # -- one tile --------------------------------------------------------------------------------------

    def _advance(self, tile: Tile, action: Action) -> Stop | Ended | None:
        """Run a tile for a while, or one instruction of it."""
        found = self._attempt(tile, self.steps.one if action.steps else self._go)
        if found is None and action.steps and self._has_stepped(tile, action):
            return Stop(tile.number)
        return found

    def _attempt(self, tile: Tile, run: Callable[[Tile], Stop | None]) -> Stop | Ended | None:
        """Let a tile run; a fault is a stop too."""
        self._ran = True
        try:
            found = run(tile)
            self._close(tile)
        except Fault as fault:
            if tile.status is Status.EXITED:
                return Ended(tile.exit_code, fault.bare)
            return Stop(tile.number, fault_signal(self.steps.reason), str(fault), fatal=True)
        return found

    def _go(self, tile: Tile) -> Stop | None:
        limit = min(self._end(tile), self._most.get(tile.number, UNLIMITED))
        retired = sum(one.retired for one in self.system.tiles)
        if self._bound.rounds == self.steps.rounds:
            limit = min(limit, tile.retired + self._bound.retired - retired)
        if retired < self.milestone:
            limit = min(limit, tile.retired + self.milestone - retired)
        return self.steps.go(tile, limit)

    def _has_stepped(self, tile: Tile, action: Action) -> bool:
        inside = action.first <= tile.pc < action.end and tile.pc not in self.steps.marks.addresses
        return not inside and tile.status is not Status.EXITED
