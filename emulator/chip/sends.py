"""DTE instructions in compiled code: each tile records the copies that it sends, and receives between rounds.

Only copies of instructions are recorded; Python does all others (``traffic``). Each tile receives its copies
in the order of the senders and of their programs. The order of the receiving tiles does not matter if no copy
writes a byte that another one reads, and none writes a byte of DDR that another one writes. Then several host
threads share the tiles. Otherwise Python carries the copies out one after another. A copy from one tile to
several is written into SPM.

``log`` is the address of a tile's records, ``tile_state`` that of its state. Functions outside the class are
compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np

from emulator.engines import hooks, queues, tables
from emulator.engines.hooks import logged
from emulator.engines.marks import mark
from emulator.engines.queues import entry_at, mark_made
from emulator.memory import state
from emulator.memory.areas import GRANULE_SHIFT
from emulator.native.primitives.memory import get, put
from emulator.tile.events import Copy, Pieces, Side, Target
from emulator.tile.notes import (
    ENTRY,
    IN_DDR,
    MOST_TILES,
    OF,
    SIZE,
    SOURCE,
    SPAN,
    STEP,
    TARGET,
    TILES,
    TO,
    TO_DDR,
    TRIPS,
)
from tx8isa.numbers.layouts import LINE_BYTES
from tx8isa.records.meaning import Action, Control
from tx8isa.table.encoding import encoder

from .copies import copy_pieces

# -- words of a tile's records, before the entries
COUNT = 0  # number of entries
ROOM = 1  # number of entries that may be added
LOW = 2  # first byte of the tile's SPM that they read
END = 3  # end of the last byte of it that they read
INTO_DDR = 4  # number of entries that write into DDR
HEAD = 5
MOST = 32
"""The most copies of a tile in a round that compiled code records; Python does the others."""
NONE = 0, MOST, queues.DDR, 0, 0
"""The words before the entries when there are no copies and some may be recorded."""

# -- the tiles that an instruction names
OWN = 0  # none, which means its own
ONE = 1  # a number
SET = 2  # a set

# -- words of a kind of instruction
K_BYTES = 0  # bytes of the instruction; 0: it is not a send
K_TILES = 1  # the tiles it names
K_LENGTH = 2  # position of operand n, which stride and trips of each loop follow
K_LEVELS = 3  # number of its loops
K_SOURCE = 4  # 1: the loops are the source's
K_SCATTER = 5  # 1: every tile gets other bytes
KIND = 6


def kinds() -> tuple[int, tuple[int, ...]]:
    """Return the number of the first record that sends, and ``KIND`` words of every record from there on."""
    found = {
        number: record
        for number, record in enumerate(tables.records())
        if isinstance(record.meaning, Control) and record.meaning.action in (Action.SEND, Action.SCATTER)
    }
    words: list[int] = []
    for number in range(min(found), max(found) + 1):
        record = found.get(number)
        names = [operand.name for operand in record.operands] if record else []
        if record is None or names[:2] != ["dst", "src"]:
            words += [0] * KIND
            continue
        tiles = next((k for name, k in (("tiles", SET), ("tile", ONE)) if name in names), OWN)
        loops = names[names.index("n") + 1 :]
        scatters = record.meaning == Control(Action.SCATTER)
        words += [encoder(record).size, tiles, names.index("n"), len(loops) // 2]
        words += [int("src_iter0" in loops), int(scatters)]
    return min(found), tuple(words)


def make_note(first: int, words: tuple[int, ...]) -> Callable[[int, int, int, int], bool]:
    """Return the function that records a send; arguments are those of ``kinds``."""

    def note_send(tile_state: int, log: int, tile: int, everyone: int) -> bool:
        """Record and count the send that a tile has reached; return False if Python must execute it."""
        record = get(tile_state, state.DETAIL)
        kind = (record - first) * KIND
        if kind < 0 or kind >= len(words) or words[kind] == 0 or get(log, ROOM) == 0:
            return False
        q = get(tile_state, state.QUEUE) + 8 * queues.WORDS * get(tile_state, state.WORKER)
        entry = entry_at(get(q, queues.NEXT))
        fields = q + 8 * (entry + queues.E_FIELDS)
        target = get(q, entry + queues.E_FIRST_RANGE + queues.R_FIRST)
        source = get(q, entry + queues.E_FIRST_RANGE + queues.RANGE_WORDS + queues.R_FIRST)
        length = get(fields, words[kind + K_LENGTH])
        named, number = words[kind + K_TILES], tile
        if named == ONE:
            number = get(fields, 2)
        group = get(fields, 2) if named == SET else 1 << min(number, MOST_TILES)
        if length == 0 or number >= MOST_TILES or group & ~everyone != 0:
            return False
        at = log + 8 * (HEAD + ENTRY * get(log, COUNT))
        put_nest(
            at,
            length,
            fields + 8 * (words[kind + K_LENGTH] + 1),
            words[kind + K_LEVELS],
            words[kind + K_SOURCE],
        )
        put_places(at, source, target, group, length * words[kind + K_SCATTER])
        put(tile_state, state.DETAIL + 1, at)
        if not logged(tile_state, hooks.SENDS):
            return False
        take_in(log, at)
        go_past(tile_state, words[kind], record, at, members(group))
        return True

    return note_send


def members(group: int) -> int:
    """Return the number of tiles in a set."""
    count = 0
    for tile in range(MOST_TILES):
        count += group >> tile & 1
    return count


def put_nest(at: int, length: int, loops: int, levels: int, of_source: int) -> None:
    """Put the loops of the pieces into an entry; ``loops`` is the address of stride, trips, stride, ..."""
    put(at, SIZE, length)
    consecutive = length
    for level in range(3):
        trips = get(loops, 2 * level + 1) if level < levels else 1
        stride = get(loops, 2 * level) if trips > 1 else consecutive
        put(at, TRIPS + level, trips)
        put(at, TO + level, consecutive if of_source == 1 else stride)
        put(at, OF + level, stride if of_source == 1 else consecutive)
        consecutive *= trips


def put_places(at: int, source: int, target: int, group: int, step: int) -> None:
    """Put source and targets into an entry; ``source`` and ``target`` as in ranges of ``queues``."""
    in_ddr = source >= queues.DDR
    put(at, SOURCE, source - queues.DDR if in_ddr else source)
    put(at, IN_DDR, 1 if in_ddr else 0)
    put(at, STEP, step)
    to_ddr = target >= queues.DDR
    put(at, TARGET, target - queues.DDR if to_ddr else target)
    put(at, TO_DDR, 1 if to_ddr else 0)
    put(at, TILES, group)
    put(at, SPAN, span(at, TO))


def span(at: int, strides: int) -> int:
    """Return the bytes from the first to the last that one side of an entry touches."""
    size = get(at, SIZE)
    for level in range(3):
        size += (get(at, TRIPS + level) - 1) * get(at, strides + level)
    return size


def take_in(log: int, at: int) -> None:
    """Count the entry that was appended, and record the bytes that it reads."""
    put(log, INTO_DDR, get(log, INTO_DDR) + get(at, TO_DDR))
    if get(at, IN_DDR) == 0:
        source = get(at, SOURCE)
        put(log, LOW, min(get(log, LOW), source))
        put(log, END, max(get(log, END), source + read_span(at)))
    put(log, COUNT, get(log, COUNT) + 1)
    put(log, ROOM, get(log, ROOM) - 1)


def go_past(tile_state: int, size: int, record: int, at: int, targets: int) -> None:
    """Count a send of ``size`` bytes and the bytes that it copies, and go to the next instruction."""
    total = get(at, SIZE) * get(at, TRIPS) * get(at, TRIPS + 1) * get(at, TRIPS + 2)
    counts = get(tile_state, state.COUNTS) + 32 * record
    put(counts, 1, get(counts, 1) + (total * targets if get(at, STEP) != 0 else total))
    put(counts, 2, get(counts, 2) + total * targets)
    step_over(tile_state, size, record)


def step_over(tile_state: int, size: int, record: int) -> None:
    """Count an instruction that was executed outside the core's loop, and go to the next."""
    put(tile_state, state.PC, get(tile_state, state.PC) + size)
    put(tile_state, state.RETIRED, get(tile_state, state.RETIRED) + 1)
    counts = get(tile_state, state.COUNTS) + 32 * record
    put(counts, 0, get(counts, 0) + 1)


