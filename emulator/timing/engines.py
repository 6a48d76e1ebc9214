"""Engines, queues and dependencies of one tile in time; plain functions that are compiled.

An instruction begins when its engine is free, it is the first of its worker's queue, and every older one of
the worker that conflicts with it (``queues.share_bytes``) has ended; in serial mode all of them conflict.
CT and TDMA share a path for their data: one of them begins so late that it finds the path free.
Of several workers with such an instruction the one with the smallest priority is served, equal ones in turn.
"""

from __future__ import annotations

from emulator.engines import queues
from emulator.engines.queues import share_bytes
from emulator.native.primitives.memory import get, put

from . import layout as a
from .flows import begin_flow
from .output import emit_instruction
from .slices import Cause

_DEPENDENCY, _BANK, _DDR = int(Cause.DEPENDENCY), int(Cause.BANK), int(Cause.DDR)
_RANGE = queues.RANGE_WORDS
BANK_SHIFT, BANKS = 8, 7


def worker_at(p: int, worker: int) -> int:
    """Place of a worker of the tile at ``p``."""
    return p + a.P_QUEUES + worker * a.WORKER_WORDS


def engine_at(p: int, engine: int) -> int:
    """Place of an engine of the tile at ``p``."""
    return p + a.P_ENGINES + engine * a.ENGINE_WORDS


def free_slot(c: int, w: int) -> int:
    """Number of a slot of a worker that is not in use, or ``SLOTS``."""
    live = get(c, w + a.W_LIVE)
    slot = 0
    while (live >> slot) & 1 == 1:
        slot += 1
    return slot


def has_room(c: int, w: int, engine: int) -> bool:
    """Whether a queue takes one more instruction."""
    if get(c, w + a.W_PENDING + engine) >= get(c, a.H_DEPTH + engine):
        return False
    return get(c, w + a.W_COUNT) < a.SLOTS


def has_vector(c: int, w: int) -> bool:
    """Whether a worker has an unfinished instruction of CT: only these return results that are waited for."""
    for number in range(a.SLOTS):
        slot = w + a.W_SLOTS + number * a.SLOT_WORDS
        if (get(c, w + a.W_LIVE) >> number) & 1 == 1 and get(c, slot + a.S_ENGINE) == queues.CT:
            return True
    return False


def conflicts(c: int, first: int, second: int) -> bool:
    """Whether the later of two instructions of a worker waits for the other."""
    if get(c, first + a.S_SERIAL) + get(c, second + a.S_SERIAL) != 0:
        return True
    first_count, second_count = get(c, first + a.S_RANGES), get(c, second + a.S_RANGES)
    return share_bytes(c, first + a.S_PAYLOAD, first_count, second + a.S_PAYLOAD, second_count)


def enter(c: int, p: int, row: int) -> None:
    """Take the instruction of a log row into its queue, now."""
    w = worker_at(p, get(row, a.L_WORKER))
    number = free_slot(c, w)
    slot = w + a.W_SLOTS + number * a.SLOT_WORDS
    for i in range(a.S_FIELDS + 1):
        put(c, slot + i, get(row, a.L_PC + i))
    length = (get(row, a.L_KIND) >> a.LENGTH_SHIFT) - a.L_PAYLOAD
    for i in range(length):
        put(c, slot + a.S_PAYLOAD + i, get(row, a.L_PAYLOAD + i))
    live, depends = get(c, w + a.W_LIVE), 0
    for other in range(a.SLOTS):
        if live >> other == 0:
            break
        if (live >> other) & 1 == 1 and conflicts(c, slot, w + a.W_SLOTS + other * a.SLOT_WORDS):
            depends |= 1 << other
    put(c, w + a.W_LIVE, live | 1 << number)
    put(c, w + a.W_COUNT, get(c, w + a.W_COUNT) + 1)
    put(c, slot + a.S_DEPENDS, depends)
    put(c, slot + a.S_RELEASED, -1)
    put(c, slot + a.S_NUMBER, get(c, p + a.P_NUMBER))
    put(c, p + a.P_NUMBER, get(c, p + a.P_NUMBER) + 1)
    put(c, slot + a.S_ISSUED, get(c, a.H_NOW))
    append(c, p, w, slot)


