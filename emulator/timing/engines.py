"""Engines, queues and dependencies of one tile in simulated time. Plain functions that are compiled.

An instruction begins when its engine is free, it is the first of its worker's queue, and every conflicting
older one of the worker has ended (``queues.share_bytes``). In serial mode all older ones conflict. CT and
TDMA share a path for their data. An instruction of one of them begins so late that its data finds the path
free. Among several workers with such an instruction, the one with the smallest priority register is served;
equal ones are served in turn.
"""

from __future__ import annotations

from emulator.engines import queues
from emulator.engines.queues import share_bytes
from emulator.native.primitives.memory import get, put

from . import layout
from .flows import begin_flow
from .output import emit_instruction
from .slices import Cause

_DEPENDENCY, _BANK, _DDR = int(Cause.DEPENDENCY), int(Cause.BANK), int(Cause.DDR)
_RANGE = queues.RANGE_WORDS
BANK_SHIFT, BANKS = 8, 7


def worker_at(place: int, worker: int) -> int:
    """Return the position of a worker of the tile at ``place``."""
    return place + layout.P_QUEUES + worker * layout.WORKER_WORDS


def engine_at(place: int, engine: int) -> int:
    """Return the position of an engine of the tile at ``place``."""
    return place + layout.P_ENGINES + engine * layout.ENGINE_WORDS


def free_slot(chip: int, queue: int) -> int:
    """Return the number of an unused slot of a worker, or ``SLOTS``."""
    live = get(chip, queue + layout.W_LIVE)
    slot = 0
    while (live >> slot) & 1 == 1:
        slot += 1
    return slot


def has_room(chip: int, queue: int, engine: int) -> bool:
    """Return True if a queue takes one more instruction."""
    if get(chip, queue + layout.W_PENDING + engine) >= get(chip, layout.H_DEPTH + engine):
        return False
    return get(chip, queue + layout.W_COUNT) < layout.SLOTS


def has_vector(chip: int, queue: int) -> bool:
    """Return True if a worker has an unfinished CT instruction: only their results are waited for."""
    for number in range(layout.SLOTS):
        slot = queue + layout.W_SLOTS + number * layout.SLOT_WORDS
        if (get(chip, queue + layout.W_LIVE) >> number) & 1 == 1 and get(
            chip, slot + layout.S_ENGINE
        ) == queues.CT:
            return True
    return False


def conflicts(chip: int, first: int, second: int) -> bool:
    """Return True if the later of two instructions of a worker waits for the earlier one."""
    if get(chip, first + layout.S_SERIAL) + get(chip, second + layout.S_SERIAL) != 0:
        return True
    first_count, second_count = get(chip, first + layout.S_RANGES), get(chip, second + layout.S_RANGES)
    return share_bytes(chip, first + layout.S_PAYLOAD, first_count, second + layout.S_PAYLOAD, second_count)


def enter(chip: int, place: int, row: int) -> None:
    """Take the instruction of a log row into its queue, now."""
    queue = worker_at(place, get(row, layout.L_WORKER))
    number = free_slot(chip, queue)
    slot = queue + layout.W_SLOTS + number * layout.SLOT_WORDS
    for i in range(layout.S_FIELDS + 1):
        put(chip, slot + i, get(row, layout.L_PC + i))
    length = (get(row, layout.L_KIND) >> layout.LENGTH_SHIFT) - layout.L_PAYLOAD
    for i in range(length):
        put(chip, slot + layout.S_PAYLOAD + i, get(row, layout.L_PAYLOAD + i))
    live, depends = get(chip, queue + layout.W_LIVE), 0
    for other in range(layout.SLOTS):
        if live >> other == 0:
            break
        if (live >> other) & 1 == 1 and conflicts(
            chip, slot, queue + layout.W_SLOTS + other * layout.SLOT_WORDS
        ):
            depends |= 1 << other
    put(chip, queue + layout.W_LIVE, live | 1 << number)
    put(chip, queue + layout.W_COUNT, get(chip, queue + layout.W_COUNT) + 1)
    put(chip, slot + layout.S_DEPENDS, depends)
    put(chip, slot + layout.S_RELEASED, -1)
    put(chip, slot + layout.S_NUMBER, get(chip, place + layout.P_NUMBER))
    put(chip, place + layout.P_NUMBER, get(chip, place + layout.P_NUMBER) + 1)
    put(chip, slot + layout.S_ISSUED, get(chip, layout.H_NOW))
    append(chip, place, queue, slot)


def append(chip: int, place: int, queue: int, slot: int) -> None:
    """Put an instruction at the end of its queue."""
    engine = get(chip, slot + layout.S_ENGINE)
    pending = get(chip, queue + layout.W_PENDING + engine)
    if pending == 0:
        put(chip, queue + layout.W_HEADS + engine, slot)
    else:
        put(chip, get(chip, queue + layout.W_TAILS + engine) + layout.S_FOLLOWER, slot)
    put(chip, queue + layout.W_TAILS + engine, slot)
    put(chip, queue + layout.W_PENDING + engine, pending + 1)
    put(chip, place + layout.P_PENDING, get(chip, place + layout.P_PENDING) + 1)


