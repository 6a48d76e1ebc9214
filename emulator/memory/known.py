"""The sanitizer's fast path for loads and stores of the core that find the shadow of their last execution.

This case is frequent, and a call would cost more than the check. So it is inlined into the loop of the core
and into translated code, and uses only constructs that both support.
"""

from __future__ import annotations

from typing import Any

from emulator.native.primitives.memory import view_i64, view_u32
from tx8isa.numbers.primitives import s64, u64

from . import state
from .shadow_words import (
    BLOCK_BYTES,
    GRANULE,
    GRANULE_SHIFT,
    MIXED,
    S_CLOCK,
    S_NEXT_READERS,
    S_NEXT_WRITER,
    S_READERS,
    S_WRITER,
    SITE_WORDS,
    T_BLOCKS,
    T_CLOCK,
    T_CODE,
    T_DDR,
    T_SPM,
    T_STORES,
)


def word(address: int) -> int:
    """Return the word at a host address."""
    return s64(view_i64(address, 1)[u64(0)])


def known_access(s: Any, host: int, what: int, index: int) -> int:
    """1 when a load or store needs no check, 0 when it does. Stores are counted.

    ``what`` is 1 for a store, and twice the bytes.
    """
    tile = s64(s[u64(state.SANITIZER)])
    if what & 1 == 1:
        view_i64(tile + 8 * T_STORES, 1)[u64(0)] = word(tile + 8 * T_STORES) + 1
    site = word(tile + 8 * T_CODE) + 8 * SITE_WORDS * index
    offset = host - s64(s[u64(state.SPM)])
    if u64(offset) < u64(s[u64(state.SPM_BYTES)]):
        return same_past(tile, site, word(tile + 8 * T_SPM), offset, what >> 1)
    return same_past(tile, site, word(tile + 8 * T_DDR), host - s64(s[u64(state.DDR)]), what >> 1)


def same_past(tile: int, site: int, shadow: int, offset: int, size: int) -> int:
    """Return True if all bytes have the shadow that the instruction found last, in the same step of its core.

    Bytes with equal shadow words get the same new shadow. Two bytes' shadows are compared at a time.
    """
    block = s64(view_u32(shadow + 8 * (offset >> GRANULE_SHIFT), 1)[u64(0)]) - MIXED
    begins = offset & (GRANULE - 1)
    if size < 2 or block < 0 or begins + size > GRANULE:
        return 0
    if word(site + 8 * S_CLOCK) != word(word(tile + 8 * T_CLOCK)):
        return 0
    at = word(tile + 8 * T_BLOCKS) + BLOCK_BYTES * block + 4 * begins
    different = differs(at, size, word(site + 8 * S_WRITER))
    different = different | differs(at + 4 * GRANULE, size, word(site + 8 * S_READERS))
    if different != 0:
        return 0
    fill(at, size, word(site + 8 * S_NEXT_WRITER))
    fill(at + 4 * GRANULE, size, word(site + 8 * S_NEXT_READERS))
    return 1


def differs(at: int, size: int, expected: int) -> int:
    """Compare the shadow words of bytes: not 0 when one has another writer, or other readers."""
    different = word(at) ^ expected
    if size > 2:
        different = different | (word(at + 8) ^ expected)
    if size > 4:
        different = different | (word(at + 16) ^ expected) | (word(at + 24) ^ expected)
    return different


def fill(at: int, size: int, value: int) -> None:
    """Set the writer, or the readers, of bytes."""
    view_i64(at, 1)[u64(0)] = value
    if size > 2:
        view_i64(at + 8, 1)[u64(0)] = value
    if size > 4:
        view_i64(at + 16, 1)[u64(0)] = value
        view_i64(at + 24, 1)[u64(0)] = value
