"""The simulation: what happens next on the chip, as a plain function that is compiled.

Events are worked off in the order of time, and those of one time in the order of tiles, so that tiles share
DDR and links as they do on the chip. A tile whose log is worked off holds back everything that is later than
its clock: it may still do something before. Waiting tiles and those that have ended hold back nothing.
"""

from __future__ import annotations

from emulator.engines import queues
from emulator.native import compile_kernel
from emulator.native.primitives.memory import get, put

from . import layout as a
from .cores import begin_ready, fetch, look_again, release_barrier, take_effect
from .engines import complete, engine_at, work
from .flows import ended_flow, find_next, pass_time, remove_flow
from .mesh import arrive, message_at, move

HELD, OUT_FULL = 0, 1
"""Results of ``simulate``: nothing more can be known; somebody has to take slices first."""


def simulate(c: int) -> int:
    """Work off events until a tile's log ends that holds back all others, or there is no room for slices."""
    most = get(c, a.H_OUT_SIZE) - get(c, a.H_TILES) - 2 * a.MOST_MESSAGES - 2 * queues.ENGINES
    tiles, first, size = get(c, a.H_TILES), get(c, a.H_TILE_AT), get(c, a.H_TILE_WORDS)
    feed(c)
    while get(c, a.H_OUT_ROWS) < most:
        best, found, hold = a.HUGE, -1, a.HUGE
        p = first
        for _ in range(tiles):
            if get(c, p + a.P_NEXT) < best:
                best, found = get(c, p + a.P_NEXT), p
            hold = min(hold, get(c, p + a.P_HOLD))
            p += size
        flows = get(c, a.H_DDR_NEXT) < best
        if flows:
            best = get(c, a.H_DDR_NEXT)
        if best == a.HUGE or (best >= hold and get(c, a.H_OVER) == 0):
            return HELD
        put(c, a.H_NOW, best)
        if flows:
            end_flow(c)
        else:
            step(c, found)
    return OUT_FULL


def feed(c: int) -> None:
    """Let tiles go on whose logs have grown."""
    p = get(c, a.H_TILE_AT)
    for _ in range(get(c, a.H_TILES)):
        if get(c, p + a.P_CORE) == a.STARVED and get(c, p + a.P_LOG_AT) < get(c, p + a.P_LOG_END):
            fetch(c, p)
            put(c, p + a.P_NEXT, min(get(c, p + a.P_NEXT), get(c, p + a.P_DUE)))
        p += get(c, a.H_TILE_WORDS)


def end_flow(c: int) -> None:
    """A DDR flow ends: an engine's instruction, or a message."""
    pass_time(c)
    flow = ended_flow(c)
    if flow != 0:
        p, who = get(c, flow + a.F_TILE), get(c, flow + a.F_WHO)
        remove_flow(c, flow)
        if who < queues.ENGINES:
            complete(c, p, who)
        else:
            message_event(c, p, who - queues.ENGINES)
        settle(c, p)
    find_next(c)


def step(c: int, p: int) -> None:
    """Work off what a tile has to do now: engines first, then messages, then the core."""
    now = get(c, a.H_NOW)
    for engine in range(queues.ENGINES):
        if get(c, engine_at(p, engine) + a.E_EVENT) <= now and work(c, p, engine):
            complete(c, p, engine)
    if get(c, p + a.P_MESSAGE_NEXT) <= now:
        for number in range(a.MOST_MESSAGES):
            if get(c, message_at(p, number) + a.M_EVENT) <= now:
                message_event(c, p, number)
    if get(c, p + a.P_DUE) <= now:
        take_effect(c, p)
    settle(c, p)


def message_event(c: int, p: int, number: int) -> None:
    """A message begins to flow or arrives; a tile that waited for it goes on."""
    if not move(c, p, number):
        return
    m = message_at(p, number)
    target = get(c, a.H_TILE_AT) + get(c, m + a.M_TARGET) * get(c, a.H_TILE_WORDS)
    stream = get(c, m + a.M_STREAM)
    arrive(c, p, number)
    if stream >= 0:
        put(c, target + a.P_ARRIVED + stream, get(c, target + a.P_ARRIVED + stream) + 1)
        if get(c, target + a.P_CORE) == a.FOR_ARRIVAL:
            look_again(c, target)
            put(c, target + a.P_NEXT, min(get(c, target + a.P_NEXT), get(c, target + a.P_DUE)))


def settle(c: int, p: int) -> None:
    """After events of a tile: let its core and engines go on, and find its next event."""
    core = get(c, p + a.P_CORE)
    if core == a.AT_BARRIER:
        release_barrier(c, p)
    elif core != a.RUNNING and core != a.STARVED:
        look_again(c, p)
    if get(c, p + a.P_PENDING) != 0:
        begin_ready(c, p)
    following = get(c, p + a.P_DUE)
    for engine in range(queues.ENGINES):
        following = min(following, get(c, engine_at(p, engine) + a.E_EVENT))
    if get(c, p + a.P_MESSAGES) != 0:
        event = a.HUGE
        for number in range(a.MOST_MESSAGES):
            event = min(event, get(c, message_at(p, number) + a.M_EVENT))
        put(c, p + a.P_MESSAGE_NEXT, event)
        following = min(following, event)
    else:
        put(c, p + a.P_MESSAGE_NEXT, a.HUGE)
    put(c, p + a.P_NEXT, following)


def simulate_kernel() -> int:
    """Address of the compiled simulation."""
    return compile_kernel(simulate, "simulated time", 1)
