"""The kernel core of a tile in time: it works off its log; plain functions that are compiled.

Between two rows the core needs its time for each instruction. A row takes effect at ``P_DUE``; then the core
goes on with the next one, or waits until something else lets it (``resume``).
"""

from __future__ import annotations

from emulator.engines import queues
from emulator.native.primitives.memory import get, put

from . import layout as a
from .engines import begin, choose, engine_at, enter, has_room, has_vector, path_free, worker_at
from .mesh import send
from .output import emit_instruction, emit_wait
from .slices import Cause

_QUEUE, _DEPENDENCY, _DTE = int(Cause.QUEUE), int(Cause.DEPENDENCY), int(Cause.DTE)
_ARRIVAL, _BARRIER = int(Cause.ARRIVAL), int(Cause.BARRIER)
SCALAR = queues.ENGINES


def row_at(c: int, p: int) -> int:
    """Host address of the row at the cursor."""
    return get(c, p + a.P_LOG) + 8 * get(c, p + a.P_LOG_AT)


def fetch(c: int, p: int) -> None:
    """Find when the row at the cursor takes effect; without one the core is starved."""
    while get(c, p + a.P_LOG_AT) < get(c, p + a.P_LOG_END):
        row = row_at(c, p)
        kind, retired = get(row, a.L_KIND) & 255, get(row, a.L_RETIRED)
        passed = retired - get(c, p + a.P_RETIRED)
        clock = get(c, p + a.P_CLOCK) + max(passed, 0) * get(c, a.H_CPI)
        put(c, p + a.P_CLOCK, clock)
        if kind != a.PROGRESS:
            put(c, p + a.P_RETIRED, max(retired + 1, get(c, p + a.P_RETIRED)))
            put(c, p + a.P_CORE, a.RUNNING)
            put(c, p + a.P_HOLD, a.HUGE)
            put(c, p + a.P_DUE, max(clock + effort(c, p, row, kind), get(c, a.H_NOW)))
            return
        put(c, p + a.P_RETIRED, max(retired, get(c, p + a.P_RETIRED)))
        put(c, p + a.P_LOG_AT, get(c, p + a.P_LOG_AT) + a.SHORT_ROW)
    put(c, p + a.P_CORE, a.STARVED)
    put(c, p + a.P_DUE, a.HUGE)
    put(c, p + a.P_HOLD, get(c, p + a.P_CLOCK))


def effort(c: int, p: int, row: int, kind: int) -> int:
    """What the core needs before a row takes effect."""
    if kind == a.COPY:
        return get(row, a.L_COST)
    if kind != a.ENGINE:
        return 0
    first = get(c, p + a.P_SUBMITTED) == 0
    put(c, p + a.P_SUBMITTED, 1)
    return get(c, a.H_ISSUE_COLD) if first else get(c, a.H_ISSUE)


def next_row(c: int, p: int, clock: int) -> None:
    """The row at the cursor is done at ``clock``."""
    put(c, p + a.P_CLOCK, clock)
    put(c, p + a.P_LOG_AT, get(c, p + a.P_LOG_AT) + (get(row_at(c, p), a.L_KIND) >> a.LENGTH_SHIFT))
    fetch(c, p)


def wait(c: int, p: int, what: int, which: int, count: int) -> None:
    """Let the core wait at its row."""
    put(c, p + a.P_CORE, what)
    put(c, p + a.P_SINCE, get(c, a.H_NOW))
    put(c, p + a.P_FOR, which)
    put(c, p + a.P_COUNT, count)
    put(c, p + a.P_FREED, -1)
    put(c, p + a.P_DUE, a.HUGE)


