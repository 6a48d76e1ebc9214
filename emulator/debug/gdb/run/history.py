"""What has happened to a program under the debugger, so that it can be put back and do it again.

A run is the same whenever it begins in the same state with the same tiles held and stepped. So the history is
a list of these choices and of what was changed by hand, with states of the whole chip here and there: fewer
of them the longer ago.
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
"""States that are kept."""
_MOST_BYTES = 1 << 29
"""Bytes of memories in them."""
_SPACING = 1.0
"""Seconds between two states."""
_SHARE = 30
"""Times as long between two states as saving one takes, at least: the run is 3 % slower."""
_NEAR, _NEAR_SHARE = 0.2, 3
"""The same while something is done again: the next step back begins near the place of this one."""


class Position(NamedTuple):
    """How far the chip has come since the debugger is there; later ones are greater."""

    rounds: int
    retired: int
    """Instructions of all tiles."""
    within: int
    """Inside an instruction: more when engine instructions are executed or a trap is taken."""


class HistoryPlace(NamedTuple):
    """A position, and the number of the entry of the history that it belongs to."""

    entry: int
    position: Position


@dataclass
class Continuation:
    """The program went on to ``end`` with some tiles; first in a round came those that were stepped."""

    tiles: tuple[int, ...]
    stepped: tuple[int, ...]
    end: Position


@dataclass(frozen=True)
class Change:
    """Something was changed by hand; ``apply`` changes it again."""

    apply: Callable[[], object]


@dataclass(frozen=True)
class Schedule:
    """The state of the scheduler and of what belongs to it."""

    rounds: int
    ran: bool
    quanta: dict[int, int]
    limits: tuple[int, ...]
    """By tile: ``state.LIMIT``, which says who has given up its quantum."""
    written: tuple[int, ...]
    origins: list[list[int | None]]


@dataclass(frozen=True)
class Keyframe:
    """A state of the chip, and where it belongs."""

    place: HistoryPlace
    retired: tuple[int, ...]
    """By tile."""
    schedule: Schedule
    snapshot: Snapshot
    pinned: bool
    """It stays: nothing that came before leads here when it is done again."""

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
        """By place; the first one is the beginning."""
        self._last = 0.0
        self._cost = 0.0

    @property
    def number(self) -> int:
        """Of the entry that belongs to what happens now."""
        open_ = bool(self.entries) and isinstance(self.entries[-1], Continuation)
        return len(self.entries) - open_

    def begin(self, tiles: tuple[int, ...], stepped: tuple[int, ...], at: Position) -> None:
        """The program goes on."""
        if self.keyframes:
            last = self.entries[-1] if self.entries else None
            if not isinstance(last, Continuation) or (last.tiles, last.stepped) != (tiles, stepped):
                self.entries.append(Continuation(tiles, stepped, at))

    def end(self, at: Position) -> None:
        """It has come to here."""
        if self.entries and isinstance(self.entries[-1], Continuation):
            self.entries[-1].end = at

    def changed(self, apply: Callable[[], object]) -> None:
        """Something was changed by hand."""
        if self.keyframes:
            self.entries.append(Change(apply))

    def cut(self, place: HistoryPlace) -> None:
        """Forget what came after a place where the program is again."""
        del self.entries[place.entry + 1 :]
        if len(self.entries) > place.entry and isinstance(self.entries[-1], Change):
            del self.entries[-1]
        self.end(place.position)
        self.keyframes = [one for one in self.keyframes if one.place <= place]

    # -- keyframes -------------------------------------------------------------------------------------

    def is_due(self, again: bool) -> bool:
        """Whether it is time for another keyframe; ``again``: what runs has happened before."""
        spacing, share = (_NEAR, _NEAR_SHARE) if again else (_SPACING, _SHARE)
        passed = time.perf_counter() - self._last
        return bool(self.keyframes) and passed > max(spacing, share * self._cost)

    def wait(self) -> None:
        """Count the time to the next keyframe from now."""
        self._last = time.perf_counter()

    def keep(self, place: HistoryPlace, schedule: Schedule, system: System, pinned: bool = False) -> None:
        """Keep the state that a system is in. A host where that is not possible has no history."""
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
        """Drop those whose neighbours are nearest, as seen from the last one."""
        while len(self.keyframes) > _MOST or sum(one.size for one in self.keyframes) > _MOST_BYTES:
            places = [one.place.position.retired for one in self.keyframes]
            free = [k for k in range(1, len(places) - 1) if not self.keyframes[k].pinned]
            if not free:
                return
            gaps = {k: (places[k + 1] - places[k - 1]) / (places[-1] - places[k - 1] + 1) for k in free}
            del self.keyframes[min(free, key=lambda k: gaps[k])]
