"""Vector clocks of the agents of a chip. Plain functions that are compiled."""

from __future__ import annotations

from emulator.memory.shadow_words import (
    A_AGENT,
    A_WHAT,
    AGENTS,
    FIRST_COPY,
    FLAG,
    PER_TILE,
    RELEASED,
    SEEN_WRITER,
)
from emulator.native.primitives.memory import get, put

from .access import NOTHING_SEEN, access_at, vector_of


def join(context: int, into: int, of: int) -> None:
    """Record that an agent has seen everything that another one has done."""
    merge(context, vector_of(context, into), vector_of(context, of))


def merge(context: int, target: int, source: int) -> None:
    """Set each clock of ``target`` to the later one of both vectors."""
    for k in range(get(context, AGENTS)):
        put(target, k, max(get(target, k), get(source, k)))
    put(context, SEEN_WRITER, NOTHING_SEEN)


def tick(context: int, agent: int) -> int:
    """Begin the next step of an agent; return its clock."""
    clocks = vector_of(context, agent)
    put(clocks, agent, get(clocks, agent) + 1)
    return get(clocks, agent)


def acquire(context: int, agent: int, writer: int) -> None:
    """Record that a core has loaded a possible flag: it has then seen everything before the store, or the
    copy."""
    at, per_tile = access_at(context, writer), get(context, PER_TILE)
    by = get(at, A_AGENT)
    if by < 0 or by == agent:
        return
    if get(at, A_WHAT) == FLAG:
        merge(
            context,
            vector_of(context, agent),
            get(context, RELEASED) + 8 * get(context, AGENTS) * (by // per_tile),
        )
    elif by % per_tile >= get(context, FIRST_COPY):
        merge(context, vector_of(context, agent), vector_of(context, by))


def release(context: int, agent: int) -> None:
    """Record that a core has stored to a word that may be a flag."""
    own = get(context, RELEASED) + 8 * get(context, AGENTS) * (agent // get(context, PER_TILE))
    merge(context, own, vector_of(context, agent))
    tick(context, agent)
