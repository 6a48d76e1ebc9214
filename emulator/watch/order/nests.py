"""Decides if two footprints share bytes, from their loops. Plain functions that are compiled.

A *nest* is pieces of equal size at the positions of three loops: words first byte, bytes of a piece, then
stride and trips of each loop, innermost first. Every piece of the nest with fewer pieces is compared with the
other nest. There each loop is left with the trips, from one number to another, in which it can reach the
piece, so that no nest is written out as bytes.
"""

from __future__ import annotations

from emulator.native.primitives.memory import get, put
from tx8isa.table import footprint

FIRST, PIECE, LOOPS = 0, 1, 2
NEST = 8
"""Words of a nest."""
NOWHERE = -1


def make_nest(nest: int, first: int, loops: int, second: int) -> None:
    """Write one set of a footprint as a nest; ``second``: its second set. Loops without gaps are joined."""
    at = loops + 8 * footprint.SECOND * second
    piece = get(at, 0)
    begin = first + get(loops, footprint.SECOND - 1) if second != 0 else first
    kept = 0
    for level in range(3 - second):
        stride, trips = get(at, 1 + 2 * level), get(at, 2 + 2 * level)
        if trips != 1:
            if stride < 0:
                begin += stride * (trips - 1)
                stride = -stride
            if kept == 0 and stride <= piece:
                piece += stride * (trips - 1)
            else:
                put(nest, LOOPS + 2 * kept, stride)
                put(nest, LOOPS + 1 + 2 * kept, trips)
                kept += 1
    for level in range(kept, 3):
        put(nest, LOOPS + 2 * level, 0)
        put(nest, LOOPS + 1 + 2 * level, 1)
    put(nest, FIRST, begin)
    put(nest, PIECE, piece)


def pieces(nest: int) -> int:
    """Return the number of pieces."""
    return get(nest, LOOPS + 1) * get(nest, LOOPS + 3) * get(nest, LOOPS + 5)


def reach(nest: int, loops: int) -> int:
    """Return the bytes from the first to the last one that the innermost ``loops`` touch."""
    size = get(nest, PIECE)
    for level in range(loops):
        size += get(nest, LOOPS + 2 * level) * (get(nest, LOOPS + 1 + 2 * level) - 1)
    return size


def least_trip(base: int, size: int, stride: int, first: int) -> int:
    """Return the first trip of a loop whose ``size`` bytes end after ``first``."""
    distance = first - (base + size)
    return 0 if distance < 0 or stride == 0 else distance // stride + 1


def end_trip(base: int, stride: int, trips: int, end: int) -> int:
    """Return the first trip of a loop that begins at ``end`` or later."""
    if base >= end:
        return 0
    return trips if stride == 0 else min(trips, (end - base - 1) // stride + 1)


def meets(nest: int, first: int, end: int) -> int:
    """Return the first byte found that a nest shares with the bytes from ``first`` to before ``end``."""
    piece, within, around = get(nest, PIECE), reach(nest, 1), reach(nest, 2)
    s0, n0 = get(nest, LOOPS), get(nest, LOOPS + 1)
    s1, n1 = get(nest, LOOPS + 2), get(nest, LOOPS + 3)
    s2, n2 = get(nest, LOOPS + 4), get(nest, LOOPS + 5)
    base2 = get(nest, FIRST)
    for k in range(least_trip(base2, around, s2, first), end_trip(base2, s2, n2, end)):
        base1 = base2 + k * s2
        for j in range(least_trip(base1, within, s1, first), end_trip(base1, s1, n1, end)):
            base0 = base1 + j * s1
            i = least_trip(base0, piece, s0, first)
            if i < end_trip(base0, s0, n0, end) and base0 + i * s0 + piece > first:
                return max(base0 + i * s0, first)
    return NOWHERE


def nests_meet(one: int, other: int) -> int:
    """Return a byte that two nests share, or ``NOWHERE``."""
    if pieces(one) > pieces(other):
        fewer, more = other, one
    else:
        fewer, more = one, other
    size, low = get(fewer, PIECE), get(more, FIRST)
    end = low + reach(more, 3)
    if size <= 0 or get(more, PIECE) <= 0:
        return NOWHERE
    for k in range(get(fewer, LOOPS + 5)):
        for j in range(get(fewer, LOOPS + 3)):
            start = get(fewer, FIRST) + k * get(fewer, LOOPS + 4) + j * get(fewer, LOOPS + 2)
            stride, trips = get(fewer, LOOPS), get(fewer, LOOPS + 1)
            for i in range(least_trip(start, size, stride, low), end_trip(start, stride, trips, end)):
                at = start + i * stride
                found = meets(more, at, at + size)
                if found != NOWHERE:
                    return found
    return NOWHERE


def footprints_meet(scratch: int, first: int, loops: int, other_first: int, other_loops: int) -> int:
    """Return a byte that two footprints share, or ``NOWHERE``; ``scratch`` has room for two nests."""
    for mine in range(2):
        for its in range(2):
            empty = get(loops, footprint.SECOND * mine) == 0
            if not (empty or get(other_loops, footprint.SECOND * its) == 0):
                make_nest(scratch, first, loops, mine)
                make_nest(scratch + 8 * NEST, other_first, other_loops, its)
                found = nests_meet(scratch, scratch + 8 * NEST)
                if found != NOWHERE:
                    return found
    return NOWHERE
