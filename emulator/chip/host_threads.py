"""The host threads that share the tiles of a round, and rounds that need nothing of Python.

Each thread takes the next tile that has a part in the round, runs it, and takes another one; so a thread that
gets short tiles gets more of them. Where all that happened in a round is that tiles sent copies as ``sends``
notes them, waited for them, came to barriers, and exited, the threads make the copies, each for the next
tile that gets some; the one that finishes last releases the barriers that are complete, and the next round
begins at once. For everything else the threads come back to Python, which does it as ``System`` says.

``work`` is a plain function that is compiled; ``c`` is the address of the words that the threads share. Which
thread runs a tile, and whether Python sees the end of a round, changes no result: what a tile does in a round
depends on no other tile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from emulator import native
from emulator.engines import queues, tables
from emulator.engines.issue import DRAIN, command
from emulator.engines.queues import entry_at
from emulator.memory import state, stop
from emulator.memory.areas import Bytes
from emulator.native.primitives.memory import call_kernel, call_loop, get, put, view_u32
from emulator.native.primitives.threads import atomic_add, atomic_load, relax
from emulator.tile.environment import A0, A7, EXIT, EXIT_GROUP
from emulator.tile.tile import Status, Tile
from tx8isa.numbers.primitives import s64, u64
from tx8isa.table import scalar as rv
from tx8isa.table.encoding import encoder

from .sends import COUNT, ROOM, Sends, forget, kinds, make_note, receive, step_over, written_apart

# -- words that the threads share, at ``c``
TILES = 0  # how many tiles there are
NEXT = 1  # number of the next tile to take
THREADS = 2  # how many threads there are
ARRIVED = 3  # how many of them have found no tile left in this round
TURN = 4  # rounds so far
PYTHON = 5  # whether Python has to end this round
LEAVE = 6  # whether it has been decided that all threads return to Python
EVERYONE = 7  # the set of all tiles
QUANTUM = 8  # instructions that a tile executes at most in a round
LIMIT = 9  # a number of instructions that no tile executes
LOOP = 10  # address of the kernel core's loop
ALONE = 11  # whether rounds may end without Python
RECEIVES = 12  # whether the threads make copies between two rounds
HEAD = 16  # where the rows of the tiles begin

# -- words of a tile's row
RUNS = 0  # whether the tile has a part in the round
WAITS = 1  # what it waits for
GROUP = 2  # the set of tiles of the barrier it waits at
REASON = 3  # why it stopped
STATE = 4  # address of its state
SENDS = 5  # address of its notes (``sends``)
ROW = 8

# -- what a tile waits for (``WAITS``) that something will end; 0 is nothing
AT_BARRIER = 1
FOR_COPIES = 2
EXITED = 3

# -- what becomes of a tile that has come to an instruction for the whole chip
FOR_PYTHON = 0
GOES_ON = 1
ENDS = 2

_MASK = (1 << 64) - 1

Function = Callable[..., int]


def row_of(c: int, tile: int) -> int:
    """Address of a tile's words."""
    return c + 8 * (HEAD + ROW * tile)


def complete(c: int, group: int) -> bool:
    """Whether every tile of a set waits at its barrier."""
    for tile in range(get(c, TILES)):
        row = row_of(c, tile)
        if (group >> tile) & 1 == 1 and (get(row, WAITS) != AT_BARRIER or get(row, GROUP) != group):
            return False
    return True


def release(c: int, group: int) -> None:
    """Give every tile of a set a quantum in the next round."""
    for tile in range(get(c, TILES)):
        if (group >> tile) & 1 == 1:
            go_on(c, row_of(c, tile))


def go_on(c: int, row: int) -> None:
    """Give a tile that waited a quantum in the next round."""
    put(row, WAITS, 0)
    put(row, RUNS, 1)
    s = get(row, STATE)
    put(s, state.LIMIT, min(get(s, state.RETIRED) + get(c, QUANTUM), get(c, LIMIT)))