def take_effect(c: int, p: int) -> None:
    """The row at the cursor takes effect now."""
    row, now = row_at(c, p), get(c, a.H_NOW)
    kind = get(row, a.L_KIND) & 255
    if kind == a.ENGINE:
        submit(c, p, row)
    elif kind == a.WAIT or kind == a.SEEN:
        worker = get(row, a.L_WORKER)
        if get(c, worker_at(p, worker) + a.W_COUNT) == 0:
            next_row(c, p, now + get(row, a.L_COST))
        else:
            wait(c, p, a.FOR_WORKER, worker, 0)
    elif kind == a.RESULT:
        if has_vector(c, worker_at(p, get(row, a.L_WORKER))):
            wait(c, p, a.FOR_RESULT, get(row, a.L_WORKER), 0)
        else:
            next_row(c, p, now + get(row, a.L_COST))
    elif kind == a.COPY or kind == a.UPDATE or kind == a.AWAIT or kind == a.ARRIVAL:
        communicate(c, p, row, kind)
    elif kind == a.BARRIER:
        wait(c, p, a.AT_BARRIER, get(row, a.L_FIRST), 0)
    elif kind == a.READ:
        take_snapshot(c, p)
        next_row(c, p, now + get(row, a.L_COST))
    else:
        put(c, p + a.P_CLOCK, now)
        put(c, p + a.P_CORE, a.EXITED)
        put(c, p + a.P_DUE, a.HUGE)


def communicate(c: int, p: int, row: int, kind: int) -> None:
    """A row that has to do with copies takes effect now."""
    now = get(c, a.H_NOW)
    if kind == a.COPY or kind == a.UPDATE:
        if get(c, p + a.P_MESSAGES) < a.MOST_MESSAGES:
            post(c, p, row)
        else:
            wait(c, p, a.FOR_MESSAGE, 0, 0)
    elif kind == a.AWAIT:
        if get(c, p + a.P_SENT_DONE) >= get(row, a.L_FIRST):
            next_row(c, p, now + get(row, a.L_COST))
        else:
            wait(c, p, a.FOR_COPIES, 0, get(row, a.L_FIRST))
    else:
        stream, count = get(row, a.L_FIRST), get(row, a.L_SECOND)
        if get(c, p + a.P_ARRIVED + stream) >= count:
            next_row(c, p, now + get(row, a.L_COST))
        else:
            wait(c, p, a.FOR_ARRIVAL, stream, count)


def submit(c: int, p: int, row: int) -> None:
    """Give an instruction to its queue, or wait for room; SCALAR executes it at once."""
    engine, now = get(row, a.L_ENGINE), get(c, a.H_NOW)
    if engine == SCALAR:
        execute_scalar(c, p, row)
    elif has_room(c, worker_at(p, get(row, a.L_WORKER)), engine):
        enter(c, p, row)
        next_row(c, p, now)
    else:
        wait(c, p, a.FOR_ROOM, get(row, a.L_WORKER), engine)


def execute_scalar(c: int, p: int, row: int) -> None:
    """SCALAR works while the core waits for its result."""
    now, slot = get(c, a.H_NOW), p + a.P_SCALAR
    for i in range(a.S_FIELDS + 1):
        put(c, slot + i, get(row, a.L_PC + i))
    length = (get(row, a.L_KIND) >> a.LENGTH_SHIFT) - a.L_PAYLOAD
    for i in range(length):
        put(c, slot + a.S_PAYLOAD + i, get(row, a.L_PAYLOAD + i))
    put(c, slot + a.S_NUMBER, get(c, p + a.P_NUMBER))
    put(c, p + a.P_NUMBER, get(c, p + a.P_NUMBER) + 1)
    put(c, slot + a.S_ISSUED, now)
    put(c, slot + a.S_STARTED, now)
    put(c, slot + a.S_BLOCKED, 0)
    put(c, slot + a.S_CAUSE, 0)
    put(c, slot + a.S_BLOCKER, -1)
    ended = now + get(row, a.L_FIXED) + get(row, a.L_DATA)
    busy = p + a.P_BUSY + SCALAR
    put(c, busy, get(c, busy) + ended - now)
    emit_instruction(c, p, slot, ended)
    next_row(c, p, ended)


def post(c: int, p: int, row: int) -> None:
    """Send the message of a row. A copy to several targets is one instruction."""
    send(c, p, row)
    if get(row, a.L_KIND) & 255 == a.COPY and get(row, a.C_LAST) == 1:
        put(c, p + a.P_NUMBER, get(c, p + a.P_NUMBER) + 1)
    next_row(c, p, get(c, a.H_NOW))


def resume(c: int, p: int, cause: int, worker: int, cost: int) -> None:
    """Let a core that waits go on behind its row."""
    emit_wait(c, p, cause, worker, get(row_at(c, p), a.L_PC))
    next_row(c, p, get(c, a.H_NOW) + cost)


