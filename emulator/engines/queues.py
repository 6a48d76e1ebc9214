"""The instruction queues: dependency check, choice and execution, as plain functions that are compiled.

Every instruction gets an entry with the byte ranges that it reads and writes; an engine executes its own
entries in order. In parallel mode an entry may overtake older ones of other engines if no range of theirs
conflicts with one of its own: write and read, read and write, or write and write (docs/isa.md, Queues and
order: byte ranges, results up to the 256-byte line; proposed). In serial mode the oldest entry is always
next. Entries are executed as late as the queue depths allow, so a program that forgets a wait sees old data.

Each worker has separate queues, and nothing orders its entries against those of other workers. The engines
are shared: when several workers have entries, ``arbitrate`` chooses.

``s`` is the address of the tile's state, ``q`` that of the queues of one worker. The queues of the workers
follow one another, those of worker 0 at ``state.QUEUE``.
"""

from __future__ import annotations

from emulator.kernels.shared.checked import NUMERIC_BITS
from emulator.memory import state, stop
from emulator.memory.areas import GRANULE_SHIFT, LINE_SHIFT
from emulator.native.primitives.memory import call_kernel, get, put
from tx8isa.numbers.primitives import s64, u64

from . import tables
from .marks import mark, spoil

# Words of an entry
E_LIVE = 0  # 1 while it is pending
E_ENGINE = 1  # code of its engine
E_SLOT = 2  # slot of its kernel
E_RECORD = 3  # record number
E_FOLLOWER = 4  # sequence number of the engine's next one
E_RANGES = 5  # byte ranges
E_FIRST_RANGE = 6  # MAX_RANGES ranges
MAX_RANGES = 8
E_PC = 38  # core address of the instruction, or of the store that started it
E_FIELDS = 40  # operand values; after the last one the address of the kernel's lookup table
ENTRY = 96
MAX_FIELDS = ENTRY - E_FIELDS - 1

# Words of a range
R_FIRST = 0  # first byte
R_REACH = 1  # last byte that the dependency check uses
R_WRITE = 2  # whether it is written
R_BYTES = 3  # its length
RANGE_WORDS = 4
DDR = 1 << 45
"""Added to DDR offsets in ranges, so that ranges of SPM and DDR never overlap."""

# Words of the queues of one worker
NEXT = 0  # next sequence number
OLDEST = 1  # sequence number of the oldest pending entry
PENDING = 2  # pending entries
SERIAL = 3  # register of the worker: 1 in serial mode
PRIORITY = 4  # register of the worker: the smallest is served first
EXCEPTION = 5  # register of the worker: exceptions raised
MASK = 6  # register of the worker: exceptions that are masked
CULPRIT = 7  # sequence number of the instruction whose exception the register holds
COUNTS = 8  # by engine, pending entries
HEADS = 16  # by engine, sequence number of the first pending entry
TAILS = 24  # by engine, sequence number of the last pending entry
EXECUTED = 32  # by engine, instructions executed
RETURNED = 40  # host address of the worker's write-back registers
HEAD = 48  # the entries, in a ring by sequence number
ENTRIES = 64
ARGUMENTS = HEAD + ENTRIES * ENTRY  # scratch for the arguments of an extent or rule
WORDS = ARGUMENTS + 24

ENGINES = 5
"""Engines with a queue, by code. The next code is SCALAR, which executes when an instruction is issued."""
CT = 0
NE = 1
_NUMERIC = NUMERIC_BITS << 8
"""The numeric bits of CT in the exception and mask registers."""
KEEP_LAST = 48
"""Bit of the mask register: the last exception is kept instead of the first (spec)."""
# Words at state.ORDER
X_SEED = 0
X_LIMIT = 1  # how many decisions are made at random
X_COUNT = 2  # how many were made
X_PC = 3  # core address of the instruction that the last decision executed
X_RECORD = 4  # its record number
X_WORKER = 5  # its worker

# Values of state.WRITE_SPAN
EXACT = 0  # results end where they end
HOSTILE = 1  # the rest of a result's last line is filled with POISON


def entry_at(number: int) -> int:
    """Return the first word of the entry with a sequence number; ``NEXT`` is the entry being built."""
    return HEAD + (number & (ENTRIES - 1)) * ENTRY


def fault(s: int, reason: int, a: int, b: int, c: int, d: int) -> int:
    """Store the explanation of a stop in the state."""
    put(s, state.DETAIL, a)
    put(s, state.DETAIL + 1, b)
    put(s, state.DETAIL + 2, c)
    put(s, state.DETAIL + 3, d)
    return reason


