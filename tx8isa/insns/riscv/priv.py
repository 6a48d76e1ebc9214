"""Machine mode. Source: RISC-V manual, volume II, chapter "Machine-Level ISA" (spec)."""

from __future__ import annotations

from tx8isa.riscv.format import scalar


@scalar("mret", "001100000010 00000 000 00000 1110011", example="mret", kind="system")
def mret() -> None:
    """Return from a trap: go on at mepc, with the interrupt bit that mstatus kept."""


@scalar("wfi", "000100000101 00000 000 00000 1110011", example="wfi", kind="wait")
def wfi() -> None:
    """Wait for an interrupt; the manual allows to go on at once, and here it does."""
