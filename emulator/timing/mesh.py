"""Copies between tiles in simulated time: the mesh, and messages on it. Plain functions that are compiled.

A copy is one message for each target. After the fixed time its bytes pass all links of its route at once: out
of the sender's DTE, along x, then along y (docs/isa.md, Tiles and numbers), into the target's memory. A link
carries one message at a time. Bytes that come from DDR or go there also take part in the flows of ``flows``.
"""

from __future__ import annotations

from emulator.engines import queues, tables
from emulator.engines.queues import entry_at
from emulator.memory import state
from emulator.native.primitives.memory import get, put
from emulator.tile import notes
from tx8isa.cost.terms import run_bytes

from . import layout
from .flows import begin_flow
from .output import emit_copy
from .slices import Cause

_NOC, _DDR = int(Cause.NOC), int(Cause.DDR)


def step_to(chip: int, tile: int, target: int) -> int:
    """Return the direction of the next link from a tile to another."""
    rows = get(chip, layout.H_ROWS)
    x, y, to_x, to_y = tile // rows, tile % rows, target // rows, target % rows
    if x != to_x:
        return layout.EAST if to_x > x else layout.WEST
    return layout.SOUTH if to_y > y else layout.NORTH


def neighbour(chip: int, tile: int, direction: int) -> int:
    """Return the tile that a link leads to."""
    rows = get(chip, layout.H_ROWS)
    if direction == layout.EAST:
        return tile + rows
    if direction == layout.WEST:
        return tile - rows
    return tile + 1 if direction == layout.SOUTH else tile - 1


def link_at(chip: int, tile: int, direction: int) -> int:
    """Return the position of a link of a tile."""
    return get(chip, layout.H_LINKS) + tile * layout.LINKS + direction


