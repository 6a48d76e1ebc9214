"""The simulation of the next events on the chip, as a plain function that is compiled.

Events are processed in the order of time, and events of one time in the order of tiles, so that tiles share
DDR and links like tiles of the chip. A tile whose log has been processed blocks every event later than its
clock, because it may still do something before. Tiles that wait or have ended block nothing. Other chips
block the events after the time at which they may next send something.
"""

from __future__ import annotations

from emulator.engines import queues
from emulator.native import compile_once
from emulator.native.primitives.memory import get, put

from . import layout
from .cores import begin_ready, fetch, look_again, release_barrier, take_effect
from .engines import complete, engine_at, work
from .flows import ended_flow, find_next, pass_time, remove_flow
from .mesh import arrive, message_at, move, used

HELD, OUT_FULL = 0, 1
"""Results of ``simulate``: nothing more can be known; the caller has to take slices first."""


def simulate(chip: int) -> int:
    """Process events until a tile whose log has ended blocks all others, or there is no room for results."""
    most = (
        get(chip, layout.H_OUT_SIZE)
        - get(chip, layout.H_TILES)
        - 2 * layout.MOST_MESSAGES
        - 2 * queues.ENGINES
    )
    tiles, first, size = (
        get(chip, layout.H_TILES),
        get(chip, layout.H_TILE_AT),
        get(chip, layout.H_TILE_WORDS),
    )
    most_away = layout.AWAY_ROWS - layout.MOST_MESSAGES
    bound = get(chip, layout.H_BOUND)
    if bound == 0:
        bound = layout.HUGE
    feed(chip)
    while get(chip, layout.H_OUT_ROWS) < most and get(chip, layout.H_AWAY_ROWS) < most_away:
        best, found, hold = layout.HUGE, -1, bound
        place = first
        for _ in range(tiles):
            if get(chip, place + layout.P_NEXT) < best:
                best, found = get(chip, place + layout.P_NEXT), place
            hold = min(hold, get(chip, place + layout.P_HOLD))
            place += size
        flows = get(chip, layout.H_DDR_NEXT) < best
        if flows:
            best = get(chip, layout.H_DDR_NEXT)
        if best == layout.HUGE or (best >= hold and get(chip, layout.H_OVER) == 0):
            return HELD
        put(chip, layout.H_NOW, best)
        if flows:
            end_flow(chip)
        else:
            step(chip, found)
    return OUT_FULL


def feed(chip: int) -> None:
    """Let tiles continue whose logs have grown."""
    place = get(chip, layout.H_TILE_AT)
    for _ in range(get(chip, layout.H_TILES)):
        if get(chip, place + layout.P_CORE) == layout.STARVED and get(chip, place + layout.P_LOG_AT) < get(
            chip, place + layout.P_LOG_END
        ):
            fetch(chip, place)
            put(
                chip,
                place + layout.P_NEXT,
                min(get(chip, place + layout.P_NEXT), get(chip, place + layout.P_DUE)),
            )
        place += get(chip, layout.H_TILE_WORDS)


def end_flow(chip: int) -> None:
    """End a DDR flow: an engine's instruction, or a message."""
    pass_time(chip)
    flow = ended_flow(chip)
    if flow != 0:
        place, who = get(chip, flow + layout.F_TILE), get(chip, flow + layout.F_WHO)
        remove_flow(chip, flow)
        if who < queues.ENGINES:
            complete(chip, place, who)
        else:
            message_event(chip, place, who - queues.ENGINES)
        settle(chip, place)
    find_next(chip)


def step(chip: int, place: int) -> None:
    """Process the events of a tile that are due: engines first, then messages, then the core."""
    now = get(chip, layout.H_NOW)
    for engine in range(queues.ENGINES):
        if get(chip, engine_at(place, engine) + layout.E_EVENT) <= now and work(chip, place, engine):
            complete(chip, place, engine)
    if get(chip, place + layout.P_MESSAGE_NEXT) <= now:
        number, seen = 0, 0
        while number < layout.MOST_MESSAGES and seen < get(chip, place + layout.P_MESSAGES):
            message = message_at(place, number)
            if get(chip, message + layout.M_EVENT) <= now:
                message_event(chip, place, number)
            seen += used(chip, message)
            number += 1
    if get(chip, place + layout.P_DUE) <= now:
        take_effect(chip, place)
    settle(chip, place)


def message_event(chip: int, place: int, number: int) -> None:
    """Let a message begin to flow or arrive; a tile that waited for it continues."""
    if not move(chip, place, number):
        return
    message = message_at(place, number)
    target = get(chip, layout.H_TILE_AT) + get(chip, message + layout.M_TARGET) * get(
        chip, layout.H_TILE_WORDS
    )
    stream = get(chip, message + layout.M_STREAM)
    arrive(chip, place, number)
    if stream >= 0:
        put(chip, target + layout.P_ARRIVED + stream, get(chip, target + layout.P_ARRIVED + stream) + 1)
        if get(chip, target + layout.P_CORE) == layout.FOR_ARRIVAL:
            look_again(chip, target)
            put(
                chip,
                target + layout.P_NEXT,
                min(get(chip, target + layout.P_NEXT), get(chip, target + layout.P_DUE)),
            )


def settle(chip: int, place: int) -> None:
    """After events of a tile, let its core and engines continue, and find its next event."""
    core = get(chip, place + layout.P_CORE)
    if core == layout.AT_BARRIER:
        release_barrier(chip, place)
    elif core != layout.RUNNING and core != layout.STARVED:
        look_again(chip, place)
    if get(chip, place + layout.P_PENDING) != 0:
        begin_ready(chip, place)
    following = get(chip, place + layout.P_DUE)
    for engine in range(queues.ENGINES):
        following = min(following, get(chip, engine_at(place, engine) + layout.E_EVENT))
    if get(chip, place + layout.P_MESSAGES) != 0:
        event, number, left = layout.HUGE, 0, get(chip, place + layout.P_MESSAGES)
        while left != 0:
            message = message_at(place, number)
            event = min(event, get(chip, message + layout.M_EVENT))
            left -= used(chip, message)
            number += 1
        put(chip, place + layout.P_MESSAGE_NEXT, event)
        following = min(following, event)
    else:
        put(chip, place + layout.P_MESSAGE_NEXT, layout.HUGE)
    put(chip, place + layout.P_NEXT, following)


def simulate_kernel() -> int:
    """Return the address of the compiled simulation."""
    return compile_once(simulate, "simulated time", 1, compact=True)