def enqueue(q: int, engine: int) -> None:
    """Put the entry that was built into the queue of its engine."""
    number = get(q, NEXT)
    put(q, entry_at(number) + E_LIVE, 1)
    put(q, NEXT, number + 1)
    put(q, PENDING, get(q, PENDING) + 1)
    pending = get(q, COUNTS + engine)
    if pending == 0:
        put(q, HEADS + engine, number)
    else:
        put(q, entry_at(get(q, TAILS + engine)) + E_FOLLOWER, number)
    put(q, TAILS + engine, number)
    put(q, COUNTS + engine, pending + 1)


def share_bytes(words: int, first: int, first_count: int, second: int, second_count: int) -> bool:
    """Return True if two lists of ranges have bytes in common that one of them writes.

    ``first`` and ``second`` are their positions in ``words``, ``RANGE_WORDS`` words for each range. Simulated
    time calls this for the instructions in its log. The compiler's estimate has the same rule
    (``compiler/search/cost/timeline.py``); a test compares both.
    """
    for i in range(first_count):
        x = first + i * RANGE_WORDS
        for j in range(second_count):
            y = second + j * RANGE_WORDS
            before = get(words, x + R_REACH) < get(words, y + R_FIRST)
            apart = before or get(words, y + R_REACH) < get(words, x + R_FIRST)
            if not apart and get(words, x + R_WRITE) + get(words, y + R_WRITE) != 0:
                return True
    return False


def depends(q: int, a: int, b: int) -> bool:
    """Return True if the younger of two entries has to wait for the older one in parallel mode."""
    a_count, b_count = get(q, a + E_RANGES), get(q, b + E_RANGES)
    return share_bytes(q, a + E_FIRST_RANGE, a_count, b + E_FIRST_RANGE, b_count)


def ready(q: int, number: int) -> bool:
    """Return True if no older pending entry conflicts with this one."""
    entry = entry_at(number)
    for older in range(get(q, OLDEST), number):
        if get(q, entry_at(older) + E_LIVE) == 1 and depends(q, entry, entry_at(older)):
            return False
    return True


def choose(s: int, q: int) -> int:
    """Return the sequence number of the worker's entry to execute next; its queues are not empty.

    Parallel mode serves the engines in turn, so that independent work is really reordered.
    """
    oldest = get(q, OLDEST)
    if get(q, SERIAL) == 1 or get(q, NEXT) - oldest >= ENTRIES - 1:
        return oldest
    if get(q, COUNTS + get(q, entry_at(oldest) + E_ENGINE)) == get(q, PENDING):
        return oldest  # one engine has all entries, which is by far the most frequent case
    engine = get(s, state.TURN)
    for _ in range(ENGINES):
        engine = 0 if engine >= ENGINES - 1 else engine + 1
        if get(q, COUNTS + engine) != 0:
            number = get(q, HEADS + engine)
            if number == oldest or ready(q, number):
                return number
    return oldest


def may_begin(q: int, engine: int) -> bool:
    """Return True if a worker has an entry of an engine that can be executed now."""
    if get(q, COUNTS + engine) == 0:
        return False
    number, oldest = get(q, HEADS + engine), get(q, OLDEST)
    if number == oldest:
        return True
    return get(q, SERIAL) == 0 and get(q, NEXT) - oldest < ENTRIES - 1 and ready(q, number)


def arbitrate(s: int) -> int:
    """Execute one entry of any worker, the engines in turn; return -1 or a stop reason.

    Among workers whose first entry an engine could begin, the one with the smallest priority register is
    served; equal ones are served in turn (both proposed).
    """
    first, workers = get(s, state.QUEUE), get(s, state.WORKERS)
    engine = get(s, state.TURN)
    for _ in range(ENGINES):
        engine = 0 if engine >= ENGINES - 1 else engine + 1
        worker, best, priority = get(s, state.SERVED + engine), -1, 0
        for _ in range(workers):
            worker = 0 if worker >= workers - 1 else worker + 1
            q = first + 8 * WORDS * worker
            if may_begin(q, engine) and (best < 0 or get(q, PRIORITY) < priority):
                best, priority = worker, get(q, PRIORITY)
        if best >= 0:
            q = first + 8 * WORDS * best
            put(s, state.WRITE_BACK, get(q, RETURNED))
            reason = execute(s, q, get(q, HEADS + engine))
            if reason != stop.KERNEL:
                put(s, state.SERVED + engine, best)
            return reason
    return -1