def append(c: int, p: int, w: int, slot: int) -> None:
    """Put an instruction at the end of its queue."""
    engine = get(c, slot + a.S_ENGINE)
    pending = get(c, w + a.W_PENDING + engine)
    if pending == 0:
        put(c, w + a.W_HEADS + engine, slot)
    else:
        put(c, get(c, w + a.W_TAILS + engine) + a.S_FOLLOWER, slot)
    put(c, w + a.W_TAILS + engine, slot)
    put(c, w + a.W_PENDING + engine, pending + 1)
    put(c, p + a.P_PENDING, get(c, p + a.P_PENDING) + 1)


def choose(c: int, p: int, engine: int) -> int:
    """Worker whose instruction an idle engine begins, or -1."""
    best, priority = -1, 0
    workers = get(c, a.H_WORKERS)
    worker = get(c, engine_at(p, engine) + a.E_SERVED)
    for _ in range(workers):
        worker = 0 if worker >= workers - 1 else worker + 1
        w = worker_at(p, worker)
        if get(c, w + a.W_PENDING + engine) != 0:
            head = get(c, w + a.W_HEADS + engine)
            if get(c, head + a.S_DEPENDS) == 0 and (best < 0 or get(c, head + a.S_PRIORITY) < priority):
                best, priority = worker, get(c, head + a.S_PRIORITY)
    return best


def lose(c: int, slot: int, ticks: int, cause: int, blocker: int) -> None:
    """Note why an instruction lost time, if it has not lost more for another reason."""
    if ticks > get(c, slot + a.S_BLOCKED):
        put(c, slot + a.S_BLOCKED, ticks)
        put(c, slot + a.S_CAUSE, cause)
        put(c, slot + a.S_BLOCKER, blocker)


def begin(c: int, p: int, engine: int, worker: int) -> None:
    """Let an idle engine begin the first instruction of a worker's queue."""
    w, e, now = worker_at(p, worker), engine_at(p, engine), get(c, a.H_NOW)
    slot = get(c, w + a.W_HEADS + engine)
    put(c, w + a.W_HEADS + engine, get(c, slot + a.S_FOLLOWER))
    put(c, w + a.W_PENDING + engine, get(c, w + a.W_PENDING + engine) - 1)
    put(c, p + a.P_PENDING, get(c, p + a.P_PENDING) - 1)
    put(c, e + a.E_SLOT, slot)
    put(c, e + a.E_SERVED, worker)
    put(c, e + a.E_WORKER, worker)
    put(c, slot + a.S_STARTED, now)
    put(c, slot + a.S_BLOCKED, 0)
    put(c, slot + a.S_CAUSE, 0)
    put(c, slot + a.S_BLOCKER, -1)
    waited = now - max(get(c, slot + a.S_ISSUED), get(c, e + a.E_FREE))
    lose(c, slot, waited, _DEPENDENCY, get(c, slot + a.S_RELEASED))
    if get(c, p + a.P_RUNNING) == 0:
        put(c, p + a.P_UNION_SINCE, now)
    put(c, p + a.P_RUNNING, get(c, p + a.P_RUNNING) + 1)
    collide(c, p, engine, slot)
    ready = now + get(c, slot + a.S_FIXED)
    if engine == queues.CT or engine == queues.NE or engine == TDMA:
        put(c, e + a.E_PHASE, a.AT_WORK)
        put(c, e + a.E_EVENT, ready + get(c, slot + a.S_DATA))
        take_path(c, p, slot, ready)
    else:
        put(c, e + a.E_PHASE, a.BEFORE_FLOW)
        put(c, e + a.E_EVENT, ready)


TDMA = 4


def path_free(c: int, p: int, slot: int) -> bool:
    """Whether an instruction would find the path free that it needs; else its engine looks again then."""
    start = get(c, p + a.P_PATH_FREE) - get(c, slot + a.S_FIXED)
    if get(c, slot + a.S_EXCLUSIVE) == 0 or start <= get(c, a.H_NOW):
        return True
    put(c, slot + a.S_RELEASED, get(c, p + a.P_PATH_HOLDER))
    put(c, engine_at(p, get(c, slot + a.S_ENGINE)) + a.E_EVENT, start)
    return False


def take_path(c: int, p: int, slot: int, ready: int) -> None:
    """The path of CT and TDMA is taken for a data phase that begins at ``ready``."""
    if get(c, slot + a.S_EXCLUSIVE) != 0:
        put(c, p + a.P_PATH_FREE, ready + get(c, slot + a.S_DATA))
        put(c, p + a.P_PATH_HOLDER, get(c, slot + a.S_NUMBER))