def forget(log: int) -> None:
    """Remove all records."""
    put(log, COUNT, NONE[COUNT])
    put(log, ROOM, NONE[ROOM])
    put(log, LOW, NONE[LOW])
    put(log, END, NONE[END])
    put(log, INTO_DDR, NONE[INTO_DDR])


def independent(log: int, other: int, tile: int) -> bool:
    """Return True if a tile's copies in ``log`` and those in ``other`` may be made in any order of tiles.

    This considers the writes of ``other`` to that tile's SPM and of ``log`` to DDR.
    """
    return independent_in_spm(log, other, tile) and independent_in_ddr(log, other)


def independent_in_spm(log: int, other: int, tile: int) -> bool:
    """Return True if copies of ``other`` to a tile write no byte of SPM that the tile's own copies, in
    ``log``, read."""
    for number in range(get(other, COUNT)):
        at = other + 8 * (HEAD + ENTRY * number)
        first = get(at, TARGET)
        if (
            get(at, TILES) >> tile & 1 == 1
            and get(at, TO_DDR) == 0
            and first < get(log, END)
            and get(log, LOW) < first + get(at, SPAN)
            and reads(log, first, first + get(at, SPAN))
        ):
            return False
    return True


def independent_in_ddr(log: int, other: int) -> bool:
    """Return True if copies in ``log`` write no byte of DDR that a copy in ``other`` reads or another one
    writes."""
    for number in range(get(log, COUNT) if get(log, INTO_DDR) != 0 else 0):
        at = log + 8 * (HEAD + ENTRY * number)
        if get(at, TO_DDR) == 1:
            for there in range(get(other, COUNT)):
                if meets_in_ddr(at, other + 8 * (HEAD + ENTRY * there)):
                    return False
    return True


