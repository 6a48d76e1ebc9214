"""The host threads that share the tiles of a round, and rounds that need nothing of Python.

Each thread takes the next tile that has a part in the round, runs it, and takes another one; so a thread that
gets short tiles gets more of them. Where all that happened in a round is that tiles came to barriers, the
thread that finishes last releases those that are complete, and the next round begins at once. For everything
else the threads come back to Python, which does it as ``System`` says.

``work`` is a plain function that is compiled; ``c`` is the address of the crew's words. Which thread runs a
tile, and whether Python sees the end of a round, changes nothing: what a tile does in a round is its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from tx8isa.encoding import encoder
from tx8isa.primitives import s64

from . import native, queues, state, stop, tables
from .memory import Bytes
from .native.memory import call_loop
from .native.threads import atomic_add, atomic_load, relax
from .queues import entry_at
from .tile import Status, Tile
from .words import get, put

TILES, NEXT, THREADS, ARRIVED, TURN, PYTHON, LEAVE, EVERYONE, SLICE, LIMIT, LOOP, ALONE = range(12)
"""Words: how many tiles; number of the next one to take; threads, and how many of them found no tile any
more; rounds so far; whether Python is wanted after this round, and whether it has been decided that all come
back; the set of all tiles; instructions of a slice; instructions that no tile executes; address of the kernel
core's loop; whether rounds may end without Python."""
HEAD = 16
RUNS, WAITS, GROUP, REASON, STATE = range(5)
"""Words of a tile, ``ROW`` of them behind ``HEAD``: whether it has a part in the round; whether it waits at a
barrier, and of which set; why it stopped; address of its state."""
ROW = 8
_MASK = (1 << 64) - 1

Function = Callable[..., int]


def row_of(c: int, tile: int) -> int:
    """Address of a tile's words."""
    return c + 8 * (HEAD + ROW * tile)


def complete(c: int, group: int) -> bool:
    """Whether every tile of a set waits at its barrier."""
    for tile in range(get(c, TILES)):
        row = row_of(c, tile)
        if (group >> tile) & 1 == 1 and (get(row, WAITS) == 0 or get(row, GROUP) != group):
            return False
    return True


def release(c: int, group: int) -> None:
    """Give every tile of a set a slice in the next round."""
    for tile in range(get(c, TILES)):
        row = row_of(c, tile)
        if (group >> tile) & 1 == 1:
            put(row, WAITS, 0)
            put(row, RUNS, 1)
            s = get(row, STATE)
            put(s, state.LIMIT, min(get(s, state.RETIRED) + get(c, SLICE), get(c, LIMIT)))


def end_round(c: int) -> bool:
    """Release complete barriers; False when that is not all there is to do."""
    if get(c, PYTHON) == 1 or get(c, ALONE) == 0:
        return False
    found = False
    for tile in range(get(c, TILES)):
        row = row_of(c, tile)
        if get(row, WAITS) == 1 and complete(c, get(row, GROUP)):
            release(c, get(row, GROUP))
            found = True
    return found


def arrive(c: int) -> bool:
    """Wait for the other threads at the end of a round; whether all go back to Python."""
    turn = atomic_load(c + 8 * TURN)
    if atomic_add(c + 8 * ARRIVED, 1) + 1 == get(c, THREADS):
        put(c, LEAVE, 0 if end_round(c) else 1)
        put(c, ARRIVED, 0)
        put(c, NEXT, 0)
        atomic_add(c + 8 * TURN, 1)
    looks = 0
    while atomic_load(c + 8 * TURN) == turn:
        relax(looks)
        looks += 1
    return get(c, LEAVE) == 1


def _make_enter(barrier: int, size: int) -> Function:
    """Let a tile wait at the barrier that it has come to; False when Python has to look at it."""

    def enter_barrier(c: int, row: int, tile: int) -> bool:
        s = get(row, STATE)
        if get(c, ALONE) == 0 or get(s, state.DETAIL) != barrier:
            return False
        q = get(s, state.QUEUE) + 8 * queues.WORDS * get(s, state.WORKER)
        everyone = get(c, EVERYONE)
        group = get(q, entry_at(get(q, queues.NEXT)) + queues.E_FIELDS)
        group = everyone if group == 0 else group
        if (group >> tile) & 1 == 0 or group & ~everyone != 0:
            return False
        put(row, GROUP, group)
        put(row, WAITS, 1)
        put(s, state.PC, get(s, state.PC) + size)
        put(s, state.RETIRED, get(s, state.RETIRED) + 1)
        counts = get(s, state.COUNTS) + 32 * barrier
        put(counts, 0, get(counts, 0) + 1)
        return True

    return enter_barrier


