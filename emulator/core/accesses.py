"""Loads and stores of the kernel core: the places of their bytes, and their records. Compiled."""

from __future__ import annotations

from typing import Any

from emulator.memory import state
from emulator.memory.areas import GRANULE_SHIFT, LINE_SHIFT
from emulator.native.primitives.memory import call_kernel, view_u8
from tx8isa.numbers.primitives import s64, u64
from tx8isa.riscv.format import Scalar


def host_address(s: Any, address: int, size: int) -> int:
    """Return the host address of ``size`` bytes at a core address, or 0 if one memory does not contain all of
    them."""
    off = u64(address - s64(s[u64(state.CORE_SPM)]))
    if off <= u64(s64(s[u64(state.SPM_BYTES)]) - size):
        return s64(s[u64(state.SPM)]) + s64(off)
    off = u64(address - s64(s[u64(state.CORE_DDR)]))
    window = u64(s64(s[u64(state.CORE_WINDOW)]) - size)
    if off <= window:
        return s64(s[u64(state.DDR)]) + s64(off)
    off = u64(address - s64(s[u64(state.CORE_SPM_STRONG)]))
    if off <= u64(s64(s[u64(state.SPM_BYTES)]) - size):
        return s64(s[u64(state.SPM)]) + s64(off)
    off = u64(address - s64(s[u64(state.CORE_DDR_UNCACHED)]))
    if off <= window:
        return s64(s[u64(state.DDR)]) + s64(off)
    return 0


def note_store(s: Any, host: int, size: int) -> None:
    """Mark the SPM lines of a store, or the granules of DDR."""
    off = u64(host - s64(s[u64(state.SPM)]))
    if off < u64(s[u64(state.SPM_BYTES)]):
        lines = s64(s[u64(state.LINES)])
        view_u8(lines + s64(off >> LINE_SHIFT), 1)[u64(0)] = 1
        view_u8(lines + (s64(off) + size - 1 >> LINE_SHIFT), 1)[u64(0)] = 1
    else:
        marks = s64(s[u64(state.DDR_MARKS)])
        place = host - s64(s[u64(state.DDR)])
        view_u8(marks + (place >> GRANULE_SHIFT), 1)[u64(0)] = 1
        view_u8(marks + (place + size - 1 >> GRANULE_SHIFT), 1)[u64(0)] = 1


def is_made(s: Any, host: int, size: int) -> int:
    """Return 1 if an engine or a copy would have written bytes that a load reads, in a run without data."""
    marks, place = s64(s[u64(state.MADE_SPM)]), host - s64(s[u64(state.SPM)])
    if u64(place) >= u64(s[u64(state.SPM_BYTES)]):
        marks, place = s64(s[u64(state.MADE)]), host - s64(s[u64(state.DDR)])
    first = view_u8(marks + (place >> LINE_SHIFT), 1)[u64(0)]
    return s64(first | view_u8(marks + (place + size - 1 >> LINE_SHIFT), 1)[u64(0)])


def note_load(s: Any, address: int) -> None:
    """Count a load for simulated time: from DDR through the cache, or past it."""
    if u64(address - s64(s[u64(state.CORE_DDR)])) < u64(s[u64(state.CORE_WINDOW)]):
        s[u64(state.LOADS)] = s64(s[u64(state.LOADS)]) + 1
    else:
        s[u64(state.UNCACHED_LOADS)] = s64(s[u64(state.UNCACHED_LOADS)]) + 1


MAINTENANCE = 0x80
"""The reason for a check: a fence or maintenance of the cache, with the bits CLEANS, DROPS and ENTIRE."""
CLEANS, DROPS, ENTIRE = 1, 2, 4


def maintenance(record: Scalar) -> int:
    """Return the reason for a check at a fence, or at an instruction that cleans or invalidates the cache."""
    if record.kind == "fence":
        return MAINTENANCE
    cleans, drops = map(int, record.body())
    return MAINTENANCE | CLEANS * cleans | DROPS * drops | ENTIRE * (record.kind == "cache")


def call_check(check: int, what: int, address: int) -> int:
    """Call the check of a load, a store or a fence, which neither reads nor changes registers."""
    return call_kernel(check, what, address)
