"""Arrows of a trace: from an instruction to the one that it delayed, and along copies between tiles.

An arrow is two events with one number, each within its slice. Both slices of a dependency arrive shortly
after one another. So the latest instructions of each tile are remembered, and an arrow whose origin has not
arrived yet waits for some time.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from emulator.timing.slices import TICKS, Batch, Track
from emulator.watch.bins import Ints

from .file import SEPARATOR

REMEMBERED = 4096
"""Instructions that are remembered for a tile; also the most waiting arrows of the chip."""
_NONE = -1
_NUMBER, _THREAD, _STARTED, _ENDED = range(4)


class Ends(NamedTuple):
    """Slices that arrows lead to: their thread and time, and the number of the instruction at the origin."""

    tile: Ints
    blocker: Ints
    is_core: Ints
    thread: Ints
    started: Ints
    ended: Ints


class Arrows:
    """Makes the arrows; ``lost`` counts arrows whose origin is no longer remembered or never arrived."""

    def __init__(self, tiles: int, microseconds: float) -> None:
        self._microseconds = microseconds
        self._recent: Ints = np.full((tiles, REMEMBERED, 4), _NONE, dtype=np.int64)
        self._waiting = Ends(*(np.zeros(0, dtype=np.int64) for _ in Ends._fields))
        self._next = 0
        self.lost = 0

    def dependencies(self, batch: Batch, threads: Ints) -> list[str]:
        """Return the arrows between slices of one tile, each with both its events."""
        slices = batch.slices
        engines = np.flatnonzero(slices["track"] != Track.CORE)
        tiles, numbers = slices["tile"][engines], slices["number"][engines]
        self._recent[tiles, numbers % REMEMBERED] = np.stack(
            (numbers, threads[engines], slices["started"][engines], slices["ended"][engines]), axis=1
        )
        held = np.flatnonzero(slices["blocker"] >= 0)
        fresh = Ends(
            slices["tile"][held].astype(np.int64),
            slices["blocker"][held],
            (slices["track"][held] == Track.CORE).astype(np.int64),
            threads[held],
            slices["started"][held],
            slices["ended"][held],
        )
        ends = Ends(*map(np.concatenate, zip(self._waiting, fresh, strict=True)))
        origin = self._recent[ends.tile, ends.blocker % REMEMBERED]
        arrows = self._between(ends, origin, origin[:, _NUMBER] == ends.blocker)
        late = np.flatnonzero(origin[:, _NUMBER] < ends.blocker)
        self.lost += int((origin[:, _NUMBER] > ends.blocker).sum()) + max(len(late) - REMEMBERED, 0)
        self._waiting = Ends(*(column[late[-REMEMBERED:]] for column in ends))
        return arrows

    def end(self) -> None:
        """Give up the waiting arrows: no more slices will come."""
        self.lost += len(self._waiting.tile)

    def _between(self, ends: Ends, origin: Ints, known: Ints) -> list[str]:
        """Return both events of arrows, from just before the end of one slice to the start of the other.

        When the slices overlap, an arrow is drawn at the start of the overlap, or for a wait of the core at
        its end.
        """
        first, last = origin[:, _STARTED], origin[:, _ENDED]
        leave = np.maximum(last - 2 * TICKS, first)
        both = np.maximum(first, ends.started)
        finish = np.maximum(np.minimum(last, ends.ended) - 2 * TICKS, both)
        at_once = leave > ends.started
        meeting = np.where(ends.is_core == 1, finish, both)
        leave, arrive = np.where(at_once, meeting, leave), np.where(at_once, meeting, ends.started)
        chosen = np.flatnonzero(known & (leave <= last) & (arrive <= ends.ended))
        pid, thread = ends.tile[chosen] + 1, origin[chosen, _THREAD]
        to = ends.thread[chosen]
        return self._events("dependency", pid, thread, leave[chosen], pid, to, arrive[chosen])

    def copies(self, tile: Ints, thread: Ints, to: Ints, there: Ints, at: Ints) -> list[str]:
        """Return the arrows from senders (``tile``, ``thread``) to the copies' slices at their targets."""
        return self._events("copy", tile + 1, thread, at, to + 1, there, at)

    def _events(
        self, name: str, pid: Ints, tid: Ints, ts: Ints, to_pid: Ints, to_tid: Ints, to_ts: Ints
    ) -> list[str]:
        head = f'"cat":"{name}","name":"{name}"'
        numbers = range(self._next, self._next + len(pid))
        self._next += len(pid)
        begin = f'{{"ph":"s",{head},"id":%d,"pid":%d,"tid":%d,"ts":%.6f}}'
        end = f'{{"ph":"f","bp":"e",{head},"id":%d,"pid":%d,"tid":%d,"ts":%.6f}}'
        columns = (
            numbers,
            pid.tolist(),
            tid.tolist(),
            (ts * self._microseconds).tolist(),
            numbers,
            to_pid.tolist(),
            to_tid.tolist(),
            (to_ts * self._microseconds).tolist(),
        )
        template = begin + SEPARATOR + end
        return [template % row for row in zip(*columns, strict=True)]
