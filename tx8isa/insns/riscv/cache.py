"""Maintenance of the data cache of the core, a T-Head C908. Source: its instruction set extension (spec).

The cache is not coherent with the engines (board): it does not see their writes to DDR, and they do not see
its contents. A clean writes a cached line to DDR; an invalidation discards it, so that the next access loads
from DDR. ``fence`` or ``th.sync`` completes both. A line has ``CACHE_LINE`` bytes (``limits.py``).
"""

from __future__ import annotations

from tx8isa.riscv.format import scalar


@scalar(
    "th.dcache.cva rs1", "0000001 00101 rs1 000 00000 0001011", example="th.dcache.cva a0", kind="cache line"
)
def th_dcache_cva() -> tuple[bool, bool]:
    """Clean the line with the address in rs1: DDR gets what was stored to it."""
    return True, False


@scalar(
    "th.dcache.iva rs1", "0000001 00110 rs1 000 00000 0001011", example="th.dcache.iva a0", kind="cache line"
)
def th_dcache_iva() -> tuple[bool, bool]:
    """Invalidate the line with the address in rs1; what was stored to it and not cleaned is lost."""
    return False, True


@scalar(
    "th.dcache.civa rs1",
    "0000001 00111 rs1 000 00000 0001011",
    example="th.dcache.civa a0",
    kind="cache line",
)
def th_dcache_civa() -> tuple[bool, bool]:
    """Clean the line with the address in rs1, then invalidate it."""
    return True, True


@scalar("th.dcache.call", "0000000 00001 00000 000 00000 0001011", example="th.dcache.call", kind="cache")
def th_dcache_call() -> tuple[bool, bool]:
    """Clean all lines: DDR gets what was stored through the cache."""
    return True, False


@scalar("th.dcache.iall", "0000000 00010 00000 000 00000 0001011", example="th.dcache.iall", kind="cache")
def th_dcache_iall() -> tuple[bool, bool]:
    """Invalidate all lines; what was stored and not cleaned is lost."""
    return False, True


@scalar("th.dcache.ciall", "0000000 00011 00000 000 00000 0001011", example="th.dcache.ciall", kind="cache")
def th_dcache_ciall() -> tuple[bool, bool]:
    """Clean all lines, then invalidate them."""
    return True, True


@scalar("th.sync", "0000000 11000 00000 000 00000 0001011", example="th.sync", kind="fence")
def th_sync() -> None:
    """Wait until the maintenance before it is complete."""


@scalar("th.sync.s", "0000000 11001 00000 000 00000 0001011", example="th.sync.s", kind="fence")
def th_sync_s() -> None:
    """Like th.sync, but also for the other cores; a tile has only one."""
