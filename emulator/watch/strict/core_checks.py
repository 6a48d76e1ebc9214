"""The check of the kernel core's loads, stores and fences, if they are not ``known``. Compiled."""

from __future__ import annotations

from emulator.core.accesses import CLEANS, DROPS, ENTIRE, MAINTENANCE
from emulator.core.predecode import PARCEL
from emulator.memory import state
from emulator.memory.shadow_words import (
    A_WHAT,
    ATOMIC,
    CACHED,
    CACHED_CORE,
    CORE,
    DDR_SHADOW,
    FLAG,
    FULL,
    IN_DDR,
    NEXT_READERS,
    NEXT_WRITER,
    PAIR_READERS,
    PAIR_WRITER,
    S_CLOCK,
    S_NEXT_READERS,
    S_NEXT_WRITER,
    S_NUMBER,
    S_READERS,
    S_WRITER,
    SEEN_READERS,
    SEEN_WRITER,
    SITE_WORDS,
    SPACE,
    T_AGENT,
    T_CODE,
    T_CONTEXT,
    T_SPM,
    T_TILE,
    WRITE,
)
from emulator.native import compile_once
from emulator.native.primitives.memory import get, put
from tx8isa.numbers.primitives import u64

from .access import NOTHING_SEEN, access_at, begin, new_access, vector_of, writer_of
from .caches import ANYWHERE, check_held, check_stale, maintain, note_stored
from .order import acquire, release
from .shadow import touch

TWICE = (1 << 32) + 1
"""A factor that repeats a word of 32 bits in the upper half of 64 bits."""


def core_access(what: int, tile_state: int) -> int:
    """Check a load or store: ``what`` is 1 for a store + 2 * its bytes + 256 * its index in the text.

    Host and core address are in ``state.DETAIL``. Most accesses are ``known`` and skip this function. Fences
    and maintenance of the cache have ``MAINTENANCE`` and its bits in ``what``, and the core address.
    """
    if what & MAINTENANCE != 0:
        return core_maintenance(what, tile_state)
    tile, size = get(tile_state, state.SANITIZER), what >> 1 & 127
    context, agent, host = get(tile, T_CONTEXT), get(tile, T_AGENT), get(tile_state, state.DETAIL)
    if get(context, FULL) != 0:
        return 0
    shadow, offset, space = get(tile, T_SPM), host - get(tile_state, state.SPM), get(tile, T_TILE)
    if u64(offset) >= u64(get(tile_state, state.SPM_BYTES)):
        shadow, offset, space = get(context, DDR_SHADOW), host - get(tile_state, state.DDR), IN_DDR
    flag = may_be_flag(tile_state, get(tile_state, state.DETAIL + 1), size)
    cached = is_cached(tile_state, get(tile_state, state.DETAIL + 1))
    if flag and what & 1 == 0:
        acquire(context, agent, writer_of(context, shadow, offset))
    site = get(tile, T_CODE) + 8 * SITE_WORDS * (what >> 8)
    kind = FLAG if flag else CACHED_CORE if cached else CORE
    begin(context, agent, site_access(tile_state, context, site, what >> 8, kind), what & 1)
    put(context, ATOMIC, 1 if flag else 0)
    put(context, SPACE, space)
    anywhere = not cached or check_cache(context, agent, shadow, offset, size)
    touch(context, shadow, offset, size)
    again = get(context, PAIR_WRITER) + get(context, PAIR_READERS) == 0 and (what & 1 == 0 or not flag)
    again = again and anywhere
    put(site, S_WRITER, TWICE * get(context, SEEN_WRITER) if again else NOTHING_SEEN)
    put(site, S_READERS, TWICE * get(context, SEEN_READERS))
    put(site, S_NEXT_WRITER, TWICE * get(context, NEXT_WRITER))
    put(site, S_NEXT_READERS, TWICE * get(context, NEXT_READERS))
    if flag and what & 1 == 1:
        release(context, agent)
    return 0


def check_cache(context: int, agent: int, shadow: int, offset: int, size: int) -> bool:
    """Check a load or store through the cache; return True if an equal one of another line needs none."""
    put(context, CACHED, agent + 1)
    seen = check_stale(context, shadow, offset, size)
    if get(context, WRITE) != 0:
        check_held(context, shadow, offset, size)
        note_stored(context, offset, size)
        return False
    return seen == ANYWHERE


def core_maintenance(what: int, tile_state: int) -> int:
    """Follow a fence or cache maintenance; the core address is in ``state.DETAIL``."""
    tile, address = get(tile_state, state.SANITIZER), get(tile_state, state.DETAIL + 1)
    context, agent = get(tile, T_CONTEXT), get(tile, T_AGENT)
    by_line = what & (CLEANS | DROPS) != 0 and what & ENTIRE == 0
    if get(context, FULL) != 0 or (by_line and not is_cached(tile_state, address)):
        return 0
    if by_line:
        site = get(tile, T_CODE) + 8 * SITE_WORDS * (what >> 8)
        begin(context, agent, site_access(tile_state, context, site, what >> 8, CORE), 1)
        put(context, SPACE, IN_DDR)
    maintain(context, agent, what & 0xFF, address - get(tile_state, state.CORE_DDR))
    return 0


def is_cached(tile_state: int, address: int) -> bool:
    """Return True if the core accesses an address through its cache."""
    return u64(address - get(tile_state, state.CORE_DDR)) < u64(get(tile_state, state.CORE_WINDOW))


def may_be_flag(tile_state: int, address: int, size: int) -> bool:
    """Return True if an access may be to a flag: a word that other tiles, or the DTE, see at once.

    Such words are in uncached DDR, or in the strongly ordered view of SPM.
    """
    uncached = u64(address - get(tile_state, state.CORE_DDR_UNCACHED)) < u64(
        get(tile_state, state.CORE_WINDOW)
    )
    strong = u64(address - get(tile_state, state.CORE_SPM_STRONG)) < u64(get(tile_state, state.SPM_BYTES))
    return size >= 4 and address & (size - 1) == 0 and (uncached or strong)


def site_access(tile_state: int, context: int, site: int, index: int, kind: int) -> int:
    """Return the access of a load or store in the present step of its core."""
    agent = get(get(tile_state, state.SANITIZER), T_AGENT)
    clock, number = get(vector_of(context, agent), agent), get(site, S_NUMBER)
    if get(site, S_CLOCK) != clock or get(access_at(context, number), A_WHAT) != kind:
        number = new_access(context, agent, clock, get(tile_state, state.CODE_BASE) + PARCEL * index, kind)
        put(site, S_NUMBER, number)
        put(site, S_CLOCK, clock)
    return number


def check_kernel() -> int:
    """Return the address of the compiled check of the core."""
    return compile_once(core_access, "sanitizer of the core", 2)
