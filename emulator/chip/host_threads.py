"""Host threads that share the tiles of a round, and rounds that end without Python.

Each thread takes the next tile of the round, runs it, and takes another one. The threads end a round without
Python if its tiles only sent copies that ``sends`` records, waited for them, reached barriers or exited. Each
thread carries out copies for the next tile that receives some. The last thread releases complete barriers,
and the next round begins at once. In all other cases they return to Python (``System``). The log of simulated
time takes barriers, copies and exits from here.

Results do not depend on the thread that runs a tile, because its work in a round needs no other tile.

``work`` and its callees are compiled; ``shared`` is the address of the words that the threads share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache

import numpy as np

from emulator import native
from emulator.engines import hooks, queues, tables
from emulator.engines.hooks import logged
from emulator.engines.queues import entry_at
from emulator.memory import state, stop
from emulator.memory.areas import Bytes
from emulator.native.primitives.memory import call_loop, get, put
from emulator.native.primitives.threads import atomic_add, atomic_load, relax
from emulator.tile.compiled import make_exits, make_set_priority
from emulator.tile.tile import Status, Tile
from tx8isa.numbers.primitives import s64
from tx8isa.table.encoding import encoder

from .sends import COUNT, ROOM, Sends, forget, independent, kinds, make_note, receive, step_over

# -- words that the threads share
TILES = 0  # number of tiles
NEXT = 1  # number of the next tile to take
THREADS = 2  # number of threads
ARRIVED = 3  # number of threads that have found no tile left in this round
TURN = 4  # rounds so far
PYTHON = 5  # 1: Python must end this round
LEAVE = 6  # 1: all threads must return to Python
EVERYONE = 7  # the set of all tiles
QUANTUM = 8  # the most instructions of a tile in a round
LIMIT = 9  # a number of instructions that no tile executes
LOOP = 10  # address of the kernel core's loop
ALONE = 11  # 1: rounds may end without Python
RECEIVES = 12  # 1: the threads carry out copies, between two rounds
HEAD = 16  # the first row of the tiles

# -- words of a tile's row
RUNS = 0  # 1: the tile takes part in the round
WAITS = 1  # the event it waits for
GROUP = 2  # the set of tiles of the barrier it waits at
REASON = 3  # the reason of its stop
STATE = 4  # address of its state
SENDS = 5  # address of its records of copies (``sends``)
ROW = 8

# -- events that a tile waits for (``WAITS``) and that something will end; 0 is none
AT_BARRIER = 1
FOR_COPIES = 2
EXITED = 3

# -- result of a barrier, wait or send
FOR_PYTHON = 0  # Python has to execute it
GOES_ON = 1  # the tile continues
ENDS = 2  # its part in the round ends

_MASK = (1 << 64) - 1

Function = Callable[..., int]


def row_of(shared: int, tile: int) -> int:
    """Return the address of a tile's words."""
    return shared + 8 * (HEAD + ROW * tile)


def complete(shared: int, group: int) -> bool:
    """Return True if every tile of a set waits at its barrier."""
    for tile in range(get(shared, TILES)):
        row = row_of(shared, tile)
        if (group >> tile) & 1 == 1 and (get(row, WAITS) != AT_BARRIER or get(row, GROUP) != group):
            return False
    return True


def go_on(shared: int, row: int) -> None:
    """Give a waiting tile a quantum in the next round."""
    put(row, WAITS, 0)
    put(row, RUNS, 1)
    tile_state = get(row, STATE)
    end = get(tile_state, state.RETIRED) + get(shared, QUANTUM)
    put(tile_state, state.LIMIT, min(end, get(shared, LIMIT)))


def release_barriers(shared: int) -> bool:
    """Release complete barriers; return True if there was one."""
    found = False
    for tile in range(get(shared, TILES)):
        row = row_of(shared, tile)
        if get(row, WAITS) == AT_BARRIER and complete(shared, get(row, GROUP)):
            group, found = get(row, GROUP), True
            for other in range(get(shared, TILES)):
                if (group >> other) & 1 == 1:
                    go_on(shared, row_of(shared, other))
    return found


