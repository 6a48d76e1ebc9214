"""Reverse execution: the chip is put into an earlier state, and repeats its execution up to a place.

All tiles go back together. The history after the place where they stop is forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from emulator.chip.pause import UNLIMITED
from emulator.chip.system import System
from emulator.debug.snapshot import chip
from emulator.tile.tile import Tile

from .history import Change, History, HistoryPlace, Keyframe
from .scheduler import Action, DebugScheduler
from .stops import Ended, Signal, Stop

_FEW = 1 << 13
"""Instructions that are searched quickly, even if many of them are watched."""


class ReverseExecution:
    """Runs a program forwards and backwards in its history."""

    def __init__(self, scheduler: DebugScheduler) -> None:
        self.scheduler, self.system, self.steps = scheduler, scheduler.system, scheduler.steps
        self.history = History(_refusal(scheduler.system))
        self._entry = 0
        """Number of the history entry that is being executed."""
        self._undone: int | None = None
        """The tile whose watched access was undone by the last command."""

    def resume(self, actions: Mapping[int, Action], interrupted: Callable[[], bool]) -> Stop | Ended:
        """Resume as ``DebugScheduler.resume`` does, and record it in the history."""
        self._undone = None
        if self.scheduler.faulted or not self.history.keyframes:
            self._entry = self.history.number
            self._keep(pinned=True)
        self.history.wait()
        stepped = tuple(number for number in sorted(actions) if actions[number].steps)
        self.history.begin(tuple(sorted(actions)), stepped, self.steps.position())
        found = self.scheduler.resume(actions, interrupted, self._look)
        self.history.end(self.steps.position())
        return found

    def changed(self, apply: Callable[[], object]) -> None:
        """Record that the user changed a register or memory; ``apply`` does so again."""
        self.history.changed(apply)
        self.scheduler.output.forget()

    def catch_up(self) -> Ended | None:
        """Continue until the program has repeated all shown output; return its end, if that comes first."""
        everyone = {tile.number: Action() for tile in self.system.tiles}
        self.steps.blind = True
        found: Stop | Ended | None = None
        while self.scheduler.output.behind and not isinstance(found, Ended):
            found = self.scheduler.resume(everyone, lambda: not self.scheduler.output.behind, lambda: None)
            if isinstance(found, Stop) and found.fatal:
                return None
        return found if isinstance(found, Ended) else None

    # -- back ------------------------------------------------------------------------------------------

    def step_back(self, tile: Tile) -> Stop:
        """Undo the last instruction of a tile, and everything that any tile did after it.

        If a watchpoint has interrupted an instruction, which was waiting, this goes back to its beginning.
        GDB steps back over a watched access before it reads the changed value; ``go_back`` has done so
        already.
        """
        undone, self._undone = self._undone, None
        if undone == tile.number:
            return Stop(tile.number)
        end, now = self._here(), tile.retired
        start = self._before(end)
        while start and start.retired[tile.number] >= now:
            start = self._before(start.place)
        if start is None:
            return self._oldest(tile)
        most = {tile.number: now if self.steps.is_inside(tile) else now - 1}
        self._put_back(start)
        self._repeat(start.place, end, most)
        return self._arrived(Stop(tile.number))

    def go_back(self, tile: Tile, interrupted: Callable[[], bool]) -> Stop:
        """Go back to the last breakpoint, or to before the last watched access; ``tile`` is the current one.

        An interrupt stops at the keyframe from which the search began.
        """
        self._undone = None
        end = self._here()
        while start := self._before(end):
            if end.position.retired - start.place.position.retired > _FEW:
                self._approach(start, end)
                start = self._before(end) or start
            self._put_back(start)
            found, stopped = self._search(start.place, end, interrupted)
            if found or stopped:
                self._put_back(start)
            if stopped:
                return self._arrived(Stop(tile.number, Signal.INT))
            if found:
                self._repeat(start.place, found[0], {})
                self._undone = found[1].tile if found[1].watch else None
                return self._arrived(found[1])
            end = start.place
        return self._oldest(tile)

    def _approach(self, start: Keyframe, end: HistoryPlace) -> None:
        """Keep keyframes ever nearer to a place: the searched event is often just before it."""
        goal, at = end.position.retired, start.place.position.retired

        def look(stop: Stop | None) -> bool:
            if self.scheduler.milestone <= sum(tile.retired for tile in self.system.tiles) < goal:
                self._keep()
                self.scheduler.milestone = (self.scheduler.milestone + goal) // 2
            return goal - self.scheduler.milestone < _FEW

        self._put_back(start)
        self.scheduler.milestone = (at + goal) // 2
        self.steps.blind = True
        self._do_again(start.place, end, {}, look)
        self.steps.blind = False
        self.scheduler.milestone = UNLIMITED

    def _search(
        self, start: HistoryPlace, end: HistoryPlace, interrupted: Callable[[], bool]
    ) -> tuple[tuple[HistoryPlace, Stop] | None, bool]:
        """Return the last stop between two places, with the place before it.

        And True if the user interrupted.
        """
        found: tuple[HistoryPlace, Stop] | None = None
        stopped = False

        def look(stop: Stop | None) -> bool:
            nonlocal found, stopped
            if stop and stop.signal is Signal.TRAP and not stop.fatal:
                place = HistoryPlace(self._entry, self.steps.before if stop.done else self.steps.position())
                if place < end:
                    found = place, stop
            stopped = interrupted()
            return stopped

        self._do_again(start, end, {}, look)
        return found, stopped

    def _repeat(self, start: HistoryPlace, end: HistoryPlace, most: Mapping[int, int]) -> None:
        """Execute the history between two places again.

        It ends earlier when a tile has executed ``most`` instructions.
        """

        def look(stop: Stop | None) -> bool:
            if self.history.is_due(again=True):
                self._keep()
            return False

        self.steps.blind = True
        self._do_again(start, end, most, look)
        self.steps.blind = False

    def _do_again(
        self,
        start: HistoryPlace,
        end: HistoryPlace,
        most: Mapping[int, int],
        look: Callable[[Stop | None], bool],
    ) -> None:
        self.history.wait()
        for number in range(start.entry, min(end.entry + 1, len(self.history.entries))):
            entry = self.history.entries[number]
            self._entry = number
            if isinstance(entry, Change):
                entry.apply()
                continue
            actions = {tile: Action(steps=tile in entry.stepped) for tile in entry.tiles}
            last = end.position if number == end.entry else entry.end
            ended = self.scheduler.repeat(actions, last, most, look)
            if ended and not (most and self.steps.position() == last):
                return  # changes by the user at ``end`` itself belong to it

    # -- keyframes -------------------------------------------------------------------------------------

    def _here(self) -> HistoryPlace:
        return HistoryPlace(self.history.number, self.steps.position())

    def _before(self, place: HistoryPlace) -> Keyframe | None:
        """Return the last keyframe before a place."""
        return next((one for one in reversed(self.history.keyframes) if one.place < place), None)

    def _look(self) -> None:
        if self.history.is_due(again=False):
            self._entry = self.history.number
            self._keep()

    def _keep(self, pinned: bool = False) -> None:
        """Keep the state of the chip as a keyframe, if that is possible."""
        schedule = None if self.history.refusal else self.scheduler.schedule()
        if schedule is not None:
            self.history.keep(HistoryPlace(self._entry, self.steps.position()), schedule, self.system, pinned)

    def _put_back(self, frame: Keyframe) -> None:
        """Put the chip into the state of a keyframe."""
        chip.put_back(self.system, frame.snapshot)
        self.system.quanta = {}
        self.scheduler.set_schedule(frame.schedule)
        self._entry = frame.place.entry

    def _arrived(self, stop: Stop) -> Stop:
        """Finish going back at the present place; forget everything after it."""
        self.history.cut(HistoryPlace(self._entry, self.steps.position()))
        text = f"before this: {stop.text}" if stop.text else ""
        self.scheduler.stopped(Stop(stop.tile, stop.signal))
        return replace(stop, text=text)

    def _oldest(self, tile: Tile) -> Stop:
        """Go back to the beginning of the history; without a history the chip stays where it is."""
        if not self.history.keyframes:
            return Stop(tile.number, text=self.history.refusal, oldest=True)
        self._put_back(self.history.keyframes[0])
        return replace(self._arrived(Stop(tile.number)), oldest=True)


def _refusal(system: System) -> str:
    """Return the reason why a run cannot go back, or an empty text."""
    if system.sanitizer is not None:
        return "--strict sees every access once: the program cannot go back"
    if system.simulator is not None and system.simulator.sinks:
        return "--stats, --trace and --report take simulated time as it comes: the program cannot go back"
    return ""