def meets_in_ddr(at: int, there: int) -> bool:
    """Return True if the entry ``at``, which writes DDR, writes a byte that ``there`` reads or writes."""
    first, end = get(at, TARGET), get(at, TARGET) + get(at, SPAN)
    source, target = get(there, SOURCE), get(there, TARGET)
    if get(there, IN_DDR) == 1 and source < end and first < source + read_span(there):
        return True
    written = get(there, TO_DDR) == 1 and there != at
    return written and target < end and first < target + get(there, SPAN)


def reads(log: int, first: int, end: int) -> bool:
    """Return True if a copy in ``log`` may read a byte of SPM from ``first`` to before ``end``."""
    for number in range(get(log, COUNT)):
        at = log + 8 * (HEAD + ENTRY * number)
        source = get(at, SOURCE)
        if get(at, IN_DDR) == 0 and source < end and first < source + read_span(at):
            return True
    return False


def read_span(at: int) -> int:
    """Return the bytes from the first to the last that an entry reads, for all of its targets."""
    return span(at, OF) + (members(get(at, TILES)) - 1) * get(at, STEP)


def receive(log: int, sender: int, tile_state: int, tile: int) -> None:
    """Carry out the copies in ``log`` to a tile; ``sender`` is the state of the sending tile."""
    for number in range(get(log, COUNT)):
        at = log + 8 * (HEAD + ENTRY * number)
        group = get(at, TILES)
        if group >> tile & 1 == 1:
            start = get(at, SOURCE) + members(group & ((1 << tile) - 1)) * get(at, STEP)
            memory = get(sender, state.DDR if get(at, IN_DDR) == 1 else state.SPM)
            target, last = get(at, TARGET), get(at, TARGET) + get(at, SPAN) - 1
            to_ddr = get(at, TO_DDR) == 1
            if get(tile_state, state.MADE) != 0:
                space = queues.DDR * get(at, TO_DDR)
                mark_made(tile_state, space + target, space + last)
                continue
            copy_pieces(get(tile_state, state.DDR if to_ddr else state.SPM) + target, memory + start, at)
            if to_ddr:
                mark(get(tile_state, state.DDR_MARKS), target >> GRANULE_SHIFT, last >> GRANULE_SHIFT)
            else:
                mark(get(tile_state, state.LINES), target // LINE_BYTES, last // LINE_BYTES)


class Sends:
    """The records of all tiles."""

    def __init__(self, tiles: int) -> None:
        self.logs = np.zeros((tiles, HEAD + MOST * ENTRY), dtype=np.int64)
        self.addresses = [int(log.ctypes.data) for log in self.logs]
        self.begin()

    def begin(self) -> None:
        """Remove all records; from now on tiles may record copies."""
        self.logs[:, :HEAD] = NONE

    def take(self, tile: int) -> list[Copy]:
        """Take the copies that a tile has recorded; it records no more until ``begin``."""
        log = self.logs[tile]
        if log[COUNT] == 0:
            log[ROOM] = 0
            return []
        entries = log[HEAD:].reshape(MOST, ENTRY)[: log[COUNT]].tolist()
        log[COUNT] = log[ROOM] = 0
        return [_copy(tuple(entry)) for entry in entries]


@lru_cache(maxsize=1 << 12)
def _copy(entry: tuple[int, ...]) -> Copy:
    """Return the copy that an entry describes; a program repeats its copies."""
    to, of, trips = (tuple(entry[at : at + 3]) for at in (TO, OF, TRIPS))
    tiles = [tile for tile in range(MOST_TILES) if entry[TILES] >> tile & 1]
    starts = [entry[SOURCE] + i * entry[STEP] for i in range(len(tiles) if entry[STEP] else 1)]
    return Copy(
        Pieces(entry[SIZE], (trips[0], trips[1], trips[2])),
        tuple(Side(bool(entry[IN_DDR]), start, (of[0], of[1], of[2])) for start in starts),
        tuple(
            Target(tile, Side(bool(entry[TO_DDR]), entry[TARGET], (to[0], to[1], to[2]))) for tile in tiles
        ),
    )