def noted(shared: int) -> bool:
    """Return True if there are copies to carry out."""
    count = 0
    for tile in range(get(shared, TILES)):
        count += get(get(row_of(shared, tile), SENDS), COUNT)
    return count != 0


def all_independent(shared: int) -> bool:
    """Return True if the order of the receiving tiles does not matter (``sends``)."""
    for tile in range(get(shared, TILES)):
        for sender in range(get(shared, TILES)):
            log, other = get(row_of(shared, tile), SENDS), get(row_of(shared, sender), SENDS)
            if get(other, COUNT) != 0 and not independent(log, other, tile):
                return False
    return True


def receive_all(shared: int, tile: int) -> None:
    """Carry out the copies to a tile, in the order of the sending tiles."""
    tile_state = get(row_of(shared, tile), STATE)
    for sender in range(get(shared, TILES)):
        row = row_of(shared, sender)
        receive(get(row, SENDS), get(row, STATE), tile_state, tile)


def end_copies(shared: int) -> None:
    """Let the tiles that wait for copies continue, as all were carried out."""
    for tile in range(get(shared, TILES)):
        row = row_of(shared, tile)
        forget(get(row, SENDS))
        logged(get(row, STATE), hooks.COPIED)
        if get(row, WAITS) == FOR_COPIES:
            go_on(shared, row)


def end_round(shared: int) -> bool:
    """Begin the next round, or the copies before it; False when Python has to end this round."""
    copied = get(shared, RECEIVES) == 1
    if copied:
        put(shared, RECEIVES, 0)
        end_copies(shared)
    if get(shared, PYTHON) == 1 or get(shared, ALONE) == 0:
        return False
    if noted(shared):
        free = all_independent(shared)
        put(shared, RECEIVES, 1 if free else 0)
        return free
    return release_barriers(shared) or copied


def arrive(shared: int) -> bool:
    """Wait for the other threads at the end of a round; return True if all return to Python."""
    turn = atomic_load(shared + 8 * TURN)
    if atomic_add(shared + 8 * ARRIVED, 1) + 1 == get(shared, THREADS):
        put(shared, LEAVE, 0 if end_round(shared) else 1)
        put(shared, ARRIVED, 0)
        put(shared, NEXT, 0)
        atomic_add(shared + 8 * TURN, 1)
    looks = 0
    while atomic_load(shared + 8 * TURN) == turn:
        relax(looks)
        looks += 1
    return get(shared, LEAVE) == 1


def make_enter(barrier: int, size: int) -> Function:
    """``barrier``, ``size``: number of the record of ncc.barrier, and bytes of that instruction."""

    def enter_barrier(shared: int, row: int, tile: int) -> int:
        """Let a tile wait at the barrier that it has reached."""
        tile_state = get(row, STATE)
        queue = get(tile_state, state.QUEUE) + 8 * queues.WORDS * get(tile_state, state.WORKER)
        everyone = get(shared, EVERYONE)
        group = get(queue, entry_at(get(queue, queues.NEXT)) + queues.E_FIELDS)
        group = everyone if group == 0 else group
        if (group >> tile) & 1 == 0 or group & ~everyone != 0:
            return FOR_PYTHON
        put(tile_state, state.DETAIL + 1, group)
        if not logged(tile_state, hooks.AT_BARRIER):
            return FOR_PYTHON
        put(row, GROUP, group)
        put(row, WAITS, AT_BARRIER)
        step_over(tile_state, size, barrier)
        return ENDS

    return enter_barrier


