"""Copies between tiles in time: the mesh, and messages on their way; plain functions that are compiled.

A copy is one message for each target. After the fixed time its bytes pass all links of its way at once: out
of the sender's DTE, along x, then along y (docs/isa.md, Tiles and numbers), into the target's memory. A link
passes one message after another. Bytes that come from DDR or go there also flow as ``flows`` says.
"""

from __future__ import annotations

from emulator.engines import queues
from emulator.native.primitives.memory import get, put

from . import layout as a
from .flows import begin_flow
from .output import emit_copy
from .slices import Cause

_NOC, _DDR = int(Cause.NOC), int(Cause.DDR)


def step_to(c: int, tile: int, target: int) -> int:
    """The direction of the next link from a tile to another."""
    rows = get(c, a.H_ROWS)
    x, y, to_x, to_y = tile // rows, tile % rows, target // rows, target % rows
    if x != to_x:
        return a.EAST if to_x > x else a.WEST
    return a.SOUTH if to_y > y else a.NORTH


def neighbour(c: int, tile: int, direction: int) -> int:
    """The tile behind a link."""
    rows = get(c, a.H_ROWS)
    if direction == a.EAST:
        return tile + rows
    if direction == a.WEST:
        return tile - rows
    return tile + 1 if direction == a.SOUTH else tile - 1


def link_at(c: int, tile: int, direction: int) -> int:
    """Place of a link of a tile."""
    return get(c, a.H_LINKS) + tile * a.LINKS + direction


