"""The check of the kernel core, compiled: called for loads and stores of memory that are not ``known``."""

from __future__ import annotations

from emulator.memory import state
from emulator.memory.shadow_words import (
    A_WHAT,
    ATOMIC,
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
)
from emulator.native import compile_kernel
from emulator.native.primitives.memory import get, put
from tx8isa.numbers.primitives import u64

from .access import NOTHING_SEEN, access_at, begin, new_access, vector_of
from .order import acquire, release
from .shadow import touch, writer_of

TWICE = (1 << 32) + 1
"""A factor that puts a word of 32 bits side by side with itself."""


def core_access(what: int, s: int) -> int:
    """Judge a load or store: ``what`` is 1 for a store, twice the bytes, and 256 times the index in the text.

    Host and core address are in ``state.DETAIL``. Most never come here (``known``).
    """
    tile, size = get(s, state.SANITIZER), what >> 1 & 127
    c, agent, host = get(tile, T_CONTEXT), get(tile, T_AGENT), get(s, state.DETAIL)
    if get(c, FULL) != 0:
        return 0
    shadow, offset, space = get(tile, T_SPM), host - get(s, state.SPM), get(tile, T_TILE)
    if u64(offset) >= u64(get(s, state.SPM_BYTES)):
        shadow, offset, space = get(c, DDR_SHADOW), host - get(s, state.DDR), IN_DDR
    flag = may_be_flag(s, get(s, state.DETAIL + 1), size)
    if flag and what & 1 == 0:
        acquire(c, agent, writer_of(c, shadow, offset))
    site = get(tile, T_CODE) + 8 * SITE_WORDS * (what >> 8)
    begin(c, agent, site_access(s, c, site, what >> 8, FLAG if flag else CORE), what & 1)
    put(c, ATOMIC, 1 if flag else 0)
    put(c, SPACE, space)
    touch(c, shadow, offset, size)
    again = get(c, PAIR_WRITER) + get(c, PAIR_READERS) == 0 and (what & 1 == 0 or not flag)
    put(site, S_WRITER, TWICE * get(c, SEEN_WRITER) if again else NOTHING_SEEN)
    put(site, S_READERS, TWICE * get(c, SEEN_READERS))
    put(site, S_NEXT_WRITER, TWICE * get(c, NEXT_WRITER))
    put(site, S_NEXT_READERS, TWICE * get(c, NEXT_READERS))
    if flag and what & 1 == 1:
        release(c, agent)
    return 0


def may_be_flag(s: int, address: int, size: int) -> bool:
    """Whether a core address is one that other tiles, or the DTE, see at once: a word by which they wait.

    Such words lie in uncached DDR, or in SPM as strongly ordered.
    """
    uncached = u64(address - get(s, state.CORE_DDR_UNCACHED)) < u64(get(s, state.CORE_WINDOW))
    strong = u64(address - get(s, state.CORE_SPM_STRONG)) < u64(get(s, state.SPM_BYTES))
    return size >= 4 and address & (size - 1) == 0 and (uncached or strong)


def site_access(s: int, c: int, site: int, index: int, kind: int) -> int:
    """The access of a load or store in the present step of its core."""
    agent = get(get(s, state.SANITIZER), T_AGENT)
    clock, number = get(vector_of(c, agent), agent), get(site, S_NUMBER)
    if get(site, S_CLOCK) != clock or get(access_at(c, number), A_WHAT) != kind:
        number = new_access(c, agent, clock, get(s, state.CODE_BASE) + 4 * index, kind)
        put(site, S_NUMBER, number)
        put(site, S_CLOCK, clock)
    return number


def check_kernel() -> int:
    """Address of the compiled check of the core."""
    return compile_kernel(core_access, "sanitizer of the core", 2)
