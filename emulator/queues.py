"""The instruction queues: dependency check, choice and execution, as plain functions that are compiled.

Every instruction gets an entry with the byte ranges it reads and writes; an engine works through its own
entries in order. In parallel mode an entry may overtake older ones of other engines when no range of theirs
meets one of its own, write against read, read against write or write against write (docs/isa.md, Queues and
order: byte ranges, results up to the 256-byte line; proposed). In serial mode the oldest entry is always
next. Entries are executed as late as the queue depths allow, so a program that forgets a wait sees old
data.

``s`` is the address of the tile's state, ``q`` that of its queues.
"""

from __future__ import annotations

from tx8isa.primitives import u64

from . import state, stop, tables
from .native.memory import call_kernel, view_u8
from .words import get, put

ENTRIES = 64
ENTRY = 64
HEAD = 32
NEXT, OLDEST, PENDING, TURN, COUNTS, HEADS, TAILS = 0, 1, 2, 3, 8, 16, 24
"""Words of the header: next and oldest sequence number, entries pending, whose turn it is, and by engine the
entries pending, the sequence numbers of its first and of its last one."""
ARGUMENTS = HEAD + ENTRIES * ENTRY
"""Scratch for the arguments of an extent or rule."""
WORDS = ARGUMENTS + 16

E_LIVE, E_ENGINE, E_SLOT, E_RECORD, E_FOLLOWER, E_RANGES, E_FIRST_RANGE = range(7)
"""Words of an entry; the follower is the sequence number of the engine's next one."""
RANGE_WORDS = 4
R_FIRST, R_REACH, R_WRITE, R_BYTES = range(4)
"""Words of a range: first byte, last one that takes part in the dependency check, whether written, bytes."""
MAX_RANGES = 4
DDR = 1 << 45
"""Added to DDR offsets in ranges, so that one comparison tells the memories apart too."""
E_FIELDS = 24
"""Operand values, and behind the last one the address of the kernel's lookup table."""
MAX_FIELDS = ENTRY - E_FIELDS - 1
ENGINES = 5
SPM_LINE = 256


def entry_at(number: int) -> int:
    """First word of the entry with a sequence number; that of ``NEXT`` is the one being built."""
    return HEAD + (number & (ENTRIES - 1)) * ENTRY


def fault(s: int, reason: int, a: int, b: int, c: int, d: int) -> int:
    """Leave the explanation of a stop in the state."""
    put(s, state.DETAIL, a)
    put(s, state.DETAIL + 1, b)
    put(s, state.DETAIL + 2, c)
    put(s, state.DETAIL + 3, d)
    return reason


def enqueue(q: int, engine: int) -> None:
    """Take the entry that was built into the queue of its engine."""
    number = get(q, NEXT)
    entry = entry_at(number)
    put(q, entry + E_LIVE, 1)
    put(q, entry + E_ENGINE, engine)
    put(q, NEXT, number + 1)
    put(q, PENDING, get(q, PENDING) + 1)
    pending = get(q, COUNTS + engine)
    if pending == 0:
        put(q, HEADS + engine, number)
    else:
        put(q, entry_at(get(q, TAILS + engine)) + E_FOLLOWER, number)
    put(q, TAILS + engine, number)
    put(q, COUNTS + engine, pending + 1)


def overlap(q: int, a: int, b: int) -> bool:
    """Whether two entries have ranges that share bytes, one of them written."""
    for i in range(get(q, a + E_RANGES)):
        x = a + E_FIRST_RANGE + i * RANGE_WORDS
        for j in range(get(q, b + E_RANGES)):
            y = b + E_FIRST_RANGE + j * RANGE_WORDS
            apart = get(q, x + R_FIRST) > get(q, y + R_REACH) or get(q, y + R_FIRST) > get(q, x + R_REACH)
            if not apart and get(q, x + R_WRITE) + get(q, y + R_WRITE) != 0:
                return True
    return False


