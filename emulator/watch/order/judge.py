"""Finds accesses that share bytes though nothing orders them. The comparison is compiled.

Accesses are grouped by memory, tile, agent, and by reads and writes; a group is in the order of its tile's
program. Accesses of one agent have the order of the program. An access comes before a later one of its own
tile if the core has waited for it in between. It comes before one of another tile if the other tile has
passed a barrier that follows that wait, or a barrier after it. Both get later from access to access of a
group, so the accesses that one is not ordered with are consecutive in every other group.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from emulator import native
from emulator.memory.shadow_words import FLAG
from emulator.native import compile_once
from emulator.native.primitives.memory import get, put
from tx8isa.table import footprint

from . import rows as layout
from .nests import NEST, NOWHERE, footprints_meet

Words = npt.NDArray[np.int64]

# Words of an access, after those of its row
A_AT = layout.ROW  # its place in the program of its tile
A_DONE = layout.ROW + 1  # the place after which the core knows that it is complete
A_BARRIERS = layout.ROW + 2  # barriers that the tile has passed before
A_FREED = layout.ROW + 3  # the number of the tile's barrier after which others may use its bytes
A_LOW = layout.ROW + 4  # first byte, and the byte after the last
A_HIGH = layout.ROW + 5
A_TILE = layout.ROW + 6
ACCESS_WORDS = layout.ROW + 7

# Words of a group
G_BEGIN, G_END, G_SPACE, G_TILE, G_AGENT, G_WRITTEN = range(6)
GROUP_WORDS = 6

# Words of the question
Q_ACCESSES, Q_GROUPS, Q_COUNT, Q_KNOWN, Q_TILES, Q_STEPS, Q_FOUND, Q_ROOM, Q_PAIRS, Q_COMPARED, Q_FLAGS = (
    range(11)
)
Q_SCRATCH = 11  # two nests
QUESTION_WORDS = Q_SCRATCH + 2 * NEST

PAIR_WORDS = 3  # the two accesses and a byte that they share
MOST_PAIRS = 256
NEVER = 1 << 60


def access_at(q: int, number: int) -> int:
    """Return the address of an access."""
    return get(q, Q_ACCESSES) + 8 * ACCESS_WORDS * number


def known(q: int, tile: int, barriers: int, of: int) -> int:
    """Return how many barriers of tile ``of`` a tile knows to be passed after some of its own."""
    return get(get(q, Q_KNOWN), (tile * get(q, Q_STEPS) + barriers) * get(q, Q_TILES) + of)


def is_kept(q: int, a: int, b: int) -> bool:
    """Return True if a pair of the same instructions of the same tiles is kept already."""
    for number in range(get(q, Q_FOUND)):
        pair = get(q, Q_PAIRS) + 8 * PAIR_WORDS * number
        x, y = access_at(q, get(pair, 0)), access_at(q, get(pair, 1))
        same = get(x, layout.R_PC) == get(a, layout.R_PC) and get(y, layout.R_PC) == get(b, layout.R_PC)
        if same and get(x, A_TILE) == get(a, A_TILE) and get(y, A_TILE) == get(b, A_TILE):
            return True
    return False


def compare(q: int, one: int, other: int) -> None:
    """Compare the bytes of two accesses that nothing orders, and keep the pair if they share some."""
    a, b = access_at(q, one), access_at(q, other)
    if get(a, A_LOW) >= get(b, A_HIGH) or get(b, A_LOW) >= get(a, A_HIGH):
        return
    if is_kept(q, a, b):
        return
    put(q, Q_COMPARED, get(q, Q_COMPARED) + 1)
    place = footprints_meet(
        q + 8 * Q_SCRATCH,
        get(a, layout.R_FIRST),
        a + 8 * layout.R_LOOPS,
        get(b, layout.R_FIRST),
        b + 8 * layout.R_LOOPS,
    )
    found = get(q, Q_FOUND)
    if place != NOWHERE and get(a, layout.R_WHAT) == FLAG and get(b, layout.R_WHAT) == FLAG:
        put(q, Q_FLAGS, 1)
    elif place != NOWHERE and found < get(q, Q_ROOM):
        pair = get(q, Q_PAIRS) + 8 * PAIR_WORDS * found
        put(pair, 0, one)
        put(pair, 1, other)
        put(pair, 2, place)
        put(q, Q_FOUND, found + 1)


def within_tile(q: int, group: int, later: int) -> None:
    """Compare the accesses of a group with later ones of another agent of the tile."""
    low, high, end = get(later, G_BEGIN), get(later, G_BEGIN), get(later, G_END)
    for number in range(get(group, G_BEGIN), get(group, G_END)):
        a = access_at(q, number)
        while low < end and get(access_at(q, low), A_AT) <= get(a, A_AT):
            low += 1
        high = max(high, low)
        while high < end and get(access_at(q, high), A_AT) < get(a, A_DONE):
            high += 1
        for other in range(low, high):
            compare(q, number, other)


def between_tiles(q: int, group: int, others: int) -> None:
    """Compare the accesses of a group with those of another tile that come neither before nor after.

    The end of a tile only reads what the tile itself has written; barriers judge the others.
    """
    if get(group, G_AGENT) == layout.EXIT_AGENT or get(others, G_AGENT) == layout.EXIT_AGENT:
        return
    low, high, end = get(others, G_BEGIN), get(others, G_BEGIN), get(others, G_END)
    tile, there = get(group, G_TILE), get(others, G_TILE)
    for number in range(get(group, G_BEGIN), get(group, G_END)):
        a = access_at(q, number)
        seen = known(q, tile, get(a, A_BARRIERS), there)
        while low < end and get(access_at(q, low), A_FREED) <= seen:
            low += 1
        while high < end and known(q, there, get(access_at(q, high), A_BARRIERS), tile) < get(a, A_FREED):
            high += 1
        for other in range(low, high):
            compare(q, number, other)


def compare_groups(q: int) -> int:
    """Compare all pairs of groups in one memory, if one writes and they are of two agents."""
    for i in range(get(q, Q_COUNT)):
        one = get(q, Q_GROUPS) + 8 * GROUP_WORDS * i
        for j in range(get(q, Q_COUNT)):
            other = get(q, Q_GROUPS) + 8 * GROUP_WORDS * j
            written = get(one, G_WRITTEN) + get(other, G_WRITTEN) != 0
            if written and get(one, G_SPACE) == get(other, G_SPACE):
                if get(one, G_TILE) != get(other, G_TILE):
                    if i < j:
                        between_tiles(q, one, other)
                elif get(one, G_AGENT) != get(other, G_AGENT):
                    within_tile(q, one, other)
    return 0


# -- the tables --------------------------------------------------------------------------------------------


class Judged(NamedTuple):
    """All accesses of a run, and those that nothing orders."""

    accesses: Words
    pairs: Words
    """The numbers of two accesses, and a byte that they share; at most ``MOST_PAIRS``."""
    compared: int
    """Pairs that were compared piece by piece."""
    flags: bool
    """True if tiles may wait for each other by words in memory."""


def judged(logs: Sequence[Words], barriers: Sequence[Sequence[Words]]) -> Judged:
    """Return the accesses of all tiles, and the pairs that nothing orders.

    ``logs`` are the rows of each tile, ``barriers`` of each tile how many barriers of every tile it knows to
    be passed, at first and after each of its own.
    """
    accesses = np.concatenate([timed(tile, rows) for tile, rows in enumerate(logs)])
    columns = layout.R_WRITTEN, layout.R_AGENT, A_TILE, layout.R_SPACE
    order = np.lexsort([accesses[:, column] for column in columns])  # stable: programs keep their order
    accesses = np.ascontiguousarray(accesses[order])
    kinds = accesses[:, columns]
    starts = np.flatnonzero(np.any(kinds[1:] != kinds[:-1], 1)) + 1
    starts = np.concatenate([[0], starts, [len(accesses)]]) if len(accesses) else np.zeros(1, np.int64)
    groups = np.zeros((len(starts) - 1, GROUP_WORDS), np.int64)
    groups[:, G_BEGIN], groups[:, G_END] = starts[:-1], starts[1:]
    groups[:, [G_WRITTEN, G_AGENT, G_TILE, G_SPACE]] = kinds[starts[:-1]] if len(groups) else 0
    steps = max(map(len, barriers))
    table = np.zeros((len(logs), steps, len(logs)), np.int64)
    for tile, own in enumerate(barriers):
        table[tile, : len(own)] = own
    return _compared(accesses, groups, table)


def _compared(accesses: Words, groups: Words, table: Words) -> Judged:
    pairs, question = np.zeros((MOST_PAIRS, PAIR_WORDS), np.int64), np.zeros(QUESTION_WORDS, np.int64)
    question[Q_ACCESSES], question[Q_GROUPS] = accesses.ctypes.data, groups.ctypes.data
    question[Q_COUNT], question[Q_KNOWN] = len(groups), table.ctypes.data
    question[Q_TILES], question[Q_STEPS] = table.shape[2], table.shape[1]
    question[Q_ROOM], question[Q_PAIRS] = MOST_PAIRS, pairs.ctypes.data
    native.call(compile_once(compare_groups, "order of accesses", 1), question.ctypes.data)
    found, compared, flags = question[[Q_FOUND, Q_COMPARED, Q_FLAGS]].tolist()
    return Judged(accesses, pairs[:found], compared, bool(flags))


def timed(tile: int, rows: Words) -> Words:
    """Return the accesses of a tile with what orders them, and the bytes that each spans."""
    kind, at = rows[:, layout.R_KIND], np.arange(len(rows))
    barriers = np.flatnonzero(kind == layout.BARRIER)
    done = np.full(len(rows), NEVER)
    for agent in np.unique(rows[:, layout.R_AGENT]):
        own = rows[:, layout.R_AGENT] == agent
        waits = np.append(np.flatnonzero(own & (kind == layout.WAIT)), NEVER)
        done[own] = at[own] if agent == layout.CORE_AGENT else waits[np.searchsorted(waits, at[own])]
    found = np.zeros((len(rows), ACCESS_WORDS), np.int64)
    found[:, : layout.ROW] = rows
    found[:, A_AT], found[:, A_DONE] = at, done
    found[:, A_BARRIERS] = np.searchsorted(barriers, at)
    found[:, A_FREED] = np.searchsorted(barriers, done) + 1
    found[:, A_LOW], found[:, A_HIGH] = spans(rows)
    found[:, A_TILE] = tile
    accesses: Words = found[kind == layout.ACCESS]
    return accesses


def spans(rows: Words) -> tuple[Words, Words]:
    """Return the first byte of each access, and the byte after its last one."""
    loops, first = rows[:, layout.R_LOOPS :], rows[:, layout.R_FIRST]
    low, high = np.full(len(rows), NEVER), np.full(len(rows), -NEVER)
    for second, levels in ((0, 3), (footprint.SECOND, 2)):
        begin = first + (loops[:, second - 1] if second else 0)
        end, there = begin + loops[:, second], loops[:, second] > 0
        for level in range(levels):
            way = loops[:, second + 1 + 2 * level] * (loops[:, second + 2 + 2 * level] - 1)
            begin, end = begin + np.minimum(way, 0), end + np.maximum(way, 0)
        low = np.where(there, np.minimum(low, begin), low)
        high = np.where(there, np.maximum(high, end), high)
    return low, high