def choose(chip: int, place: int, engine: int) -> int:
    """Return the worker whose instruction an idle engine begins next, or -1."""
    best, priority = -1, 0
    workers = get(chip, layout.H_WORKERS)
    worker = get(chip, engine_at(place, engine) + layout.E_SERVED)
    for _ in range(workers):
        worker = 0 if worker >= workers - 1 else worker + 1
        queue = worker_at(place, worker)
        if get(chip, queue + layout.W_PENDING + engine) != 0:
            head = get(chip, queue + layout.W_HEADS + engine)
            if get(chip, head + layout.S_DEPENDS) == 0 and (
                best < 0 or get(chip, head + layout.S_PRIORITY) < priority
            ):
                best, priority = worker, get(chip, head + layout.S_PRIORITY)
    return best


def lose(chip: int, slot: int, ticks: int, cause: int, blocker: int) -> None:
    """Record why an instruction lost time, if it has not lost more for another reason."""
    if ticks > get(chip, slot + layout.S_BLOCKED):
        put(chip, slot + layout.S_BLOCKED, ticks)
        put(chip, slot + layout.S_CAUSE, cause)
        put(chip, slot + layout.S_BLOCKER, blocker)


def begin(chip: int, place: int, engine: int, worker: int) -> None:
    """Let an idle engine begin the first instruction of a worker's queue."""
    queue, unit, now = worker_at(place, worker), engine_at(place, engine), get(chip, layout.H_NOW)
    slot = get(chip, queue + layout.W_HEADS + engine)
    put(chip, queue + layout.W_HEADS + engine, get(chip, slot + layout.S_FOLLOWER))
    put(chip, queue + layout.W_PENDING + engine, get(chip, queue + layout.W_PENDING + engine) - 1)
    put(chip, place + layout.P_PENDING, get(chip, place + layout.P_PENDING) - 1)
    put(chip, unit + layout.E_SLOT, slot)
    put(chip, unit + layout.E_SERVED, worker)
    put(chip, unit + layout.E_WORKER, worker)
    put(chip, slot + layout.S_STARTED, now)
    put(chip, slot + layout.S_BLOCKED, 0)
    put(chip, slot + layout.S_CAUSE, 0)
    put(chip, slot + layout.S_BLOCKER, -1)
    waited = now - max(get(chip, slot + layout.S_ISSUED), get(chip, unit + layout.E_FREE))
    lose(chip, slot, waited, _DEPENDENCY, get(chip, slot + layout.S_RELEASED))
    if get(chip, place + layout.P_RUNNING) == 0:
        put(chip, place + layout.P_UNION_SINCE, now)
    put(chip, place + layout.P_RUNNING, get(chip, place + layout.P_RUNNING) + 1)
    collide(chip, place, engine, slot)
    ready = now + get(chip, slot + layout.S_FIXED)
    if engine == queues.CT or engine == queues.NE or engine == TDMA:
        put(chip, unit + layout.E_PHASE, layout.AT_WORK)
        put(chip, unit + layout.E_EVENT, ready + get(chip, slot + layout.S_DATA))
        take_path(chip, place, slot, ready)
    else:
        put(chip, unit + layout.E_PHASE, layout.BEFORE_FLOW)
        put(chip, unit + layout.E_EVENT, ready)


TDMA = 4


def path_free(chip: int, place: int, slot: int) -> bool:
    """Return True if an instruction's path is free in time; if not, the engine tries again later."""
    start = get(chip, place + layout.P_PATH_FREE) - get(chip, slot + layout.S_FIXED)
    if get(chip, slot + layout.S_EXCLUSIVE) == 0 or start <= get(chip, layout.H_NOW):
        return True
    put(chip, slot + layout.S_RELEASED, get(chip, place + layout.P_PATH_HOLDER))
    put(chip, engine_at(place, get(chip, slot + layout.S_ENGINE)) + layout.E_EVENT, start)
    return False


def take_path(chip: int, place: int, slot: int, ready: int) -> None:
    """Take the path of CT and TDMA for a data phase that begins at ``ready``."""
    if get(chip, slot + layout.S_EXCLUSIVE) != 0:
        put(chip, place + layout.P_PATH_FREE, ready + get(chip, slot + layout.S_DATA))
        put(chip, place + layout.P_PATH_HOLDER, get(chip, slot + layout.S_NUMBER))


