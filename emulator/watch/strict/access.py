"""The current access, the accesses before it, and its hazards. Plain functions that are compiled.

``context`` is the address of the context (``shadow_words``).
"""

from __future__ import annotations

from emulator.memory.shadow_words import (
    A_AGENT,
    A_CLOCK,
    A_PC,
    A_WHAT,
    ACCESS_COUNT,
    ACCESS_WORDS,
    ACCESSES,
    AGENT,
    AGENTS,
    ATOMIC,
    BLOCK_BYTES,
    BLOCKS,
    CACHED,
    FLAG,
    FULL,
    GRANULE,
    GRANULE_SHIFT,
    INDEX_WORDS,
    LOST,
    MIXED,
    MOST_ACCESSES,
    MOST_PAIRS,
    NUMBER,
    P_ACCESS,
    P_COUNT,
    P_FIRST,
    P_KIND,
    P_LAST,
    P_OTHER,
    P_SEQUENCE,
    P_SPACE,
    PAIR_COUNT,
    PAIR_INDEX,
    PAIR_WORDS,
    PAIRS,
    SEEN_WRITER,
    SEQUENCE,
    SPACE,
    VECTOR,
    VECTORS,
    WRITE,
)
from emulator.native.primitives.memory import get, put, view_u32
from tx8isa.numbers.primitives import s64, u64

NOTHING_SEEN = -1


def access_at(context: int, number: int) -> int:
    """Return the host address of an access."""
    return get(context, ACCESSES) + 8 * ACCESS_WORDS * number


def vector_of(context: int, agent: int) -> int:
    """Return the host address of the vector of an agent."""
    return get(context, VECTORS) + 8 * get(context, AGENTS) * agent


def new_access(context: int, agent: int, clock: int, pc: int, what: int) -> int:
    """Return the number of a new access; 0 when the table is full."""
    number = get(context, ACCESS_COUNT)
    if number >= MOST_ACCESSES:
        put(context, FULL, 1)
        return 0
    put(context, ACCESS_COUNT, number + 1)
    at = access_at(context, number)
    put(at, A_AGENT, agent)
    put(at, A_CLOCK, clock)
    put(at, A_PC, pc)
    put(at, A_WHAT, what)
    return number


def begin(context: int, agent: int, number: int, write: int) -> None:
    """Make an access the current one, with either its read or its written bytes."""
    put(context, VECTOR, vector_of(context, agent))
    put(context, AGENT, agent)
    put(context, NUMBER, number)
    put(context, WRITE, write)
    put(context, ATOMIC, 0)
    put(context, CACHED, 0)
    put(context, SEEN_WRITER, NOTHING_SEEN)


def happened(context: int, number: int) -> bool:
    """Return True if an access happened before the current one, by an order that the program has made.

    Two accesses to a flag need no order.
    """
    at = access_at(context, number)
    if get(context, ATOMIC) != 0 and get(at, A_WHAT) == FLAG:
        return True
    return get(at, A_CLOCK) <= get(get(context, VECTOR), get(at, A_AGENT))


def same_step(context: int, number: int) -> bool:
    """Return True if an access belongs to the present step of the current access's agent."""
    at, agent = access_at(context, number), get(context, AGENT)
    return get(at, A_AGENT) == agent and get(at, A_CLOCK) == get(get(context, VECTOR), agent)


def writer_of(context: int, shadow: int, at: int) -> int:
    """Return the access that wrote a byte last, or 0."""
    writer = s64(view_u32(shadow + 8 * (at >> GRANULE_SHIFT), 1)[u64(0)])
    if writer >= MIXED:
        block = get(context, BLOCKS) + BLOCK_BYTES * (writer - MIXED)
        writer = s64(view_u32(block + 4 * (at & (GRANULE - 1)), 1)[u64(0)])
    return writer


def place_in_index(context: int, kind: int, other: int) -> int:
    """Return the position in the hash table of a hazard of the current access, or a free one for it."""
    index, number = get(context, PAIR_INDEX), get(context, NUMBER)
    a, b = access_at(context, number), access_at(context, other)
    place = (kind + 31 * get(a, A_AGENT) + 17 * get(b, A_AGENT) + 7 * get(a, A_PC) + 3 * get(b, A_PC)) & (
        INDEX_WORDS - 1
    )
    while get(index, place) != 0:
        pair = get(context, PAIRS) + 8 * PAIR_WORDS * (get(index, place) - 1)
        p, q = access_at(context, get(pair, P_ACCESS)), access_at(context, get(pair, P_OTHER))
        here = get(p, A_PC) == get(a, A_PC) and get(q, A_PC) == get(b, A_PC)
        same = get(p, A_AGENT) == get(a, A_AGENT) and get(q, A_AGENT) == get(b, A_AGENT)
        if here and same and get(pair, P_KIND) == kind and get(pair, P_SPACE) == get(context, SPACE):
            return place
        place = (place + 1) & (INDEX_WORDS - 1)
    return place


def found(context: int, kind: int, other: int) -> int:
    """Record a hazard of the current access with another; return the pair's address, 0 if not kept."""
    put(context, SEQUENCE, get(context, SEQUENCE) + 1)
    place = place_in_index(context, kind, other)
    known = get(get(context, PAIR_INDEX), place)
    if known != 0:
        pair = get(context, PAIRS) + 8 * PAIR_WORDS * (known - 1)
        put(pair, P_COUNT, get(pair, P_COUNT) + 1)
        return pair if get(pair, P_ACCESS) == get(context, NUMBER) else 0
    count = get(context, PAIR_COUNT)
    if count >= MOST_PAIRS:
        put(context, LOST, get(context, LOST) + 1)
        return 0
    put(context, PAIR_COUNT, count + 1)
    put(get(context, PAIR_INDEX), place, count + 1)
    pair = get(context, PAIRS) + 8 * PAIR_WORDS * count
    put(pair, P_KIND, kind)
    put(pair, P_ACCESS, get(context, NUMBER))
    put(pair, P_OTHER, other)
    put(pair, P_SPACE, get(context, SPACE))
    put(pair, P_FIRST, 1 << 62)
    put(pair, P_LAST, -1)
    put(pair, P_COUNT, 1)
    put(pair, P_SEQUENCE, get(context, SEQUENCE))
    return pair


def widen(pair: int, first: int, last: int) -> None:
    """Extend the range of a hazard by some bytes, if the hazard is kept."""
    if pair != 0:
        put(pair, P_FIRST, min(get(pair, P_FIRST), first))
        put(pair, P_LAST, max(get(pair, P_LAST), last))
