"""The history of a program under the debugger, from which it can be put back and executed again.

Execution is the same whenever it begins in the same state with the same tiles held and stepped. So the
history is a list of these choices and of changes by the user, with keyframes: states of the whole chip, which
are sparser the older they are.
"""

from __future__ import annotations

import time
from bisect import insort
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from emulator.chip.system import System
from emulator.debug.snapshot import chip
from emulator.debug.snapshot.types import Snapshot
from emulator.memory.areas import HostMemoryError

_MOST = 32
"""The most keyframes that are kept."""
_MOST_BYTES = 1 << 29
"""The most bytes of memory in all keyframes."""
_SPACING = 1.0
"""Seconds between two keyframes."""
_SHARE = 30
"""Least time between two keyframes, in units of the time that saving one takes; it slows execution by 3 %."""
_NEAR, _NEAR_SHARE = 0.2, 3
"""These two limits while a part of the history is repeated, near which the next step back will begin."""


class Position(NamedTuple):
    """The progress of the chip since the debugger connected; later positions are greater."""

    rounds: int
    retired: int
    """Instructions of all tiles."""
    within: int
    """Progress inside an instruction: executed engine instructions, or a trap that was taken."""


class HistoryPlace(NamedTuple):
    """A position, and the number of its entry in the history."""

    entry: int
    position: Position


@dataclass
class Continuation:
    """The program continued to ``end`` with some tiles; in each round the stepped tiles ran first."""

    tiles: tuple[int, ...]
    stepped: tuple[int, ...]
    end: Position


@dataclass(frozen=True)
class Change:
    """The user changed a register or memory; ``apply`` does so again."""

    apply: Callable[[], object]


@dataclass(frozen=True)
class Schedule:
    """The state of the scheduler, its output and its watchpoints."""

    rounds: int
    ran: bool
    quanta: dict[int, int]
    limits: tuple[int, ...]
    """For each tile: ``state.LIMIT``, which is 0 for a tile that has given up its quantum."""
    written: tuple[int, ...]
    origins: list[list[int | None]]


@dataclass(frozen=True)
class Keyframe:
    """A state of the chip, and its place in the history."""

    place: HistoryPlace
    retired: tuple[int, ...]
    """Instructions retired, by tile."""
    schedule: Schedule
    snapshot: Snapshot
    pinned: bool
    """True for a keyframe that must be kept: repeating the history before it does not lead here."""

    @property
    def size(self) -> int:
        tiles = self.snapshot.tiles
        return len(self.snapshot.ddr.data) + sum(len(tile.spm.data) for tile in tiles)


class History:
    """The entries and keyframes. ``refusal`` says why there are none, or is empty."""

    def __init__(self, refusal: str) -> None:
        self.refusal = refusal
        self.entries: list[Continuation | Change] = []
        self.keyframes: list[Keyframe] = []
        """Keyframes, in the order of their places; the first one is the beginning."""
        self._last = 0.0
        self._cost = 0.0

    @property
    def number(self) -> int:
        """Number of the entry that is being recorded."""
        open_ = bool(self.entries) and isinstance(self.entries[-1], Continuation)
        return len(self.entries) - open_

    def begin(self, tiles: tuple[int, ...], stepped: tuple[int, ...], at: Position) -> None:
        """Record that the program continues."""
        if self.keyframes:
            last = self.entries[-1] if self.entries else None
            if not isinstance(last, Continuation) or (last.tiles, last.stepped) != (tiles, stepped):
                self.entries.append(Continuation(tiles, stepped, at))

    def end(self, at: Position) -> None:
        """Record how far the program has continued."""
        if self.entries and isinstance(self.entries[-1], Continuation):
            self.entries[-1].end = at

    def changed(self, apply: Callable[[], object]) -> None:
        """Record a change by the user."""
        if self.keyframes:
            self.entries.append(Change(apply))

    def cut(self, place: HistoryPlace) -> None:
        """Forget everything after a place to which the program was put back."""
        del self.entries[place.entry + 1 :]
        if len(self.entries) > place.entry and isinstance(self.entries[-1], Change):
            del self.entries[-1]
        self.end(place.position)
        self.keyframes = [one for one in self.keyframes if one.place <= place]

    # -- keyframes -------------------------------------------------------------------------------------

    def is_due(self, again: bool) -> bool:
        """Return True when it is time for another keyframe; ``again``: the program repeats its history."""
        spacing, share = (_NEAR, _NEAR_SHARE) if again else (_SPACING, _SHARE)
        passed = time.perf_counter() - self._last
        return bool(self.keyframes) and passed > max(spacing, share * self._cost)

    def wait(self) -> None:
        """Measure the time to the next keyframe from now."""
        self._last = time.perf_counter()

    def keep(self, place: HistoryPlace, schedule: Schedule, system: System, pinned: bool = False) -> None:
        """Keep the present state of a system. A host on which that is impossible has no history."""
        if any(one.place == place for one in self.keyframes):
            return
        start = time.perf_counter()
        earlier = self.keyframes[0].snapshot if self.keyframes else None
        system.quanta = schedule.quanta
        try:
            snapshot = chip.save(system, earlier)
        except HostMemoryError as error:
            self.refusal = str(error)
            return
        finally:
            system.quanta = {}
        retired = tuple(tile.retired for tile in system.tiles)
        frame = Keyframe(place, retired, schedule, snapshot, pinned)
        insort(self.keyframes, frame, key=lambda one: one.place)
        self._last = time.perf_counter()
        self._cost = self._last - start
        self._thin()

    def _thin(self) -> None:
        """Drop keyframes with the nearest neighbours, relative to their distance from the last one."""
        while len(self.keyframes) > _MOST or sum(one.size for one in self.keyframes) > _MOST_BYTES:
            places = [one.place.position.retired for one in self.keyframes]
            free = [k for k in range(1, len(places) - 1) if not self.keyframes[k].pinned]
            if not free:
                return
            gaps = {k: (places[k + 1] - places[k - 1]) / (places[-1] - places[k - 1] + 1) for k in free}
            del self.keyframes[min(free, key=lambda k: gaps[k])]