def hops(chip: int, tile: int, target: int) -> int:
    """Return the number of links between two tiles."""
    rows = get(chip, layout.H_ROWS)
    return abs(tile // rows - target // rows) + abs(tile % rows - target % rows)


def route_free(chip: int, tile: int, target: int) -> int:
    """Return the time at which all links of a route are free."""
    free = max(get(chip, link_at(chip, tile, layout.OUT)), get(chip, link_at(chip, target, layout.IN)))
    while tile != target:
        direction = step_to(chip, tile, target)
        free = max(free, get(chip, link_at(chip, tile, direction)))
        tile = neighbour(chip, tile, direction)
    return free


def occupy_route(chip: int, tile: int, target: int, until: int) -> None:
    """Occupy all links of a route."""
    put(chip, link_at(chip, tile, layout.OUT), until)
    put(chip, link_at(chip, target, layout.IN), until)
    while tile != target:
        direction = step_to(chip, tile, target)
        put(chip, link_at(chip, tile, direction), until)
        tile = neighbour(chip, tile, direction)


def message_at(place: int, number: int) -> int:
    """Return the position of a message of the tile at ``place``."""
    return place + layout.P_COPIES + number * layout.MESSAGE_WORDS


def used(chip: int, message: int) -> int:
    """Return 1 for a message that is on its way, 0 for a free place."""
    return 0 if get(chip, message + layout.M_PHASE) == layout.FREE else 1


def free_message(chip: int, place: int) -> int:
    """Return the number of an unused message, which always exists."""
    number = 0
    while get(chip, message_at(place, number) + layout.M_PHASE) != layout.FREE:
        number += 1
    return number


def send(chip: int, place: int, row: int) -> None:
    """Send the message of a log row: a copy to one target, or a packet counter update."""
    now, number = get(chip, layout.H_NOW), free_message(chip, place)
    message, kind = message_at(place, number), get(row, layout.L_KIND) & 255
    tile, target = get(chip, place + layout.P_TILE), get(row, layout.C_TARGET)
    put(chip, message + layout.M_KIND, kind)
    put(chip, message + layout.M_PC, get(row, layout.L_PC))
    put(chip, message + layout.M_TARGET, target)
    put(chip, message + layout.M_STREAM, get(row, layout.C_STREAM))
    put(chip, message + layout.M_ISSUED, now)
    put(chip, message + layout.M_BLOCKED, 0)
    put(chip, message + layout.M_CAUSE, 0)
    put(chip, message + layout.M_NUMBER, get(chip, place + layout.P_NUMBER))
    put(chip, message + layout.M_DDR, 0)
    put(chip, message + layout.M_PHASE, layout.AT_WORK)
    put(chip, place + layout.P_MESSAGES, get(chip, place + layout.P_MESSAGES) + 1)
    away = target >= get(chip, layout.H_TILES)
    if kind == layout.UPDATE:
        way = 0 if away else hops(chip, tile, target)
        put(chip, message + layout.M_EVENT, now + way * get(chip, layout.H_HOP))
        if away:
            depart(chip, tile, message, now)
        return
    describe(chip, message, row)
    ready = now + get(chip, layout.H_DTE_FIXED)
    if get(chip, place + layout.P_SENT) == 0:
        ready += get(chip, layout.H_DTE_FIRST)
    put(chip, place + layout.P_SENT, get(chip, place + layout.P_SENT) + 1)
    if away:
        send_away(chip, message, tile, ready)
    else:
        send_here(chip, message, tile, target, ready)


def send_here(chip: int, message: int, tile: int, target: int, ready: int) -> None:
    """Send a copy that is ready to another tile of this chip."""
    way = hops(chip, tile, target) * get(chip, layout.H_HOP)
    begin = max(ready, route_free(chip, tile, target))
    if begin > ready:
        put(chip, message + layout.M_BLOCKED, begin - ready)
        put(chip, message + layout.M_CAUSE, _NOC)
    bytes_end = begin + link_ticks(chip, message)
    occupy_route(chip, tile, target, bytes_end)
    put(chip, message + layout.M_BEGIN, begin)
    put(chip, message + layout.M_END, bytes_end + way)
    put(chip, message + layout.M_EVENT, bytes_end + way)
    if get(chip, message + layout.M_DDR) != 0 and bytes_end > begin:
        put(chip, message + layout.M_PHASE, layout.BEFORE_FLOW)
        put(chip, message + layout.M_EVENT, begin)


def send_away(chip: int, message: int, tile: int, ready: int) -> None:
    """Send a copy that is ready out of its DTE to another chip, which will say when it has arrived."""
    out = link_at(chip, tile, layout.OUT)
    begin = max(ready, get(chip, out))
    if begin > ready:
        put(chip, message + layout.M_BLOCKED, begin - ready)
        put(chip, message + layout.M_CAUSE, _NOC)
    bytes_end = begin + link_ticks(chip, message)
    put(chip, out, bytes_end)
    depart(chip, tile, message, begin)
    put(chip, message + layout.M_BEGIN, begin)
    put(chip, message + layout.M_END, layout.HUGE)
    put(chip, message + layout.M_EVENT, layout.HUGE)
    if get(chip, message + layout.M_DDR) != 0 and bytes_end > begin:
        put(chip, message + layout.M_PHASE, layout.BEFORE_FLOW)
        put(chip, message + layout.M_EVENT, begin)


def depart(chip: int, tile: int, message: int, begin: int) -> None:
    """Record that a message reaches the first link of its way to another chip."""
    row = get(chip, layout.H_AWAY) + 8 * layout.AWAY_WORDS * get(chip, layout.H_AWAY_ROWS)
    put(chip, layout.H_AWAY_ROWS, get(chip, layout.H_AWAY_ROWS) + 1)
    put(row, layout.D_TILE, tile)
    put(row, layout.D_TICKET, layout.AWAY - get(chip, message + layout.M_STREAM))
    put(row, layout.D_BEGIN, begin)
    put(row, layout.D_MESSAGE, message)


def link_ticks(chip: int, message: int) -> int:
    """Return the ticks in which the bytes of a copy pass a link."""
    return get(chip, message + layout.M_BYTES) * (layout.KILO * layout.KILO) // get(chip, layout.H_LINK)


def describe(chip: int, message: int, row: int) -> None:
    """Record the contents of a copy's slice."""
    put(chip, message + layout.M_RECORD, get(row, layout.C_RECORD))
    put(chip, message + layout.M_BYTES, get(row, layout.C_BYTES))
    put(chip, message + layout.M_DDR, get(row, layout.C_DDR))
    put(chip, message + layout.M_RUNS, get(row, layout.C_RUNS))
    put(chip, message + layout.M_RANGES, get(row, layout.C_RANGES))
    put(chip, message + layout.M_FIELDS, get(row, layout.C_FIELDS))
    length = (get(row, layout.L_KIND) >> layout.LENGTH_SHIFT) - layout.C_PAYLOAD
    for i in range(length):
        put(chip, message + layout.M_PAYLOAD + i, get(row, layout.C_PAYLOAD + i))


def move(chip: int, place: int, number: int) -> bool:
    """Process a message's event; return True if it has arrived."""
    message, now = message_at(place, number), get(chip, layout.H_NOW)
    if get(chip, message + layout.M_PHASE) == layout.AT_WORK:
        return True
    if get(chip, message + layout.M_PHASE) == layout.BEFORE_FLOW:
        put(chip, message + layout.M_PHASE, layout.FLOWING)
        put(chip, message + layout.M_EVENT, layout.HUGE)
        sides = (get(chip, message + layout.M_DDR) & 1) + (get(chip, message + layout.M_DDR) >> 1)
        ticks = max(link_ticks(chip, message), 1)
        size, runs = sides * get(chip, message + layout.M_BYTES), get(chip, message + layout.M_RUNS)
        begin_flow(chip, place, queues.ENGINES + number, size, runs, ticks)
    elif now < get(chip, message + layout.M_END):  # its flow has ended, its last link has not
        put(chip, message + layout.M_PHASE, layout.AT_WORK)
        put(chip, message + layout.M_EVENT, get(chip, message + layout.M_END))
    else:
        late = now - get(chip, message + layout.M_END)
        if late > get(chip, message + layout.M_BLOCKED):
            put(chip, message + layout.M_BLOCKED, late)
            put(chip, message + layout.M_CAUSE, _DDR)
        return True
    return False


def arrive(chip: int, place: int, number: int) -> None:
    """Count a message as done at its sender, as it has arrived."""
    message, now = message_at(place, number), get(chip, layout.H_NOW)
    put(chip, message + layout.M_PHASE, layout.FREE)
    put(chip, message + layout.M_EVENT, layout.HUGE)
    put(chip, place + layout.P_MESSAGES, get(chip, place + layout.P_MESSAGES) - 1)
    put(chip, place + layout.P_LAST_END, max(now, get(chip, place + layout.P_LAST_END)))
    if get(chip, message + layout.M_KIND) == layout.COPY:
        put(chip, place + layout.P_SENT_DONE, get(chip, place + layout.P_SENT_DONE) + 1)
        if (
            get(chip, place + layout.P_CORE) == layout.FOR_COPIES
            or get(chip, place + layout.P_CORE) == layout.FOR_MESSAGE
        ):
            put(chip, place + layout.P_FREED, get(chip, message + layout.M_NUMBER))
        emit_copy(chip, place, message, now)


# -- the log -----------------------------------------------------------------------------------------------


def log_copies(tile_state: int, head: int, row: int) -> int:
    """Write the rows of the copy that a tile sends, one for each target; returns the words used."""
    note, retired = get(tile_state, state.DETAIL + 1), get(row, layout.L_RETIRED)
    group, source, words = get(note, notes.TILES), get(note, notes.SOURCE), 0
    for target in range(notes.MOST_TILES):
        if (group >> target) & 1 == 1:
            at = row + 8 * words
            put(at, layout.L_RETIRED, retired)
            put(at, layout.L_PC, get(tile_state, state.PC))
            put(at, layout.L_COST, layout.H_SEND if words == 0 else layout.H_NOTHING)
            put(at, layout.C_TARGET, target)
            put(at, layout.C_LAST, 1 if group >> target == 1 else 0)
            words += log_copy(tile_state, at, note, source)
            source += get(note, notes.STEP)
            put(head, layout.T_SENT, get(head, layout.T_SENT) + 1)
    return words


def log_copy(tile_state: int, row: int, note: int, source: int) -> int:
    """Write the rest of the row of a copy to one target, which has its bytes; returns its words."""
    from_ddr, to_ddr, target = get(note, notes.IN_DDR), get(note, notes.TO_DDR), get(note, notes.TARGET)
    size, record = get(note, notes.SIZE), get(tile_state, state.DETAIL)
    for level in range(3):
        size *= get(note, notes.TRIPS + level)
    fields = get(get(tile_state, state.RECORDS), record * tables.HEADER + tables.OPERANDS)
    put(row, layout.L_WORKER, 0)
    put(row, layout.C_STREAM, -1)
    put(row, layout.C_BYTES, size)
    put(row, layout.C_DDR, layout.SOURCE_IN_DDR * from_ddr + layout.TARGET_IN_DDR * to_ddr)
    put(row, layout.C_RECORD, record)
    runs = from_ddr * runs_of(note, notes.OF, size) + to_ddr * runs_of(note, notes.TO, size)
    put(row, layout.C_RUNS, runs)
    put(row, layout.C_RANGES, 2)
    put(row, layout.C_FIELDS, fields)
    payload = row + 8 * layout.C_PAYLOAD
    put_range(payload, source + queues.DDR * from_ddr, size, 0)
    put_range(payload + 8 * queues.RANGE_WORDS, target + queues.DDR * to_ddr, size, 1)
    queue = get(tile_state, state.QUEUE) + 8 * queues.WORDS * get(tile_state, state.WORKER)
    entry = entry_at(get(queue, queues.NEXT)) + queues.E_FIELDS
    at = layout.C_PAYLOAD + 2 * queues.RANGE_WORDS
    for i in range(fields):
        put(row, at + i, get(queue, entry + i))
    put(row, layout.L_KIND, layout.COPY | (at + fields) << layout.LENGTH_SHIFT)
    return at + fields


def runs_of(note: int, strides: int, size: int) -> int:
    """Return the contiguous runs on one side of a copy of ``size`` bytes."""
    first, second, third = get(note, strides), get(note, strides + 1), get(note, strides + 2)
    trips = note + 8 * notes.TRIPS
    run = run_bytes(get(note, notes.SIZE), first, get(trips, 0), second, get(trips, 1), third, get(trips, 2))
    return size // max(run, 1)


def put_range(at: int, first: int, size: int, written: int) -> None:
    """Write a range as the row of an instruction has it."""
    put(at, queues.R_FIRST, first)
    put(at, queues.R_REACH, first + size - 1)
    put(at, queues.R_WRITE, written)
    put(at, queues.R_BYTES, size)