def make_wait(wait: int, size: int) -> Function:
    """``wait``, ``size``: number of the record of dte.wait, and bytes of that instruction."""

    def wait_for_copies(row: int) -> int:
        """Let a tile wait for its copies; Python does so instead if it has taken copies of the tile."""
        log, tile_state = get(row, SENDS), get(row, STATE)
        if get(log, COUNT) == 0 and get(log, ROOM) == 0:
            return FOR_PYTHON
        put(tile_state, state.DETAIL + 1, get(log, COUNT))
        if not logged(tile_state, hooks.AWAITS):
            return FOR_PYTHON
        step_over(tile_state, size, wait)
        if get(log, COUNT) == 0:
            return GOES_ON
        put(row, WAITS, FOR_COPIES)
        return ENDS

    return wait_for_copies


def make_control(barrier: int, wait: int, enter: Function, wait_for: Function, note: Function) -> Function:
    """``enter``, ``wait_for`` and ``note`` execute a barrier, a wait and a send."""

    def control(shared: int, row: int, tile: int) -> int:
        """Execute the barrier, wait or send that a tile has reached."""
        tile_state = get(row, STATE)
        record = get(tile_state, state.DETAIL)
        if get(shared, ALONE) == 0:
            return FOR_PYTHON
        if record == barrier:
            return s64(enter(shared, row, tile))
        if record == wait:
            return s64(wait_for(row))
        return GOES_ON if note(tile_state, get(row, SENDS), tile, get(shared, EVERYONE)) else FOR_PYTHON

    return control


def make_exit(exits: Function) -> Function:
    """``exits`` ends the program of a tile, if it can."""

    def exit_tile(shared: int, row: int) -> int:
        """Let a tile exit with status 0; Python serves every other call of the environment."""
        if get(shared, ALONE) == 0 or not exits(get(row, STATE)):
            return FOR_PYTHON
        put(row, WAITS, EXITED)
        return ENDS

    return exit_tile


def make_serve(control: Function, exit_tile: Function, set_priority: Function) -> Function:
    """``control`` executes barriers, waits and sends, ``exit_tile`` the end of a program, ``set_priority`` a
    store to that register, if a tile has stopped at one."""

    def serve(shared: int, row: int, tile: int, reason: int) -> int:
        """Serve the reason why a tile has stopped."""
        if reason == stop.CONTROL:
            return s64(control(shared, row, tile))
        if reason == stop.SYSTEM:
            return s64(exit_tile(shared, row))
        if reason == stop.MEMORY and get(shared, ALONE) == 1 and set_priority(get(row, STATE)):
            return GOES_ON
        return FOR_PYTHON

    return serve


def make_work(serve: Function) -> Function:
    """``serve`` handles the reason why a tile has stopped, if it can."""

    def run_tile(shared: int, row: int, tile: int) -> bool:
        """Run a tile until its part in the round ends; False when it needs Python first."""
        becomes = GOES_ON
        while becomes == GOES_ON:
            reason = call_loop(get(shared, LOOP), get(row, STATE))
            put(row, REASON, reason)
            becomes = s64(serve(shared, row, tile, reason))
        return becomes == ENDS

    def work(shared: int, first: int, scratch: int, scratch_bytes: int) -> int:
        """Run tiles, beginning with ``first`` if that is not -1.

        Returns the number of a tile that needs Python, or -1 when Python must end the round.
        """
        tile = first
        while True:
            if tile < 0:
                tile = atomic_add(shared + 8 * NEXT, 1)
            if tile >= get(shared, TILES):
                if arrive(shared):
                    return -1
            elif get(shared, RECEIVES) == 1:
                receive_all(shared, tile)
            elif get(row_of(shared, tile), RUNS) == 1:
                row = row_of(shared, tile)
                put(get(row, STATE), state.SCRATCH, scratch)
                put(get(row, STATE), state.SCRATCH_BYTES, scratch_bytes)
                if not run_tile(shared, row, tile):
                    return tile
                put(row, RUNS, 0)
            tile = -1

    return work