def pseudo_random(seed: int, number: int) -> int:
    """Return a pseudo-random number of 31 bits, by splitmix64."""
    x = u64(u64(seed) + u64(number) * u64(0x9E3779B97F4A7C15))
    x = u64((x ^ (x >> 30)) * u64(0xBF58476D1CE4E5B9))
    x = u64((x ^ (x >> 27)) * u64(0x94D049BB133111EB))
    return s64((x ^ (x >> 31)) >> 33)


def advance_at_random(s: int, q: int) -> int:
    """Execute a random entry of any worker that may begin; return -1 or a stop reason.

    After the decision ``X_LIMIT``, entries are executed in the usual order. The order does not depend on the
    kernels that are already compiled, because a decision that cannot be executed yet is not counted.
    """
    order, first, workers = get(s, state.ORDER), get(s, state.QUEUE), get(s, state.WORKERS)
    number = get(order, X_COUNT)
    if number >= get(order, X_LIMIT):
        return advance_in_order(s, q)
    ready_ones = 0
    for place in range(workers * ENGINES):
        ready_ones += 1 if may_begin(first + 8 * WORDS * (place // ENGINES), place % ENGINES) else 0
    left = pseudo_random(get(order, X_SEED), number) % max(ready_ones, 1)
    for place in range(workers * ENGINES):
        worker, engine = place // ENGINES, place % ENGINES
        block = first + 8 * WORDS * worker
        if may_begin(block, engine):
            if left == 0:
                return execute_chosen(s, block, worker, engine)
            left -= 1
    return -1


def execute_chosen(s: int, q: int, worker: int, engine: int) -> int:
    """Execute the entry that was chosen at random; return -1 or a stop reason."""
    order, number = get(s, state.ORDER), get(q, HEADS + engine)
    pc, record = get(q, entry_at(number) + E_PC), get(q, entry_at(number) + E_RECORD)
    put(s, state.WRITE_BACK, get(q, RETURNED))
    reason = execute(s, q, number)
    if reason != stop.KERNEL:
        put(s, state.SERVED + engine, worker)
        put(order, X_COUNT, get(order, X_COUNT) + 1)
        put(order, X_PC, pc)
        put(order, X_RECORD, record)
        put(order, X_WORKER, worker)
    return reason


def execute_early(s: int, q: int) -> None:
    """Execute random entries before anything waits for them, as early as the chip may."""
    order = get(s, state.ORDER)
    while get(q, PENDING) > 0 and get(order, X_COUNT) < get(order, X_LIMIT):
        number = get(order, X_COUNT)
        if pseudo_random(get(order, X_SEED) + 1, number) & 1 == 0:
            put(order, X_COUNT, number + 1)
            return
        if advance_at_random(s, q) >= 0:
            return


def advance(s: int, q: int) -> int:
    """Execute one entry, perhaps of another worker if several are in use; return -1 or a stop reason."""
    return advance_in_order(s, q) if get(s, state.ORDER) == 0 else advance_at_random(s, q)


def advance_in_order(s: int, q: int) -> int:
    """Execute one entry in the usual order."""
    if get(s, state.SEVERAL) == 0:
        return execute(s, q, choose(s, q))
    return arbitrate(s)


def execute(s: int, q: int, number: int) -> int:
    """Execute one entry, the first of its engine, and remove it from the queues; return -1 or a stop reason.

    A missing kernel leaves the entry in place, because the order must not depend on which kernels are
    compiled.
    """
    entry = entry_at(number)
    engine = get(q, entry + E_ENGINE)
    reason = run_entry(s, q, number, engine)
    if reason != stop.KERNEL:
        put(s, state.TURN, engine)
        retire(q, entry, engine)
    return reason


def run_entry(s: int, q: int, number: int, engine: int) -> int:
    """Run one entry's kernel; return -1, ``stop.KERNEL`` for one not compiled yet, or ``stop.EXCEPTION``."""
    entry = entry_at(number)
    if get(s, state.MADE) != 0 and engine < ENGINES:
        return run_without_data(s, q, entry, engine)
    slot = get(q, entry + E_SLOT)
    if engine == CT and get(q, MASK) & _NUMERIC != _NUMERIC:
        slot += tables.CHECKED
    kernels = get(s, state.KERNELS) + 16 * slot
    if get(kernels, 0) == 0:
        return fault(s, stop.KERNEL, slot, 0, 0, 0)
    header = tables.HEADER * get(q, entry + E_RECORD)
    count = get(get(s, state.RECORDS), header + tables.OPERANDS)
    put(q, entry + E_FIELDS + count, get(kernels, 1))
    call_kernel(get(kernels, 0), q + 8 * (entry + E_FIELDS), s)
    account(s, q, entry, engine)
    bits = get(s, state.NUMERIC)
    if bits == 0:
        return -1
    put(s, state.NUMERIC, 0)
    return raise_exception(s, q, bits << (8 * engine + 8 if engine < ENGINES else 0), number)


def run_without_data(s: int, q: int, entry: int, engine: int) -> int:
    """Count an entry in a run without data; return -1, or ``stop.MADE`` if the program needs its data."""
    if engine == CT and get(q, MASK) & _NUMERIC != _NUMERIC:
        return fault(s, stop.MADE, 0, 0, get(q, entry + E_RECORD), 0)
    account(s, q, entry, engine)
    return -1


def raise_exception(s: int, q: int, bits: int, number: int) -> int:
    """Record bits of the exception register, raised by the worker's instruction ``number``.

    The register keeps the first bits, or with ``KEEP_LAST`` the last. Returns -1, or ``stop.EXCEPTION`` for
    an unmasked bit if the machine is set to stop.
    """
    mask = get(q, MASK)
    if get(q, EXCEPTION) == 0 or (mask >> KEEP_LAST) & 1 == 1:
        put(q, EXCEPTION, bits)
        put(q, CULPRIT, number)
    worker = (q - get(s, state.QUEUE)) // (8 * WORDS)
    if get(s, state.FIRST_EXCEPTION) == 0:
        put(s, state.FIRST_EXCEPTION, 1 << worker)
    if get(s, state.STOP_ON_EXCEPTION) == 1 and bits & ~mask != 0:
        return fault(s, stop.EXCEPTION, worker, bits & ~mask, number, 0)
    return -1


def account(s: int, q: int, entry: int, engine: int) -> None:
    """Count the instruction and its bytes, and mark the lines of SPM and granules of DDR it wrote."""
    put(q, EXECUTED + engine, get(q, EXECUTED + engine) + 1)
    counts = get(s, state.COUNTS) + 32 * get(q, entry + E_RECORD)
    put(counts, 0, get(counts, 0) + 1)
    for i in range(get(q, entry + E_RANGES)):
        at = entry + E_FIRST_RANGE + i * RANGE_WORDS
        write = get(q, at + R_WRITE)
        put(counts, 1 + write, get(counts, 1 + write) + get(q, at + R_BYTES))
        first = get(q, at + R_FIRST)
        if write == 1 and get(s, state.MADE) != 0:
            mark_made(s, first, get(q, at + R_REACH))
        elif write == 1 and first >= DDR:
            last = get(q, at + R_REACH) - DDR >> GRANULE_SHIFT
            mark(get(s, state.DDR_MARKS), first - DDR >> GRANULE_SHIFT, last)
        elif write == 1:
            mark(get(s, state.LINES), first >> LINE_SHIFT, get(q, at + R_REACH) >> LINE_SHIFT)
            if get(s, state.WRITE_SPAN) == HOSTILE and engine <= NE:
                spoil(s, first + get(q, at + R_BYTES), get(q, at + R_REACH) + 1)


def mark_made(s: int, first: int, last: int) -> None:
    """In a run without data, mark the lines that an engine or a copy would have written."""
    if first >= DDR:
        mark(get(s, state.MADE), first - DDR >> LINE_SHIFT, last - DDR >> LINE_SHIFT)
    else:
        mark(get(s, state.MADE_SPM), first >> LINE_SHIFT, last >> LINE_SHIFT)


def retire(q: int, entry: int, engine: int) -> None:
    """Remove an executed entry, the first of its engine, from the queues."""
    put(q, entry + E_LIVE, 0)
    put(q, PENDING, get(q, PENDING) - 1)
    put(q, COUNTS + engine, get(q, COUNTS + engine) - 1)
    put(q, HEADS + engine, get(q, entry + E_FOLLOWER))
    oldest = get(q, OLDEST)
    while oldest < get(q, NEXT) and get(q, entry_at(oldest) + E_LIVE) == 0:
        oldest += 1
    put(q, OLDEST, oldest)


def make_room(s: int, q: int, engine: int) -> int:
    """Execute until the queue of an engine has room for one more entry; return -1 or a stop reason."""
    depth = get(s, state.DEPTH + engine)
    while get(q, COUNTS + engine) >= depth or get(q, NEXT) - get(q, OLDEST) >= ENTRIES - 1:
        reason = advance(s, q)
        if reason >= 0:
            return reason
    return -1
