"""The data caches of the cores: stores that they may hold back, and bytes that they may have outdated.

A cache does not see the writes of engines, copies and other cores to DDR, and they do not see its contents.
So a store through it reaches others when its line was cleaned and a fence has followed. A load through it
sees others' writes if its line was invalidated after these writes. The contents of DDR before the program
count as seen. Plain functions that are compiled.
"""

from __future__ import annotations

from emulator.core.accesses import CLEANS, DROPS, ENTIRE
from emulator.memory.shadow_words import (
    A_AGENT,
    A_CLOCK,
    A_WHAT,
    AGENT,
    AGENTS,
    C_CLEAN_COUNT,
    C_CLEANS,
    C_FENCE_COUNT,
    C_FENCES,
    C_LAST,
    C_PENDING,
    C_VIEW,
    C_VIEWS,
    CACHE_WORDS,
    CACHED,
    CACHED_CORE,
    CACHES,
    DROPPED,
    EXIT,
    FULL,
    HELD_READ,
    HELD_WRITE,
    L_ACCESS,
    L_CLEANED,
    L_CLEANS,
    L_SAFE,
    LINE_WORDS,
    LINES,
    LOADED,
    MOST_FENCES,
    MOST_VIEWS,
    NUMBER,
    PER_TILE,
    STALE_LINE,
    STALE_READ,
    STORED,
    VECTOR,
    VIEW_COUNT,
    VIEWS,
    WRITE,
)
from emulator.native.primitives.memory import get, put, view_u32
from tx8isa.numbers.limits import CACHE_LINE
from tx8isa.numbers.primitives import s64, u64

from .access import access_at, found, happened, vector_of, widen, writer_of
from .order import tick

ANYWHERE = 2
"""The bytes of a load are seen, and so are bytes with the same history in any other line."""


def line_at(context: int, line: int) -> int:
    """Return the host address of the words of a line of DDR."""
    return get(context, LINES) + 8 * LINE_WORDS * line


