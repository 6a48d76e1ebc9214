"""The access at hand, what comes before it, and the hazards it has, as plain functions that are compiled.

``c`` is the address of the context (``layout``).
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
    FLAG,
    FULL,
    INDEX_WORDS,
    LOST,
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
from emulator.native.primitives.memory import get, put

NOTHING_SEEN = -1


def access_at(c: int, number: int) -> int:
    """Host address of an access."""
    return get(c, ACCESSES) + 8 * ACCESS_WORDS * number


def vector_of(c: int, agent: int) -> int:
    """Host address of the vector of an agent."""
    return get(c, VECTORS) + 8 * get(c, AGENTS) * agent


def new_access(c: int, agent: int, clock: int, pc: int, what: int) -> int:
    """Number of a new access; 0 when the table is full."""
    number = get(c, ACCESS_COUNT)
    if number >= MOST_ACCESSES:
        put(c, FULL, 1)
        return 0
    put(c, ACCESS_COUNT, number + 1)
    at = access_at(c, number)
    put(at, A_AGENT, agent)
    put(at, A_CLOCK, clock)
    put(at, A_PC, pc)
    put(at, A_WHAT, what)
    return number


def begin(c: int, agent: int, number: int, write: int) -> None:
    """Look at the bytes of an access from here on: those it reads, or those it writes."""
    put(c, VECTOR, vector_of(c, agent))
    put(c, AGENT, agent)
    put(c, NUMBER, number)
    put(c, WRITE, write)
    put(c, ATOMIC, 0)
    put(c, SEEN_WRITER, NOTHING_SEEN)


def happened(c: int, number: int) -> bool:
    """Whether an access comes before the one at hand, by an order that the program has made.

    Of two accesses to a flag either may come first.
    """
    at = access_at(c, number)
    if get(c, ATOMIC) != 0 and get(at, A_WHAT) == FLAG:
        return True
    return get(at, A_CLOCK) <= get(get(c, VECTOR), get(at, A_AGENT))


def same_step(c: int, number: int) -> bool:
    """Whether an access is of the agent at hand, and of its present step."""
    at, agent = access_at(c, number), get(c, AGENT)
    return get(at, A_AGENT) == agent and get(at, A_CLOCK) == get(get(c, VECTOR), agent)


def place_in_index(c: int, kind: int, other: int) -> int:
    """Where in the hash table a hazard of the access at hand is kept, or may be."""
    index, number = get(c, PAIR_INDEX), get(c, NUMBER)
    a, b = access_at(c, number), access_at(c, other)
    place = (kind + 31 * get(a, A_AGENT) + 17 * get(b, A_AGENT) + 7 * get(a, A_PC) + 3 * get(b, A_PC)) & (
        INDEX_WORDS - 1
    )
    while get(index, place) != 0:
        pair = get(c, PAIRS) + 8 * PAIR_WORDS * (get(index, place) - 1)
        p, q = access_at(c, get(pair, P_ACCESS)), access_at(c, get(pair, P_OTHER))
        here = get(p, A_PC) == get(a, A_PC) and get(q, A_PC) == get(b, A_PC)
        same = get(p, A_AGENT) == get(a, A_AGENT) and get(q, A_AGENT) == get(b, A_AGENT)
        if here and same and get(pair, P_KIND) == kind and get(pair, P_SPACE) == get(c, SPACE):
            return place
        place = (place + 1) & (INDEX_WORDS - 1)
    return place


def found(c: int, kind: int, other: int) -> int:
    """Note a hazard of the access at hand with another; the address of the pair, 0 when it is not kept."""
    put(c, SEQUENCE, get(c, SEQUENCE) + 1)
    place = place_in_index(c, kind, other)
    known = get(get(c, PAIR_INDEX), place)
    if known != 0:
        pair = get(c, PAIRS) + 8 * PAIR_WORDS * (known - 1)
        put(pair, P_COUNT, get(pair, P_COUNT) + 1)
        return pair if get(pair, P_ACCESS) == get(c, NUMBER) else 0
    count = get(c, PAIR_COUNT)
    if count >= MOST_PAIRS:
        put(c, LOST, get(c, LOST) + 1)
        return 0
    put(c, PAIR_COUNT, count + 1)
    put(get(c, PAIR_INDEX), place, count + 1)
    pair = get(c, PAIRS) + 8 * PAIR_WORDS * count
    put(pair, P_KIND, kind)
    put(pair, P_ACCESS, get(c, NUMBER))
    put(pair, P_OTHER, other)
    put(pair, P_SPACE, get(c, SPACE))
    put(pair, P_FIRST, 1 << 62)
    put(pair, P_LAST, -1)
    put(pair, P_COUNT, 1)
    put(pair, P_SEQUENCE, get(c, SEQUENCE))
    return pair


def widen(pair: int, first: int, last: int) -> None:
    """Count bytes to the range of a hazard, when it is kept."""
    if pair != 0:
        put(pair, P_FIRST, min(get(pair, P_FIRST), first))
        put(pair, P_LAST, max(get(pair, P_LAST), last))