def first_banks(c: int, slot: int) -> int:
    """Bits of the banks in which the SPM ranges of an instruction begin."""
    banks = 0
    for i in range(get(c, slot + a.S_RANGES)):
        first = get(c, slot + a.S_PAYLOAD + i * _RANGE + queues.R_FIRST)
        if first < queues.DDR:
            banks |= 1 << ((first >> BANK_SHIFT) & BANKS)
    return banks


def collide(c: int, p: int, engine: int, slot: int) -> None:
    """Lengthen the data phase for every engine at work that began in one of the same banks (proposed)."""
    banks, more = first_banks(c, slot), 0
    share = get(c, slot + a.S_DATA) * get(c, a.H_COLLISION) // a.MILLION
    if share == 0:
        return
    for other in range(queues.ENGINES):
        running = get(c, engine_at(p, other) + a.E_SLOT)
        if other != engine and running != 0 and first_banks(c, running) & banks != 0:
            more += share
            lose(c, slot, more, _BANK, get(c, running + a.S_NUMBER))
    put(c, slot + a.S_DATA, get(c, slot + a.S_DATA) + more)


def work(c: int, p: int, engine: int) -> bool:
    """An engine's event; whether its instruction has ended."""
    e = engine_at(p, engine)
    slot = get(c, e + a.E_SLOT)
    if slot == 0:  # the path is free that it waited for
        put(c, e + a.E_EVENT, a.HUGE)
        return False
    if get(c, e + a.E_PHASE) == a.AT_WORK:
        return True
    if get(c, slot + a.S_DATA) == 0:
        return True
    put(c, e + a.E_PHASE, a.FLOWING)
    put(c, e + a.E_FLOWING, get(c, a.H_NOW))
    put(c, e + a.E_EVENT, a.HUGE)
    begin_flow(c, p, engine, get(c, slot + a.S_MOVED), get(c, slot + a.S_DATA))
    return False


def complete(c: int, p: int, engine: int) -> None:
    """The instruction of an engine ends now; what depended on it is released."""
    e, now = engine_at(p, engine), get(c, a.H_NOW)
    slot, worker = get(c, e + a.E_SLOT), get(c, e + a.E_WORKER)
    if get(c, e + a.E_PHASE) == a.FLOWING:
        late = now - get(c, e + a.E_FLOWING) - get(c, slot + a.S_DATA)
        lose(c, slot, late, _DDR, -1)
    w = worker_at(p, worker)
    blocked = w + a.W_BLOCKED + engine
    put(c, blocked, get(c, blocked) + get(c, slot + a.S_BLOCKED))
    busy = p + a.P_BUSY + engine
    put(c, busy, get(c, busy) + now - get(c, slot + a.S_STARTED))
    put(c, p + a.P_RUNNING, get(c, p + a.P_RUNNING) - 1)
    if get(c, p + a.P_RUNNING) == 0:
        union = p + a.P_BUSY + a.UNION
        put(c, union, get(c, union) + now - get(c, p + a.P_UNION_SINCE))
    emit_instruction(c, p, slot, now)
    put(c, e + a.E_SLOT, 0)
    put(c, e + a.E_PHASE, a.FREE)
    put(c, e + a.E_EVENT, a.HUGE)
    put(c, e + a.E_FREE, now)
    put(c, p + a.P_LAST_END, max(now, get(c, p + a.P_LAST_END)))
    if get(c, p + a.P_CORE) == a.FOR_WORKER or get(c, p + a.P_CORE) == a.FOR_RESULT:
        put(c, p + a.P_FREED, get(c, slot + a.S_NUMBER))
    release(c, w, slot)


def release(c: int, w: int, slot: int) -> None:
    """Take an instruction that has ended out of what others wait for."""
    number = (slot - w - a.W_SLOTS) // a.SLOT_WORDS
    live = get(c, w + a.W_LIVE) & ~(1 << number)
    put(c, w + a.W_LIVE, live)
    put(c, w + a.W_COUNT, get(c, w + a.W_COUNT) - 1)
    for other in range(a.SLOTS):
        if live >> other == 0:
            break
        at = w + a.W_SLOTS + other * a.SLOT_WORDS
        if (live >> other) & 1 == 1 and (get(c, at + a.S_DEPENDS) >> number) & 1 == 1:
            put(c, at + a.S_DEPENDS, get(c, at + a.S_DEPENDS) & ~(1 << number))
            put(c, at + a.S_RELEASED, get(c, slot + a.S_NUMBER))
