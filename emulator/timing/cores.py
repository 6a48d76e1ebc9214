"""The kernel core of a tile in simulated time, which processes its log. Plain functions that are compiled.

The core needs time for the instructions between two rows. A row takes effect at ``P_DUE``. Then the core
continues with the next one, or waits until another event resumes it (``resume``).
"""

from __future__ import annotations

from emulator.engines import queues
from emulator.native.primitives.memory import get, put

from . import layout
from .engines import begin, choose, engine_at, enter, has_room, has_vector, path_free, worker_at
from .mesh import send
from .output import emit_instruction, emit_wait
from .slices import Cause

_QUEUE, _DEPENDENCY, _DTE = int(Cause.QUEUE), int(Cause.DEPENDENCY), int(Cause.DTE)
_ARRIVAL, _BARRIER, _PROGRAM = int(Cause.ARRIVAL), int(Cause.BARRIER), int(Cause.PROGRAM)
SCALAR = queues.ENGINES


def row_at(chip: int, place: int) -> int:
    """Return the host address of the row at the cursor."""
    return get(chip, place + layout.P_LOG) + 8 * get(chip, place + layout.P_LOG_AT)


def fetch(chip: int, place: int) -> None:
    """Find the time at which the row at the cursor takes effect; without a row the core is starved."""
    while get(chip, place + layout.P_LOG_AT) < get(chip, place + layout.P_LOG_END):
        row = row_at(chip, place)
        kind, retired = get(row, layout.L_KIND) & 255, get(row, layout.L_RETIRED)
        passed = retired - get(chip, place + layout.P_RETIRED)
        clock = get(chip, place + layout.P_CLOCK) + max(passed, 0) * get(chip, layout.H_CPI)
        if kind == layout.EFFORT:
            clock += longer(chip, row)
        put(chip, place + layout.P_CLOCK, clock)
        if kind != layout.PROGRESS and kind != layout.EFFORT:
            put(chip, place + layout.P_RETIRED, max(retired + 1, get(chip, place + layout.P_RETIRED)))
            put(chip, place + layout.P_CORE, layout.RUNNING)
            put(chip, place + layout.P_HOLD, layout.HUGE)
            put(chip, place + layout.P_DUE, max(clock + effort(chip, row, kind), get(chip, layout.H_NOW)))
            return
        put(chip, place + layout.P_RETIRED, max(retired, get(chip, place + layout.P_RETIRED)))
        words = get(row, layout.L_KIND) >> layout.LENGTH_SHIFT
        put(chip, place + layout.P_LOG_AT, get(chip, place + layout.P_LOG_AT) + words)
    put(chip, place + layout.P_CORE, layout.STARVED)
    put(chip, place + layout.P_DUE, layout.HUGE)
    put(chip, place + layout.P_HOLD, get(chip, place + layout.P_CLOCK))


def cost_of(chip: int, row: int) -> int:
    """Return the ticks that the core needs for a row."""
    return get(chip, get(row, layout.L_COST))


def longer(chip: int, row: int) -> int:
    """Return the ticks of the efforts in an EFFORT row."""
    ticks = 0
    for i in range(layout.EFFORTS):
        ticks += get(row, layout.L_EFFORT + i) * get(chip, layout.H_EFFORT + i)
    return ticks


def effort(chip: int, row: int, kind: int) -> int:
    """Return the ticks that the core needs before a row takes effect."""
    if kind == layout.COPY:
        return cost_of(chip, row)
    if kind != layout.ENGINE:
        return 0
    return get(chip, layout.H_ISSUE + get(row, layout.L_ENGINE))


def next_row(chip: int, place: int, clock: int) -> None:
    """Go to the next row; the row at the cursor is complete at ``clock``."""
    put(chip, place + layout.P_CLOCK, clock)
    put(
        chip,
        place + layout.P_LOG_AT,
        get(chip, place + layout.P_LOG_AT) + (get(row_at(chip, place), layout.L_KIND) >> layout.LENGTH_SHIFT),
    )
    fetch(chip, place)