def look_again(c: int, p: int) -> None:
    """Let a core go on if what it waits for is there; barriers are left to ``release_barrier``."""
    core, row = get(c, p + a.P_CORE), row_at(c, p)
    which, count = get(c, p + a.P_FOR), get(c, p + a.P_COUNT)
    if core == a.FOR_ROOM and has_room(c, worker_at(p, which), count):
        emit_wait(c, p, _QUEUE, which, get(row, a.L_PC))
        submit(c, p, row)
    elif has_ended(c, worker_at(p, which), core):
        resume(c, p, _DEPENDENCY, which, get(row, a.L_COST))
    elif core == a.FOR_COPIES and get(c, p + a.P_SENT_DONE) >= count:
        resume(c, p, _DTE, 0, get(row, a.L_COST))
    elif core == a.FOR_MESSAGE and get(c, p + a.P_MESSAGES) < a.MOST_MESSAGES:
        emit_wait(c, p, _DTE, 0, get(row, a.L_PC))
        post(c, p, row)
    elif core == a.FOR_ARRIVAL and get(c, p + a.P_ARRIVED + which) >= count:
        resume(c, p, _ARRIVAL, 0, get(row, a.L_COST))


def has_ended(c: int, w: int, core: int) -> bool:
    """Whether a core waits for a worker's instructions that have ended."""
    if core == a.FOR_WORKER:
        return get(c, w + a.W_COUNT) == 0
    return core == a.FOR_RESULT and not has_vector(c, w)


def begin_ready(c: int, p: int) -> None:
    """Let idle engines begin what is ready; that may give the core room for more, and so on."""
    again = True
    while again:
        again = False
        for engine in range(queues.ENGINES):
            if get(c, p + a.P_PENDING) != 0 and get(c, engine_at(p, engine) + a.E_SLOT) == 0:
                worker = choose(c, p, engine)
                if worker >= 0 and path_free(c, p, get(c, worker_at(p, worker) + a.W_HEADS + engine)):
                    number = freed_by(c, p, engine, worker)
                    begin(c, p, engine, worker)
                    if get(c, p + a.P_CORE) == a.FOR_ROOM:
                        put(c, p + a.P_FREED, number)
                        look_again(c, p)
                        again = True


def freed_by(c: int, p: int, engine: int, worker: int) -> int:
    """Number of the instruction that is about to leave its queue."""
    return get(c, get(c, worker_at(p, worker) + a.W_HEADS + engine) + a.S_NUMBER)


def release_barrier(c: int, p: int) -> None:
    """Let all tiles of the barrier that a tile is at go on, if all are there."""
    group, first = get(c, p + a.P_FOR), get(c, a.H_TILE_AT)
    for tile in range(get(c, a.H_TILES)):
        other = first + tile * get(c, a.H_TILE_WORDS)
        if (group >> tile) & 1 == 1 and not (
            get(c, other + a.P_CORE) == a.AT_BARRIER and get(c, other + a.P_FOR) == group
        ):
            return
    for tile in range(get(c, a.H_TILES)):
        other = first + tile * get(c, a.H_TILE_WORDS)
        if (group >> tile) & 1 == 1:
            resume(c, other, _BARRIER, 0, get(c, a.H_BARRIER))
            put(c, other + a.P_NEXT, min(get(c, other + a.P_NEXT), get(c, other + a.P_DUE)))


def take_snapshot(c: int, p: int) -> None:
    """Note the clock, and how long each unit has worked and was blocked so far."""
    now, at = get(c, a.H_NOW), p + a.P_SNAPSHOT
    put(c, p + a.P_READS, get(c, p + a.P_READS) + 1)
    put(c, at, now)
    at += 1
    for unit in range(a.UNITS):
        put(c, at + unit, get(c, p + a.P_BUSY + unit))
    if get(c, p + a.P_RUNNING) != 0:
        put(c, at + a.UNION, get(c, at + a.UNION) + now - get(c, p + a.P_UNION_SINCE))
    for engine in range(queues.ENGINES):
        slot = get(c, engine_at(p, engine) + a.E_SLOT)
        if slot != 0:
            put(c, at + engine, get(c, at + engine) + now - get(c, slot + a.S_STARTED))
    at += a.UNITS
    for worker in range(get(c, a.H_WORKERS)):
        for unit in range(a.BLOCKED_UNITS):
            put(c, at + unit, get(c, worker_at(p, worker) + a.W_BLOCKED + unit))
        at += a.BLOCKED_UNITS
