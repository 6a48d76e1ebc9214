"""What orders the agents of a chip, by their vectors: plain functions that are compiled."""

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


def join(c: int, into: int, of: int) -> None:
    """An agent has seen what another one has done."""
    merge(c, vector_of(c, into), vector_of(c, of))


def merge(c: int, target: int, source: int) -> None:
    """The later of each clock of two vectors, into the first."""
    for k in range(get(c, AGENTS)):
        put(target, k, max(get(target, k), get(source, k)))
    put(c, SEEN_WRITER, NOTHING_SEEN)


def tick(c: int, agent: int) -> int:
    """Begin the next step of an agent; its clock."""
    clocks = vector_of(c, agent)
    put(clocks, agent, get(clocks, agent) + 1)
    return get(clocks, agent)


def acquire(c: int, agent: int, writer: int) -> None:
    """A core has loaded a word that may be a flag: it has seen what came before the store, or the copy."""
    at, per_tile = access_at(c, writer), get(c, PER_TILE)
    by = get(at, A_AGENT)
    if by < 0 or by == agent:
        return
    if get(at, A_WHAT) == FLAG:
        merge(c, vector_of(c, agent), get(c, RELEASED) + 8 * get(c, AGENTS) * (by // per_tile))
    elif by % per_tile >= get(c, FIRST_COPY):
        merge(c, vector_of(c, agent), vector_of(c, by))


def release(c: int, agent: int) -> None:
    """A core has stored to a word that may be a flag."""
    own = get(c, RELEASED) + 8 * get(c, AGENTS) * (agent // get(c, PER_TILE))
    merge(c, own, vector_of(c, agent))
    tick(c, agent)