def _compile_rounds() -> int:
    barrier, wait = (tables.numbers()[name] for name in ("ncc.barrier", "dte.wait"))
    sizes = [encoder(tables.records()[number]).size for number in (barrier, wait)]
    enter, wait_for = make_enter(barrier, sizes[0]), make_wait(wait, sizes[1])
    control = make_control(barrier, wait, enter, wait_for, make_note(*kinds()))
    work = make_work(make_serve(control, make_exit(make_exits()), make_set_priority()))
    return native.compile_kernel(work, "rounds of tiles", 4, compact=True)


_compiled_rounds = cache(_compile_rounds)
"""The compiled function, kept because every chip needs it, and computing its key takes milliseconds."""


def rounds_kernel() -> int:
    """Return the address of the compiled ``work``."""
    return _compiled_rounds() if native.jit_enabled() else _compile_rounds()


class HostThreads:
    """The words that the threads of one system share."""

    def __init__(self, tiles: list[Tile], sends: Sends, work: int, loop: int, quantum: int) -> None:
        """``work``, ``loop``: addresses of it and of the kernel core's loop; ``quantum`` in instructions."""
        self.tiles = tiles
        self.words = np.zeros(HEAD + ROW * len(tiles), dtype=np.int64)
        self.rows = self.words[HEAD:].reshape(-1, ROW)
        self.words[TILES], self.words[LOOP], self.words[QUANTUM] = len(tiles), loop, quantum
        self.words[EVERYONE] = s64((1 << len(tiles)) - 1)
        self.rows[:, STATE] = [tile.words.ctypes.data for tile in tiles]
        self.rows[:, SENDS] = sends.addresses
        self._work, self._address = work, int(self.words.ctypes.data)

    def begin(self, tiles: Iterable[Tile], threads: int, limit: int, alone: bool) -> None:
        """Prepare a round of these tiles.

        ``threads``: the number of threads that will call ``share``. ``limit``: a number of instructions that
        no tile may execute. ``alone``: rounds with nothing but barriers and recorded copies end without
        Python.
        """
        words, rows = self.words, self.rows
        words[NEXT] = words[ARRIVED] = words[PYTHON] = words[LEAVE] = words[RECEIVES] = 0
        words[THREADS], words[LIMIT], words[ALONE] = threads, limit, int(alone)
        rows[:, RUNS] = 0
        rows[[tile.number for tile in tiles], RUNS] = 1
        rows[:, WAITS] = 0
        for tile in self.tiles:
            self._note_barrier(tile)

    def _note_barrier(self, tile: Tile) -> None:
        """Record for the threads a barrier that a tile has reached in Python."""
        if tile.status is Status.BARRIER:
            row = self.rows[tile.number]
            row[WAITS], row[GROUP] = AT_BARRIER, s64(tile.group)

    def share(self, scratch: Bytes, go_on: Callable[[Tile, int], bool]) -> None:
        """Run one thread's part of the rounds, with working memory of its own.

        ``go_on(tile, reason)`` serves a tile that has stopped; False when its part in the round ends there.
        """
        area, number = (int(scratch.ctypes.data), scratch.size), -1
        try:
            while (number := self._run(number, *area)) >= 0:
                if not go_on(self.tiles[number], int(self.rows[number, REASON])):
                    self.rows[number, RUNS] = 0
                    self._note_barrier(self.tiles[number])
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
        """Let Python end the present round."""
        self.words[PYTHON] = 1

    def end(self) -> None:
        """Set the status of the tiles after ``share`` has returned on all threads."""
        alone = self.words[ALONE] == 1
        for tile, waits, group in zip(self.tiles, *self.rows[:, [WAITS, GROUP]].T.tolist(), strict=True):
            if waits == AT_BARRIER:
                tile.status, tile.group = Status.BARRIER, group & _MASK
            elif waits == FOR_COPIES:
                tile.status = Status.SENDING
            elif waits == EXITED:
                tile.status = Status.EXITED
            elif alone and tile.status is Status.BARRIER:
                tile.status = Status.RUNNING