def cache_of(context: int, agent: int) -> int:
    """Return the host address of the words of a core's cache."""
    return get(context, CACHES) + 8 * CACHE_WORDS * (agent // get(context, PER_TILE))


# -- stores that a cache holds -----------------------------------------------------------------------------


def fence_after(context: int, line: int, owner: int) -> int:
    """Return the fence that completes the first cleaning of a line since it was stored to; -1 if there is
    none."""
    cache = cache_of(context, owner)
    if get(line, L_CLEANED) != 0:
        return get(line, L_CLEANED) - 1
    if get(line, L_CLEANS) < get(cache, C_CLEAN_COUNT):
        return get(get(cache, C_CLEANS), get(line, L_CLEANS))
    return -1


def is_cleaned(context: int, line: int, owner: int) -> bool:
    """Return True if the current access comes after its owner's cleaning of the line and the fence."""
    cache, fence = cache_of(context, owner), fence_after(context, line, owner)
    if fence < 0 or fence >= get(cache, C_FENCE_COUNT):
        return False
    return get(get(cache, C_FENCES), fence) <= get(get(context, VECTOR), owner)


def check_held(context: int, shadow: int, first: int, count: int) -> None:
    """Find bytes of DDR that a core's cache may hold back from the current access.

    An unordered read is a race, which is found separately. A write conflicts with other accesses to the same
    line. Reads of the host at the end are omitted, because the state of the caches is not known then.
    """
    begin, end = first, first + count
    if get(access_at(context, get(context, NUMBER)), A_WHAT) == EXIT:
        return
    while begin < end:
        until = min((begin // CACHE_LINE + 1) * CACHE_LINE, end)
        line = line_at(context, begin // CACHE_LINE)
        store = get(line, L_ACCESS)
        if store != 0:
            owner = get(access_at(context, store), A_AGENT)
            ordered = get(context, WRITE) != 0 or happened(context, store)
            if get(context, CACHED) != owner + 1 and ordered and not is_cleaned(context, line, owner):
                note_held(context, shadow, store, begin, until)
        begin = until


def note_held(context: int, shadow: int, store: int, begin: int, end: int) -> None:
    """Record a hazard with a line that a cache may hold; a read conflicts only with bytes that the cache may
    hold."""
    if get(context, WRITE) != 0:
        widen(found(context, HELD_WRITE, store), begin, end - 1)
        return
    pair, number, safe = 0, 0, get(line_at(context, begin // CACHE_LINE), L_SAFE)
    for at in range(begin, end):
        writer = writer_of(context, shadow, at)
        if writer >= safe and get(access_at(context, writer), A_WHAT) == CACHED_CORE:
            if writer != number:
                pair, number = found(context, HELD_READ, writer), writer
            widen(pair, at, at)


def note_stored(context: int, first: int, count: int) -> None:
    """Record that the current access stores bytes through a cache, which may hold their lines from now on."""
    agent, access = get(context, AGENT), get(context, NUMBER)
    cleans = get(cache_of(context, agent), C_CLEAN_COUNT)
    for number in range(first // CACHE_LINE, (first + count - 1) // CACHE_LINE + 1):
        line = line_at(context, number)
        store = get(line, L_ACCESS)
        if store != 0:
            owner = get(access_at(context, store), A_AGENT)
            if owner != agent or fence_after(context, line, owner) >= 0:
                put(line, L_SAFE, access)
        put(line, L_ACCESS, access)
        put(line, L_CLEANED, 0)
        put(line, L_CLEANS, cleans)
    put(context, STORED, 1)


# -- outdated bytes in a cache -----------------------------------------------------------------------------


def is_seen(context: int, view: int, writer: int) -> bool:
    """Return True if a core had seen a write when it invalidated; ``view``: its view, 0 if it never did."""
    at = access_at(context, writer)
    seen = get(context, VIEWS) + 8 * get(context, AGENTS) * view
    return view != 0 and get(at, A_CLOCK) <= get(seen, get(at, A_AGENT))


def view_of_line(context: int, cache: int, at: int) -> int:
    """Return the view of a core when it invalidated the line of a byte."""
    return s64(view_u32(get(cache, C_VIEWS) + 4 * (at // CACHE_LINE), 1)[u64(0)])


def sees(context: int, writer: int, at: int) -> int:
    """Return ``ANYWHERE`` or 1 if a cache has a byte of DDR as its writer left it, else 0."""
    agent = get(context, AGENT)
    if writer <= LOADED:
        return ANYWHERE
    own = get(access_at(context, writer), A_AGENT) == agent
    if own and get(access_at(context, writer), A_WHAT) == CACHED_CORE:
        return ANYWHERE
    cache = cache_of(context, agent)
    if is_seen(context, get(cache, C_VIEW), writer):
        return ANYWHERE
    unordered = get(context, WRITE) == 0 and not happened(context, writer)
    return 1 if unordered or is_seen(context, view_of_line(context, cache, at), writer) else 0


def check_stale(context: int, shadow: int, first: int, count: int) -> int:
    """Find outdated bytes in the cache for the current access; return the least of ``sees``.

    A load checks its own bytes, a store the bytes of the whole line, because the cache will write all of it.
    """
    begin, end = first, first + count
    if get(context, WRITE) != 0:
        begin = begin // CACHE_LINE * CACHE_LINE
        end = (end + CACHE_LINE - 1) // CACHE_LINE * CACHE_LINE
    kind = STALE_LINE if get(context, WRITE) != 0 else STALE_READ
    least, pair, number = ANYWHERE, 0, 0
    for at in range(begin, end):
        own = get(context, WRITE) != 0 and first <= at < first + count
        writer = 0 if own else writer_of(context, shadow, at)
        seen = sees(context, writer, at)
        least = min(least, seen)
        if seen == 0:
            if writer != number:
                pair, number = found(context, kind, writer), writer
            widen(pair, at, at)
    return least


# -- maintenance -------------------------------------------------------------------------------------------


def maintain(context: int, agent: int, what: int, at: int) -> None:
    """Follow a core that cleans or invalidates its cache, or a line with byte ``at``, or executes a fence."""
    cache = cache_of(context, agent)
    if what & (CLEANS | DROPS) == 0:
        complete(context, cache, get(vector_of(context, agent), agent))
        return
    line = line_at(context, at // CACHE_LINE)
    if what & ENTIRE == 0 and get(line, L_ACCESS) != 0:
        maintain_line(context, agent, what, at)
    if what & CLEANS != 0:
        tick(context, agent)  # later stores are accesses of their own
        put(cache, C_PENDING, 1)
        if what & ENTIRE != 0:
            clean_all(context, cache)
    if what & DROPS != 0:
        view = new_view(context, agent, cache)
        if what & ENTIRE != 0:
            put(cache, C_VIEW, view)
        else:
            view_u32(get(cache, C_VIEWS) + 4 * (at // CACHE_LINE), 1)[u64(0)] = view


def maintain_line(context: int, agent: int, what: int, at: int) -> None:
    """Follow a core that cleans or drops a line that was stored to through a cache."""
    line = line_at(context, at // CACHE_LINE)
    store, cache = get(line, L_ACCESS), cache_of(context, agent)
    if get(access_at(context, store), A_AGENT) != agent:
        return
    if what & CLEANS != 0:
        if get(line, L_CLEANED) == 0:
            put(line, L_CLEANED, get(cache, C_FENCE_COUNT) + 1)
    elif fence_after(context, line, agent) < 0:
        first = at // CACHE_LINE * CACHE_LINE
        widen(found(context, DROPPED, store), first, first + CACHE_LINE - 1)
        put(line, L_ACCESS, 0)


def complete(context: int, cache: int, clock: int) -> None:
    """Complete earlier cleanings by a fence."""
    number = get(cache, C_FENCE_COUNT)
    if get(cache, C_PENDING) == 0:
        return
    if number >= MOST_FENCES:
        put(context, FULL, 1)
        return
    put(get(cache, C_FENCES), number, clock)
    put(cache, C_FENCE_COUNT, number + 1)
    put(cache, C_PENDING, 0)


def clean_all(context: int, cache: int) -> None:
    """Clean the whole cache; the next fence completes it."""
    number = get(cache, C_CLEAN_COUNT)
    if number >= MOST_FENCES:
        put(context, FULL, 1)
        return
    put(get(cache, C_CLEANS), number, get(cache, C_FENCE_COUNT))
    put(cache, C_CLEAN_COUNT, number + 1)


def new_view(context: int, agent: int, cache: int) -> int:
    """Return the number of a core's present view; 0 when the table is full."""
    agents, last, now = get(context, AGENTS), get(cache, C_LAST), vector_of(context, agent)
    seen, different = get(context, VIEWS) + 8 * agents * last, 0
    for k in range(agents):
        different += 1 if get(seen, k) != get(now, k) else 0
    if last != 0 and different == 0:
        return last
    number = get(context, VIEW_COUNT) + 1
    if number >= MOST_VIEWS:
        put(context, FULL, 1)
        return 0
    for k in range(agents):
        put(get(context, VIEWS) + 8 * agents * number, k, get(now, k))
    put(context, VIEW_COUNT, number)
    put(cache, C_LAST, number)
    return number
