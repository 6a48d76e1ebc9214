"""DTE instructions in compiled code: each tile notes what it sends, and between two rounds it is received.

Only copies into SPM are noted, those of instructions; all others are Python's (``traffic``). Noted copies can
be made tile by tile, each receiving what is for it in the order of senders and of their programs, when no
byte that one reads is written by any: then nothing depends on the order of the receivers, so several host
threads can share them. When it is otherwise, Python makes them one after another.

``log`` is the address of a tile's notes, ``s`` that of its state; ``note_send`` is a plain function that is
compiled, like all that stand outside the class.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from emulator.engines import queues, tables
from emulator.engines.queues import entry_at, mark
from emulator.memory import state
from emulator.native.primitives.memory import get, put
from emulator.tile.events import Copy, Pieces, Side, Target
from tx8isa.numbers.layouts import LINE_BYTES
from tx8isa.records.meaning import Action, Control
from tx8isa.table.encoding import encoder

from .copies import copy_pieces

COUNT, ROOM, LOW, END = range(4)
"""Words before the entries: how many there are; how many more are taken; first byte of SPM that they read,
and the end of the last one."""
HEAD = 4
NEST, SOURCE, IN_DDR, STEP, TARGET, TILES, SPAN = 0, 10, 11, 12, 13, 14, 15
"""Words of an entry: as ``dte.copy_pieces`` takes them; where it reads, in DDR or SPM, and how far behind
what the next tile of a scatter gets; where it writes; the set of tiles; bytes from first to last written."""
TO, OF, SIZE, TRIPS = NEST, NEST + 3, NEST + 6, NEST + 7
ENTRY = 16
MOST = 32
"""Copies that a tile notes in a round; Python takes what is beyond."""
NONE = 0, MOST, queues.DDR, 0
"""The words before the entries when there are no copies and some may be noted."""
MOST_TILES = 62
"""Tiles whose set is a positive word; Python takes copies of others, and to others."""

OWN, ONE, SET = range(3)
"""Which tiles an instruction names: none, which is the tile itself; a number; a set."""
K_BYTES, K_TILES, K_LENGTH, K_LEVELS, K_SOURCE, K_SCATTER, KIND = range(7)
"""Words of a kind of instruction: its bytes; which tiles; position of operand n, behind which stride and
trips of each loop stand; how many loops; whether they are the source's; whether tiles get different bytes."""


def kinds() -> tuple[int, tuple[int, ...]]:
    """Number of the first record that sends, and ``KIND`` words of each from there on (0: no send)."""
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
    """The function that notes a send; arguments are those of ``kinds``."""

    def note_send(s: int, log: int, tile: int, everyone: int) -> bool:
        """Note the instruction that a tile has come to and go past it; False when Python has to do that."""
        record = get(s, state.DETAIL)
        kind = (record - first) * KIND
        if kind < 0 or kind >= len(words) or words[kind] == 0 or get(log, ROOM) == 0:
            return False
        q = get(s, state.QUEUE) + 8 * queues.WORDS * get(s, state.WORKER)
        entry = entry_at(get(q, queues.NEXT))
        fields = q + 8 * (entry + queues.E_FIELDS)
        target = get(q, entry + queues.E_FIRST_RANGE + queues.R_FIRST)
        source = get(q, entry + queues.E_FIRST_RANGE + queues.RANGE_WORDS + queues.R_FIRST)
        length = get(fields, words[kind + K_LENGTH])
        named, number = words[kind + K_TILES], tile
        if named == ONE:
            number = get(fields, 2)
        group = get(fields, 2) if named == SET else 1 << min(number, MOST_TILES)
        if length == 0 or number >= MOST_TILES or group & ~everyone != 0 or target >= queues.DDR:
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
        take_in(log, at, members(group))
        go_past(s, words[kind], record, at, members(group))
        return True

    return note_send


def members(group: int) -> int:
    """How many tiles a set has."""
    count = 0
    for tile in range(MOST_TILES):
        count += group >> tile & 1
    return count


def put_nest(at: int, length: int, loops: int, levels: int, of_source: int) -> None:
    """Put strides, bytes and trips of the pieces into an entry; ``loops``: address of stride, trips, ..."""
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
    """Put into an entry from where to where; the starts as in ranges of ``queues``."""
    in_ddr = source >= queues.DDR
    put(at, SOURCE, source - queues.DDR if in_ddr else source)
    put(at, IN_DDR, 1 if in_ddr else 0)
    put(at, STEP, step)
    put(at, TARGET, target)
    put(at, TILES, group)
    put(at, SPAN, span(at, TO))