def wait(chip: int, place: int, what: int, which: int, count: int) -> None:
    """Let the core wait at its row."""
    put(chip, place + layout.P_CORE, what)
    put(chip, place + layout.P_SINCE, get(chip, layout.H_NOW))
    put(chip, place + layout.P_FOR, which)
    put(chip, place + layout.P_COUNT, count)
    put(chip, place + layout.P_FREED, -1)
    put(chip, place + layout.P_DUE, layout.HUGE)


def take_effect(chip: int, place: int) -> None:
    """Apply the row at the cursor now."""
    row, now = row_at(chip, place), get(chip, layout.H_NOW)
    kind = get(row, layout.L_KIND) & 255
    if kind == layout.ENGINE:
        submit(chip, place, row)
    elif kind == layout.WAIT or kind == layout.SEEN:
        worker = get(row, layout.L_WORKER)
        if get(chip, worker_at(place, worker) + layout.W_COUNT) == 0:
            next_row(chip, place, now + cost_of(chip, row))
        else:
            wait(chip, place, layout.FOR_WORKER, worker, 0)
    elif kind == layout.RESULT:
        if has_vector(chip, worker_at(place, get(row, layout.L_WORKER))):
            wait(chip, place, layout.FOR_RESULT, get(row, layout.L_WORKER), 0)
        else:
            next_row(chip, place, now + cost_of(chip, row))
    elif kind == layout.COPY or kind == layout.UPDATE or kind == layout.AWAIT or kind == layout.ARRIVAL:
        communicate(chip, place, row, kind)
    elif kind == layout.BARRIER:
        wait(chip, place, layout.AT_BARRIER, get(row, layout.L_FIRST), 0)
    elif kind == layout.READ:
        take_snapshot(chip, place)
        next_row(chip, place, now + cost_of(chip, row))
    else:
        leave(chip, place, row)


def leave(chip: int, place: int, row: int) -> None:
    """End the program. The fixed time of every program is counted here; its real place is unknown.

    A tile that issued no engine instruction gets no slice, which would be its only one.
    """
    if get(chip, place + layout.P_CORE) != layout.LEAVING:
        wait(chip, place, layout.LEAVING, 0, 0)
        put(chip, place + layout.P_DUE, get(chip, layout.H_NOW) + get(chip, layout.H_PROGRAM))
        return
    if get(chip, place + layout.P_NUMBER) != 0:
        emit_wait(chip, place, _PROGRAM, 0, get(row, layout.L_PC))
    put(chip, place + layout.P_CLOCK, get(chip, layout.H_NOW))
    put(chip, place + layout.P_CORE, layout.EXITED)
    put(chip, place + layout.P_DUE, layout.HUGE)


def communicate(chip: int, place: int, row: int, kind: int) -> None:
    """Apply a row about copies between tiles now."""
    if kind == layout.COPY or kind == layout.UPDATE:
        if get(chip, place + layout.P_MESSAGES) < layout.MOST_MESSAGES:
            post(chip, place, row)
        else:
            wait(chip, place, layout.FOR_MESSAGE, 0, 0)
    elif kind == layout.AWAIT:
        count = get(row, layout.L_FIRST)
        look_for(chip, place, layout.FOR_COPIES, 0, count, get(chip, place + layout.P_SENT_DONE))
    else:
        stream, count = get(row, layout.L_FIRST), get(row, layout.L_SECOND)
        there = get(chip, place + layout.P_ARRIVED + stream)
        look_for(chip, place, layout.FOR_ARRIVAL, stream, count, there)


def look_for(chip: int, place: int, what: int, which: int, count: int, there: int) -> None:
    """Continue if as many copies or arrivals have happened as the row at the cursor needs, or let the core
    wait.

    A core that has polled has waited since its clock.
    """
    if there >= count and not has_polled(chip, place):
        next_row(chip, place, get(chip, layout.H_NOW) + cost_of(chip, row_at(chip, place)))
        return
    wait(chip, place, what, which, count)
    if has_polled(chip, place):
        put(chip, place + layout.P_SINCE, get(chip, place + layout.P_CLOCK))
    if there >= count:
        look_again(chip, place)