def hops(c: int, tile: int, target: int) -> int:
    """Links between two tiles."""
    rows = get(c, a.H_ROWS)
    return abs(tile // rows - target // rows) + abs(tile % rows - target % rows)


def way_free(c: int, tile: int, target: int) -> int:
    """When all links of a way are free."""
    free = max(get(c, link_at(c, tile, a.OUT)), get(c, link_at(c, target, a.IN)))
    while tile != target:
        direction = step_to(c, tile, target)
        free = max(free, get(c, link_at(c, tile, direction)))
        tile = neighbour(c, tile, direction)
    return free


def take_way(c: int, tile: int, target: int, until: int) -> None:
    """Take all links of a way."""
    put(c, link_at(c, tile, a.OUT), until)
    put(c, link_at(c, target, a.IN), until)
    while tile != target:
        direction = step_to(c, tile, target)
        put(c, link_at(c, tile, direction), until)
        tile = neighbour(c, tile, direction)


def message_at(p: int, number: int) -> int:
    """Place of a message of the tile at ``p``."""
    return p + a.P_COPIES + number * a.MESSAGE_WORDS


def free_message(c: int, p: int) -> int:
    """Number of an unused message; there is one."""
    number = 0
    while get(c, message_at(p, number) + a.M_PHASE) != a.FREE:
        number += 1
    return number


def send(c: int, p: int, row: int) -> None:
    """Send what a log row says: a copy to one target, or a packet counter update."""
    now, number = get(c, a.H_NOW), free_message(c, p)
    m, kind = message_at(p, number), get(row, a.L_KIND) & 255
    tile, target = get(c, p + a.P_TILE), get(row, a.C_TARGET)
    put(c, m + a.M_KIND, kind)
    put(c, m + a.M_PC, get(row, a.L_PC))
    put(c, m + a.M_TARGET, target)
    put(c, m + a.M_STREAM, get(row, a.C_STREAM))
    put(c, m + a.M_ISSUED, now)
    put(c, m + a.M_BLOCKED, 0)
    put(c, m + a.M_CAUSE, 0)
    put(c, m + a.M_NUMBER, get(c, p + a.P_NUMBER))
    put(c, m + a.M_DDR, 0)
    put(c, m + a.M_PHASE, a.AT_WORK)
    put(c, p + a.P_MESSAGES, get(c, p + a.P_MESSAGES) + 1)
    way = hops(c, tile, target) * get(c, a.H_HOP)
    if kind == a.UPDATE:
        put(c, m + a.M_EVENT, now + way)
        return
    describe(c, m, row)
    ready = now + get(c, a.H_DTE_FIXED)
    if get(c, p + a.P_SENT) == 0:
        ready += get(c, a.H_DTE_FIRST)
    put(c, p + a.P_SENT, get(c, p + a.P_SENT) + 1)
    begin = max(ready, way_free(c, tile, target))
    if begin > ready:
        put(c, m + a.M_BLOCKED, begin - ready)
        put(c, m + a.M_CAUSE, _NOC)
    bytes_end = begin + get(row, a.C_BYTES) * (a.KILO * a.KILO) // get(c, a.H_LINK)
    take_way(c, tile, target, bytes_end)
    put(c, m + a.M_BEGIN, begin)
    put(c, m + a.M_END, bytes_end + way)
    put(c, m + a.M_EVENT, bytes_end + way)
    if get(row, a.C_DDR) != 0 and bytes_end > begin:
        put(c, m + a.M_PHASE, a.BEFORE_FLOW)
        put(c, m + a.M_EVENT, begin)


def describe(c: int, m: int, row: int) -> None:
    """Note what the slice of a copy tells."""
    put(c, m + a.M_RECORD, get(row, a.C_RECORD))
    put(c, m + a.M_BYTES, get(row, a.C_BYTES))
    put(c, m + a.M_DDR, get(row, a.C_DDR))
    put(c, m + a.M_RANGES, get(row, a.C_RANGES))
    put(c, m + a.M_FIELDS, get(row, a.C_FIELDS))
    length = (get(row, a.L_KIND) >> a.LENGTH_SHIFT) - a.C_PAYLOAD
    for i in range(length):
        put(c, m + a.M_PAYLOAD + i, get(row, a.C_PAYLOAD + i))


def move(c: int, p: int, number: int) -> bool:
    """A message's event; whether it has arrived."""
    m, now = message_at(p, number), get(c, a.H_NOW)
    if get(c, m + a.M_PHASE) == a.AT_WORK:
        return True
    if get(c, m + a.M_PHASE) == a.BEFORE_FLOW:
        put(c, m + a.M_PHASE, a.FLOWING)
        put(c, m + a.M_EVENT, a.HUGE)
        sides = (get(c, m + a.M_DDR) & 1) + (get(c, m + a.M_DDR) >> 1)
        ticks = max(get(c, m + a.M_BYTES) * (a.KILO * a.KILO) // get(c, a.H_LINK), 1)
        begin_flow(c, p, queues.ENGINES + number, sides * get(c, m + a.M_BYTES), ticks)
    elif now < get(c, m + a.M_END):  # its flow has ended, its last link has not
        put(c, m + a.M_PHASE, a.AT_WORK)
        put(c, m + a.M_EVENT, get(c, m + a.M_END))
    else:
        late = now - get(c, m + a.M_END)
        if late > get(c, m + a.M_BLOCKED):
            put(c, m + a.M_BLOCKED, late)
            put(c, m + a.M_CAUSE, _DDR)
        return True
    return False


def arrive(c: int, p: int, number: int) -> None:
    """A message is there: it counts for its sender, and for its stream at the target."""
    m, now = message_at(p, number), get(c, a.H_NOW)
    put(c, m + a.M_PHASE, a.FREE)
    put(c, m + a.M_EVENT, a.HUGE)
    put(c, p + a.P_MESSAGES, get(c, p + a.P_MESSAGES) - 1)
    put(c, p + a.P_LAST_END, max(now, get(c, p + a.P_LAST_END)))
    if get(c, m + a.M_KIND) == a.COPY:
        put(c, p + a.P_SENT_DONE, get(c, p + a.P_SENT_DONE) + 1)
        if get(c, p + a.P_CORE) == a.FOR_COPIES or get(c, p + a.P_CORE) == a.FOR_MESSAGE:
            put(c, p + a.P_FREED, get(c, m + a.M_NUMBER))
        busy = p + a.P_BUSY + DTE
        put(c, busy, get(c, busy) + now - get(c, m + a.M_ISSUED))
        emit_copy(c, p, m, now)


DTE = 6