def first_banks(chip: int, slot: int) -> int:
    """Return bits of the banks in which the SPM ranges of an instruction begin."""
    banks = 0
    for i in range(get(chip, slot + layout.S_RANGES)):
        first = get(chip, slot + layout.S_PAYLOAD + i * _RANGE + queues.R_FIRST)
        if first < queues.DDR:
            banks |= 1 << ((first >> BANK_SHIFT) & BANKS)
    return banks


def collide(chip: int, place: int, engine: int, slot: int) -> None:
    """Lengthen the data phase for every busy engine that began in one of the same banks (proposed)."""
    banks, more = first_banks(chip, slot), 0
    share = get(chip, slot + layout.S_DATA) * get(chip, layout.H_COLLISION) // layout.MILLION
    if share == 0:
        return
    for other in range(queues.ENGINES):
        running = get(chip, engine_at(place, other) + layout.E_SLOT)
        if other != engine and running != 0 and first_banks(chip, running) & banks != 0:
            more += share
            lose(chip, slot, more, _BANK, get(chip, running + layout.S_NUMBER))
    put(chip, slot + layout.S_DATA, get(chip, slot + layout.S_DATA) + more)


def work(chip: int, place: int, engine: int) -> bool:
    """Process an engine's event; return True if its instruction has ended."""
    unit = engine_at(place, engine)
    slot = get(chip, unit + layout.E_SLOT)
    if slot == 0:  # the path that it waited for is free
        put(chip, unit + layout.E_EVENT, layout.HUGE)
        return False
    if get(chip, unit + layout.E_PHASE) == layout.AT_WORK:
        return True
    if get(chip, slot + layout.S_DATA) == 0:
        return True
    put(chip, unit + layout.E_PHASE, layout.FLOWING)
    put(chip, unit + layout.E_FLOWING, get(chip, layout.H_NOW))
    put(chip, unit + layout.E_EVENT, layout.HUGE)
    moved, runs = get(chip, slot + layout.S_MOVED), get(chip, slot + layout.S_RUNS)
    begin_flow(chip, place, engine, moved, runs, get(chip, slot + layout.S_DATA))
    return False


def complete(chip: int, place: int, engine: int) -> None:
    """End the instruction of an engine now, and release its dependents."""
    unit, now = engine_at(place, engine), get(chip, layout.H_NOW)
    slot, worker = get(chip, unit + layout.E_SLOT), get(chip, unit + layout.E_WORKER)
    if get(chip, unit + layout.E_PHASE) == layout.FLOWING:
        late = now - get(chip, unit + layout.E_FLOWING) - get(chip, slot + layout.S_DATA)
        lose(chip, slot, late, _DDR, -1)
    queue = worker_at(place, worker)
    blocked = queue + layout.W_BLOCKED + engine
    put(chip, blocked, get(chip, blocked) + get(chip, slot + layout.S_BLOCKED))
    busy = place + layout.P_BUSY + engine
    put(chip, busy, get(chip, busy) + now - get(chip, slot + layout.S_STARTED))
    put(chip, place + layout.P_RUNNING, get(chip, place + layout.P_RUNNING) - 1)
    if get(chip, place + layout.P_RUNNING) == 0:
        union = place + layout.P_BUSY + layout.UNION
        put(chip, union, get(chip, union) + now - get(chip, place + layout.P_UNION_SINCE))
    emit_instruction(chip, place, slot, now)
    put(chip, unit + layout.E_SLOT, 0)
    put(chip, unit + layout.E_PHASE, layout.FREE)
    put(chip, unit + layout.E_EVENT, layout.HUGE)
    put(chip, unit + layout.E_FREE, now)
    put(chip, place + layout.P_LAST_END, max(now, get(chip, place + layout.P_LAST_END)))
    if (
        get(chip, place + layout.P_CORE) == layout.FOR_WORKER
        or get(chip, place + layout.P_CORE) == layout.FOR_RESULT
    ):
        put(chip, place + layout.P_FREED, get(chip, slot + layout.S_NUMBER))
    release(chip, queue, slot)


def release(chip: int, queue: int, slot: int) -> None:
    """Remove an instruction that has ended from the dependencies of the others."""
    number = (slot - queue - layout.W_SLOTS) // layout.SLOT_WORDS
    live = get(chip, queue + layout.W_LIVE) & ~(1 << number)
    put(chip, queue + layout.W_LIVE, live)
    put(chip, queue + layout.W_COUNT, get(chip, queue + layout.W_COUNT) - 1)
    for other in range(layout.SLOTS):
        if live >> other == 0:
            break
        at = queue + layout.W_SLOTS + other * layout.SLOT_WORDS
        if (live >> other) & 1 == 1 and (get(chip, at + layout.S_DEPENDS) >> number) & 1 == 1:
            put(chip, at + layout.S_DEPENDS, get(chip, at + layout.S_DEPENDS) & ~(1 << number))
            put(chip, at + layout.S_RELEASED, get(chip, slot + layout.S_NUMBER))