def make_work(barrier: int, size: int) -> Function:
    """``barrier`` and ``size``: number of the record of ncc.barrier, and bytes of that instruction."""
    enter_barrier = _make_enter(barrier, size)

    def work(c: int, first: int, scratch: int, scratch_bytes: int) -> int:
        """Run tiles, beginning with ``first`` if that is not -1: the number of one that needs Python, or -1
        when the round is over and Python has to end it."""
        tile = first
        while True:
            if tile < 0:
                tile = atomic_add(c + 8 * NEXT, 1)
            if tile >= get(c, TILES):
                if arrive(c):
                    return -1
            elif get(row_of(c, tile), RUNS) == 1:
                row = row_of(c, tile)
                s = get(row, STATE)
                put(s, state.SCRATCH, scratch)
                put(s, state.SCRATCH_BYTES, scratch_bytes)
                reason = call_loop(get(c, LOOP), s)
                if reason != stop.CONTROL or not enter_barrier(c, row, tile):
                    put(row, REASON, reason)
                    return tile
                put(row, RUNS, 0)
            tile = -1

    return work


def rounds_kernel() -> int:
    """Address of the compiled ``work``."""
    number = tables.numbers()["ncc.barrier"]
    size = encoder(tables.records()[number]).size
    return native.compile_kernel(make_work(number, size), "rounds of tiles", 4)


class Crew:
    """The words that the threads of one system share."""

    def __init__(self, tiles: list[Tile], work: int, loop: int, length: int) -> None:
        """``work``, ``loop``: addresses of it and of the kernel core's loop; ``length``: of a time slice."""
        self.tiles = tiles
        self.words = np.zeros(HEAD + ROW * len(tiles), dtype=np.int64)
        self.rows = self.words[HEAD:].reshape(-1, ROW)
        self.words[TILES], self.words[LOOP], self.words[SLICE] = len(tiles), loop, length
        self.words[EVERYONE] = s64((1 << len(tiles)) - 1)
        self.rows[:, STATE] = [tile.words.ctypes.data for tile in tiles]
        self._work, self._address = work, int(self.words.ctypes.data)

    def begin(self, tiles: Iterable[Tile], threads: int, limit: int, alone: bool) -> None:
        """Before a round in which these tiles take part.

        ``threads`` that call ``share``; ``limit``: instructions that no tile executes; ``alone``: rounds in
        which nothing but barriers happens end without Python.
        """
        words, rows = self.words, self.rows
        words[NEXT] = words[ARRIVED] = words[PYTHON] = words[LEAVE] = 0
        words[THREADS], words[LIMIT], words[ALONE] = threads, limit, int(alone)
        rows[:, RUNS] = 0
        rows[[tile.number for tile in tiles], RUNS] = 1
        rows[:, WAITS] = 0
        for tile in self.tiles:
            if tile.status is Status.BARRIER:
                rows[tile.number, WAITS], rows[tile.number, GROUP] = 1, s64(tile.group)

    def share(self, scratch: Bytes, go_on: Callable[[Tile, int], bool]) -> None:
        """One thread's part in the rounds, with working memory of its own.

        ``go_on(tile, reason)`` does what a tile has stopped for; False when its part in the round ends there.
        """
        area, number = (int(scratch.ctypes.data), scratch.size), -1
        try:
            while (number := self._run(number, *area)) >= 0:
                if not go_on(self.tiles[number], int(self.rows[number, REASON])):
                    self.rows[number, RUNS] = 0
                    number = -1
        except BaseException:
            self.want_python()
            while self._run(-1, *area) >= 0:  # the other threads wait for this one
                pass
            raise

    def _run(self, number: int, scratch: int, scratch_bytes: int) -> int:
        found = native.call(self._work, self._address, number, scratch, scratch_bytes)
        if found >= 0:
            self.tiles[found].status = Status.RUNNING
        return found

    def want_python(self) -> None:
        """The round that runs is to be ended by Python."""
        self.words[PYTHON] = 1

    def end(self) -> None:
        """After ``share`` has ended on all threads: let the tiles' status say where they are."""
        alone = self.words[ALONE] == 1
        for tile, waits, group in zip(self.tiles, *self.rows[:, [WAITS, GROUP]].T.tolist(), strict=True):
            if waits:
                tile.status, tile.group = Status.BARRIER, group & _MASK
            elif alone and tile.status is Status.BARRIER:
                tile.status = Status.RUNNING