def release_barriers(c: int) -> bool:
    """Release complete barriers; whether there was one."""
    found = False
    for tile in range(get(c, TILES)):
        row = row_of(c, tile)
        if get(row, WAITS) == AT_BARRIER and complete(c, get(row, GROUP)):
            release(c, get(row, GROUP))
            found = True
    return found


def noted(c: int) -> bool:
    """Whether there are copies to make."""
    count = 0
    for tile in range(get(c, TILES)):
        count += get(get(row_of(c, tile), SENDS), COUNT)
    return count != 0


def all_apart(c: int) -> bool:
    """Whether no copy writes what one reads, so that their order does not matter where they come from."""
    for tile in range(get(c, TILES)):
        for sender in range(get(c, TILES)):
            log, other = get(row_of(c, tile), SENDS), get(row_of(c, sender), SENDS)
            if get(other, COUNT) != 0 and not written_apart(log, other, tile):
                return False
    return True


def receive_all(c: int, tile: int) -> None:
    """Make the copies that a tile gets, in the order of the tiles that send them."""
    s = get(row_of(c, tile), STATE)
    for sender in range(get(c, TILES)):
        row = row_of(c, sender)
        receive(get(row, SENDS), get(row, STATE), s, tile)


def end_copies(c: int) -> None:
    """All copies are made: let the tiles that wait for them go on."""
    for tile in range(get(c, TILES)):
        row = row_of(c, tile)
        forget(get(row, SENDS))
        if get(row, WAITS) == FOR_COPIES:
            go_on(c, row)


def end_round(c: int) -> bool:
    """Begin the next round, or the making of copies before it; False when Python has to end this one."""
    copied = get(c, RECEIVES) == 1
    if copied:
        put(c, RECEIVES, 0)
        end_copies(c)
    if get(c, PYTHON) == 1 or get(c, ALONE) == 0:
        return False
    if noted(c):
        apart = all_apart(c)
        put(c, RECEIVES, 1 if apart else 0)
        return apart
    return release_barriers(c) or copied


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


def make_enter(barrier: int, size: int) -> Function:
    """``barrier``, ``size``: number of the record of ncc.barrier, and bytes of that instruction."""

    def enter_barrier(c: int, row: int, tile: int) -> int:
        """Let a tile wait at the barrier that it has come to."""
        s = get(row, STATE)
        q = get(s, state.QUEUE) + 8 * queues.WORDS * get(s, state.WORKER)
        everyone = get(c, EVERYONE)
        group = get(q, entry_at(get(q, queues.NEXT)) + queues.E_FIELDS)
        group = everyone if group == 0 else group
        if (group >> tile) & 1 == 0 or group & ~everyone != 0:
            return FOR_PYTHON
        put(row, GROUP, group)
        put(row, WAITS, AT_BARRIER)
        step_over(s, size, barrier)
        return ENDS

    return enter_barrier


def make_wait(wait: int, size: int) -> Function:
    """``wait``, ``size``: number of the record of dte.wait, and bytes of that instruction."""

    def wait_for_copies(row: int) -> int:
        """Let a tile wait for what it has sent; Python does it when it has taken copies of the tile."""
        log = get(row, SENDS)
        if get(log, COUNT) == 0 and get(log, ROOM) == 0:
            return FOR_PYTHON
        step_over(get(row, STATE), size, wait)
        if get(log, COUNT) == 0:
            return GOES_ON
        put(row, WAITS, FOR_COPIES)
        return ENDS

    return wait_for_copies


def make_control(barrier: int, wait: int, enter: Function, wait_for: Function, note: Function) -> Function:
    """``enter``, ``wait_for``, ``note``: what barrier, wait and the sends do."""

    def control(c: int, row: int, tile: int) -> int:
        """Do the instruction for the whole chip that a tile has come to."""
        s = get(row, STATE)
        record = get(s, state.DETAIL)
        if get(c, ALONE) == 0:
            return FOR_PYTHON
        if record == barrier:
            return s64(enter(c, row, tile))
        if record == wait:
            return s64(wait_for(row))
        return GOES_ON if note(s, get(row, SENDS), tile, get(c, EVERYONE)) else FOR_PYTHON

    return control