def ready(q: int, number: int) -> bool:
    """Whether no older pending entry conflicts with this one."""
    entry = entry_at(number)
    for older in range(get(q, OLDEST), number):
        if get(q, entry_at(older) + E_LIVE) == 1 and overlap(q, entry, entry_at(older)):
            return False
    return True


def choose(s: int, q: int) -> int:
    """Sequence number of the entry to execute next; the queues are not empty.

    Parallel mode goes round the engines, so that independent work really is reordered.
    """
    oldest = get(q, OLDEST)
    if get(s, state.SERIAL_MODE) == 1 or get(q, NEXT) - oldest >= ENTRIES - 1:
        return oldest
    engine = get(q, TURN)
    for _ in range(ENGINES):
        engine = 0 if engine >= ENGINES - 1 else engine + 1
        if get(q, COUNTS + engine) != 0:
            number = get(q, HEADS + engine)
            if number == oldest or ready(q, number):
                put(q, TURN, engine)
                return number
    return oldest


def execute(s: int, q: int, number: int) -> int:
    """Run one entry's kernel; -1, or ``stop.KERNEL`` when it is not compiled yet."""
    entry = entry_at(number)
    slot = get(q, entry + E_SLOT)
    kernels = get(s, state.KERNELS) + 16 * slot
    if get(kernels, 0) == 0:
        return fault(s, stop.KERNEL, slot, 0, 0, 0)
    header = tables.HEADER * get(q, entry + E_RECORD)
    count = get(get(s, state.RECORDS), header + tables.OPERANDS)
    put(q, entry + E_FIELDS + count, get(kernels, 1))
    call_kernel(get(kernels, 0), q + 8 * (entry + E_FIELDS), s)
    account(s, q, entry)
    retire(q, entry)
    return -1


def account(s: int, q: int, entry: int) -> None:
    """Count the instruction and its bytes, and mark the SPM lines it wrote."""
    counts = get(s, state.COUNTS) + 32 * get(q, entry + E_RECORD)
    put(counts, 0, get(counts, 0) + 1)
    for i in range(get(q, entry + E_RANGES)):
        at = entry + E_FIRST_RANGE + i * RANGE_WORDS
        write = get(q, at + R_WRITE)
        put(counts, 1 + write, get(counts, 1 + write) + get(q, at + R_BYTES))
        first = get(q, at + R_FIRST)
        if write == 1 and first < DDR:
            begin = first >> 8
            count = (get(q, at + R_REACH) >> 8) - begin + 1
            lines = view_u8(get(s, state.LINES) + begin, count)
            for line in range(u64(count)):
                lines[line] = 1


def retire(q: int, entry: int) -> None:
    """Take an executed entry, the first of its engine, out of the queues."""
    put(q, entry + E_LIVE, 0)
    put(q, PENDING, get(q, PENDING) - 1)
    engine = get(q, entry + E_ENGINE)
    put(q, COUNTS + engine, get(q, COUNTS + engine) - 1)
    put(q, HEADS + engine, get(q, entry + E_FOLLOWER))
    oldest = get(q, OLDEST)
    while oldest < get(q, NEXT) and get(q, entry_at(oldest) + E_LIVE) == 0:
        oldest += 1
    put(q, OLDEST, oldest)


def make_room(s: int, q: int, engine: int) -> int:
    """Execute until the queue of an engine can take one more entry; -1 or a stop reason."""
    depth = get(s, state.DEPTH + engine)
    while get(q, COUNTS + engine) >= depth or get(q, NEXT) - get(q, OLDEST) >= ENTRIES - 1:
        reason = execute(s, q, choose(s, q))
        if reason >= 0:
            return reason
    return -1


def drain(s: int, q: int) -> int:
    """Execute everything that is queued; -1 or a stop reason."""
    while get(q, PENDING) > 0:
        reason = execute(s, q, choose(s, q))
        if reason >= 0:
            return reason
    return -1