def span(at: int, strides: int) -> int:
    """Bytes from the first to the last that one side of an entry touches."""
    size = get(at, SIZE)
    for level in range(3):
        size += (get(at, TRIPS + level) - 1) * get(at, strides + level)
    return size


def take_in(log: int, at: int, targets: int) -> None:
    """Count the entry that was written at the end, and what it reads."""
    if get(at, IN_DDR) == 0:
        source = get(at, SOURCE)
        put(log, LOW, min(get(log, LOW), source))
        put(log, END, max(get(log, END), source + span(at, OF) + (targets - 1) * get(at, STEP)))
    put(log, COUNT, get(log, COUNT) + 1)
    put(log, ROOM, get(log, ROOM) - 1)


def go_past(s: int, size: int, record: int, at: int, targets: int) -> None:
    """Count the instruction of ``size`` bytes and the bytes that it reads and writes."""
    total = get(at, SIZE) * get(at, TRIPS) * get(at, TRIPS + 1) * get(at, TRIPS + 2)
    counts = get(s, state.COUNTS) + 32 * record
    put(counts, 1, get(counts, 1) + (total * targets if get(at, STEP) != 0 else total))
    put(counts, 2, get(counts, 2) + total * targets)
    step_over(s, size, record)


def step_over(s: int, size: int, record: int) -> None:
    """Go past an instruction that was executed outside the core's loop."""
    put(s, state.PC, get(s, state.PC) + size)
    put(s, state.RETIRED, get(s, state.RETIRED) + 1)
    counts = get(s, state.COUNTS) + 32 * record
    put(counts, 0, get(counts, 0) + 1)


def forget(log: int) -> None:
    """No copies."""
    put(log, COUNT, NONE[COUNT])
    put(log, ROOM, NONE[ROOM])
    put(log, LOW, NONE[LOW])
    put(log, END, NONE[END])


def written_apart(log: int, other: int, tile: int) -> bool:
    """Whether the copies of ``other`` to a tile write nothing that those of its own ``log`` read."""
    for number in range(get(other, COUNT)):
        at = other + 8 * (HEAD + ENTRY * number)
        first = get(at, TARGET)
        if (
            get(at, TILES) >> tile & 1 == 1
            and first < get(log, END)
            and get(log, LOW) < first + get(at, SPAN)
        ):
            return False
    return True


def receive(log: int, sender: int, s: int, tile: int) -> None:
    """Make the copies that a tile gets from another one, whose notes and state come first."""
    for number in range(get(log, COUNT)):
        at = log + 8 * (HEAD + ENTRY * number)
        group = get(at, TILES)
        if group >> tile & 1 == 1:
            start = get(at, SOURCE) + members(group & ((1 << tile) - 1)) * get(at, STEP)
            memory = get(sender, state.DDR if get(at, IN_DDR) == 1 else state.SPM)
            target = get(at, TARGET)
            copy_pieces(get(s, state.SPM) + target, memory + start, at + 8 * NEST)
            mark(get(s, state.LINES), target // LINE_BYTES, (target + get(at, SPAN) - 1) // LINE_BYTES)


class Sends:
    """The notes of all tiles."""

    def __init__(self, tiles: int) -> None:
        self.logs = np.zeros((tiles, HEAD + MOST * ENTRY), dtype=np.int64)
        self.addresses = [int(log.ctypes.data) for log in self.logs]
        self.begin()

    def begin(self) -> None:
        """From now on tiles may note copies; there are none."""
        self.logs[:, :HEAD] = NONE

    def take(self, tile: int) -> list[Copy]:
        """The copies that a tile has noted, out of the notes; it notes no more until ``begin``."""
        log = self.logs[tile]
        if log[COUNT] == 0:
            log[ROOM] = 0
            return []
        entries = log[HEAD:].reshape(MOST, ENTRY)[: log[COUNT]].tolist()
        log[COUNT] = log[ROOM] = 0
        return [_copy(entry) for entry in entries]


def _copy(entry: Sequence[int]) -> Copy:
    """The copy that an entry describes."""
    to, of, trips = (tuple(entry[at : at + 3]) for at in (TO, OF, TRIPS))
    tiles = [tile for tile in range(MOST_TILES) if entry[TILES] >> tile & 1]
    starts = [entry[SOURCE] + i * entry[STEP] for i in range(len(tiles) if entry[STEP] else 1)]
    return Copy(
        Pieces(entry[SIZE], (trips[0], trips[1], trips[2])),
        tuple(Side(bool(entry[IN_DDR]), start, (of[0], of[1], of[2])) for start in starts),
        tuple(Target(tile, Side(False, entry[TARGET], (to[0], to[1], to[2]))) for tile in tiles),
    )