def make_exit(ecall: int) -> Function:
    """``ecall``: that instruction."""

    def exit_tile(c: int, row: int) -> int:
        """Let a tile end its program with status 0; any other call of the environment is Python's."""
        s = get(row, STATE)
        word = view_u32(get(s, state.TEXT) + get(s, state.PC) - get(s, state.CODE_BASE), 1)[u64(0)]
        call = get(s, state.X + A7)
        ends = s64(word) == ecall and call in (EXIT, EXIT_GROUP)
        if not ends or get(s, state.X + A0) & 0xFF != 0 or get(c, ALONE) == 0:
            return FOR_PYTHON
        for worker in range(get(s, state.WORKERS)):
            if s64(call_kernel(get(s, state.ISSUE), command(DRAIN, worker), s)) >= 0:
                return FOR_PYTHON
        put(s, state.PC, get(s, state.PC) + 4)
        put(s, state.RETIRED, get(s, state.RETIRED) + 1)
        put(row, WAITS, EXITED)
        return ENDS

    return exit_tile


def make_work(control: Function, exit_tile: Function) -> Function:
    """``control``, ``exit_tile``: what a tile does with an instruction for the whole chip, and at its end."""

    def run_tile(c: int, row: int, tile: int) -> bool:
        """Run a tile until its part in the round ends; False when it needs Python before."""
        s = get(row, STATE)
        becomes = GOES_ON
        while becomes == GOES_ON:
            reason = call_loop(get(c, LOOP), s)
            put(row, REASON, reason)
            becomes = FOR_PYTHON
            if reason == stop.CONTROL:
                becomes = s64(control(c, row, tile))
            elif reason == stop.SYSTEM:
                becomes = s64(exit_tile(c, row))
        return becomes == ENDS

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
            elif get(c, RECEIVES) == 1:
                receive_all(c, tile)
            elif get(row_of(c, tile), RUNS) == 1:
                row = row_of(c, tile)
                put(get(row, STATE), state.SCRATCH, scratch)
                put(get(row, STATE), state.SCRATCH_BYTES, scratch_bytes)
                if not run_tile(c, row, tile):
                    return tile
                put(row, RUNS, 0)
            tile = -1

    return work


def rounds_kernel() -> int:
    """Address of the compiled ``work``."""
    barrier, wait = (tables.numbers()[name] for name in ("ncc.barrier", "dte.wait"))
    sizes = [encoder(tables.records()[number]).size for number in (barrier, wait)]
    enter, wait_for = make_enter(barrier, sizes[0]), make_wait(wait, sizes[1])
    control = make_control(barrier, wait, enter, wait_for, make_note(*kinds()))
    (ecall,) = (record.match for record in rv.scalar_instructions() if record.mnemonic == "ecall")
    return native.compile_kernel(make_work(control, make_exit(ecall)), "rounds of tiles", 4)


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
        """Before a round in which these tiles take part.

        ``threads`` that call ``share``; ``limit``: instructions that no tile executes; ``alone``: rounds in
        which nothing but barriers and noted copies happens end without Python.
        """
        words, rows = self.words, self.rows
        words[NEXT] = words[ARRIVED] = words[PYTHON] = words[LEAVE] = words[RECEIVES] = 0
        words[THREADS], words[LIMIT], words[ALONE] = threads, limit, int(alone)
        rows[:, RUNS] = 0
        rows[[tile.number for tile in tiles], RUNS] = 1
        rows[:, WAITS] = 0
        for tile in self.tiles:
            if tile.status is Status.BARRIER:
                rows[tile.number, WAITS], rows[tile.number, GROUP] = AT_BARRIER, s64(tile.group)

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
            if waits == AT_BARRIER:
                tile.status, tile.group = Status.BARRIER, group & _MASK
            elif waits == FOR_COPIES:
                tile.status = Status.SENDING
            elif waits == EXITED:
                tile.status = Status.EXITED
            elif alone and tile.status is Status.BARRIER:
                tile.status = Status.RUNNING