def has_polled(chip: int, place: int) -> bool:
    """Return True if a core reached its row before now, and time passed that other chips needed."""
    clock = get(chip, place + layout.P_CLOCK)
    return get(chip, layout.H_AWAY) != 0 and clock < get(chip, layout.H_NOW)


def submit(chip: int, place: int, row: int) -> None:
    """Give an instruction to its queue, or wait for room; SCALAR executes it at once."""
    engine, now = get(row, layout.L_ENGINE), get(chip, layout.H_NOW)
    if engine == SCALAR:
        execute_scalar(chip, place, row)
    elif has_room(chip, worker_at(place, get(row, layout.L_WORKER)), engine):
        enter(chip, place, row)
        next_row(chip, place, now)
    else:
        wait(chip, place, layout.FOR_ROOM, get(row, layout.L_WORKER), engine)


def execute_scalar(chip: int, place: int, row: int) -> None:
    """Execute an instruction of SCALAR while the core waits for its result."""
    now, slot = get(chip, layout.H_NOW), place + layout.P_SCALAR
    for i in range(layout.S_FIELDS + 1):
        put(chip, slot + i, get(row, layout.L_PC + i))
    length = (get(row, layout.L_KIND) >> layout.LENGTH_SHIFT) - layout.L_PAYLOAD
    for i in range(length):
        put(chip, slot + layout.S_PAYLOAD + i, get(row, layout.L_PAYLOAD + i))
    put(chip, slot + layout.S_NUMBER, get(chip, place + layout.P_NUMBER))
    put(chip, place + layout.P_NUMBER, get(chip, place + layout.P_NUMBER) + 1)
    put(chip, slot + layout.S_ISSUED, now)
    put(chip, slot + layout.S_STARTED, now)
    put(chip, slot + layout.S_BLOCKED, 0)
    put(chip, slot + layout.S_CAUSE, 0)
    put(chip, slot + layout.S_BLOCKER, -1)
    ended = now + get(row, layout.L_FIXED) + get(row, layout.L_DATA)
    busy = place + layout.P_BUSY + SCALAR
    put(chip, busy, get(chip, busy) + ended - now)
    emit_instruction(chip, place, slot, ended)
    next_row(chip, place, ended)


def post(chip: int, place: int, row: int) -> None:
    """Send the message of a row. A copy to several targets is one instruction."""
    send(chip, place, row)
    if get(row, layout.L_KIND) & 255 == layout.COPY and get(row, layout.C_LAST) == 1:
        put(chip, place + layout.P_NUMBER, get(chip, place + layout.P_NUMBER) + 1)
    next_row(chip, place, get(chip, layout.H_NOW))


def resume(chip: int, place: int, cause: int, worker: int, cost: int) -> None:
    """Let a waiting core continue with the row after its own."""
    emit_wait(chip, place, cause, worker, get(row_at(chip, place), layout.L_PC))
    next_row(chip, place, get(chip, layout.H_NOW) + cost)


def look_again(chip: int, place: int) -> None:
    """Let a core continue if its wait is over, except at barriers (``release_barrier``)."""
    core, row = get(chip, place + layout.P_CORE), row_at(chip, place)
    which, count = get(chip, place + layout.P_FOR), get(chip, place + layout.P_COUNT)
    if core == layout.FOR_ROOM and has_room(chip, worker_at(place, which), count):
        emit_wait(chip, place, _QUEUE, which, get(row, layout.L_PC))
        submit(chip, place, row)
    elif has_ended(chip, worker_at(place, which), core):
        resume(chip, place, _DEPENDENCY, which, cost_of(chip, row))
    elif core == layout.FOR_COPIES and get(chip, place + layout.P_SENT_DONE) >= count:
        resume(chip, place, _DTE, 0, cost_of(chip, row))
    elif core == layout.FOR_MESSAGE and get(chip, place + layout.P_MESSAGES) < layout.MOST_MESSAGES:
        emit_wait(chip, place, _DTE, 0, get(row, layout.L_PC))
        post(chip, place, row)
    elif core == layout.FOR_ARRIVAL and get(chip, place + layout.P_ARRIVED + which) >= count:
        resume(chip, place, _ARRIVAL, 0, cost_of(chip, row))


