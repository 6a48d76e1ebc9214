"""Zifencei. Source: RISC-V manual, volume I, chapter "Zifencei" (spec)."""

from __future__ import annotations

from tx8isa.riscv.format import scalar


@scalar("fence.i", "000000000000 00000 001 00000 0001111", example="fence.i", kind="fence.i")
def fence_i() -> None:
    """Fetch instructions as the stores before have left them; without it the old ones may go on."""