def has_ended(chip: int, queue: int, core: int) -> bool:
    """Return True if a core waits for a worker's instructions that have ended."""
    if core == layout.FOR_WORKER:
        return get(chip, queue + layout.W_COUNT) == 0
    return core == layout.FOR_RESULT and not has_vector(chip, queue)


def begin_ready(chip: int, place: int) -> None:
    """Let idle engines begin ready instructions; the core may then have room to issue more."""
    again = True
    while again:
        again = False
        for engine in range(queues.ENGINES):
            if (
                get(chip, place + layout.P_PENDING) != 0
                and get(chip, engine_at(place, engine) + layout.E_SLOT) == 0
            ):
                worker = choose(chip, place, engine)
                if worker >= 0 and path_free(
                    chip, place, get(chip, worker_at(place, worker) + layout.W_HEADS + engine)
                ):
                    number = freed_by(chip, place, engine, worker)
                    begin(chip, place, engine, worker)
                    if get(chip, place + layout.P_CORE) == layout.FOR_ROOM:
                        put(chip, place + layout.P_FREED, number)
                        look_again(chip, place)
                        again = True


def freed_by(chip: int, place: int, engine: int, worker: int) -> int:
    """Return the number of the instruction that is about to leave its queue."""
    return get(chip, get(chip, worker_at(place, worker) + layout.W_HEADS + engine) + layout.S_NUMBER)


def release_barrier(chip: int, place: int) -> None:
    """Let all tiles of a tile's barrier continue, if all of them wait there."""
    group, first = get(chip, place + layout.P_FOR), get(chip, layout.H_TILE_AT)
    for tile in range(get(chip, layout.H_TILES)):
        other = first + tile * get(chip, layout.H_TILE_WORDS)
        if (group >> tile) & 1 == 1 and not (
            get(chip, other + layout.P_CORE) == layout.AT_BARRIER and get(chip, other + layout.P_FOR) == group
        ):
            return
    for tile in range(get(chip, layout.H_TILES)):
        other = first + tile * get(chip, layout.H_TILE_WORDS)
        if (group >> tile) & 1 == 1:
            resume(chip, other, _BARRIER, 0, get(chip, layout.H_BARRIER))
            put(
                chip,
                other + layout.P_NEXT,
                min(get(chip, other + layout.P_NEXT), get(chip, other + layout.P_DUE)),
            )


def take_snapshot(chip: int, place: int) -> None:
    """Record the clock, and the busy and blocked time of each unit so far."""
    now, at = get(chip, layout.H_NOW), place + layout.P_SNAPSHOT
    put(chip, place + layout.P_READS, get(chip, place + layout.P_READS) + 1)
    put(chip, at, now)
    at += 1
    for unit in range(layout.UNITS):
        put(chip, at + unit, get(chip, place + layout.P_BUSY + unit))
    if get(chip, place + layout.P_RUNNING) != 0:
        put(
            chip,
            at + layout.UNION,
            get(chip, at + layout.UNION) + now - get(chip, place + layout.P_UNION_SINCE),
        )
    for engine in range(queues.ENGINES):
        slot = get(chip, engine_at(place, engine) + layout.E_SLOT)
        if slot != 0:
            put(chip, at + engine, get(chip, at + engine) + now - get(chip, slot + layout.S_STARTED))
    at += layout.UNITS
    for worker in range(get(chip, layout.H_WORKERS)):
        for unit in range(layout.BLOCKED_UNITS):
            put(chip, at + unit, get(chip, worker_at(place, worker) + layout.W_BLOCKED + unit))
        at += layout.BLOCKED_UNITS
