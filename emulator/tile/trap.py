"""Traps of the kernel core: exceptions that the program handles itself, and the return from them.

Source: RISC-V manual, volume II, chapter "Machine-Level ISA" (spec). The core has machine mode only. A
program that never wrote mtvec has no handler; then the environment answers (proposed).
"""

from __future__ import annotations

from emulator.core.code import Code
from emulator.memory import state, stop
from tx8isa.numbers.primitives import s64

from .tile import Status, Tile

FETCH_FAULT, ILLEGAL, BREAKPOINT, LOAD_FAULT, STORE_FAULT, CALL = 1, 2, 3, 5, 7, 11
"""Codes of mcause. With compressed instructions no address of an instruction is misaligned."""

MIE, MPIE = 1 << 3, 1 << 7
"""Bits of mstatus: interrupts enabled, and its value before the trap."""

_VECTORED = 1
_LINK = ("jal", "jalr")


def has_handler(tile: Tile) -> bool:
    """Return True if the program has set mtvec."""
    return _base(tile) != 0


def take(tile: Tile, code: Code, reason: int) -> bool:
    """Enter the handler for the cause of a stop; False without a handler, or if the stop is not an exception.

    Also False if no instruction was executed since the last trap, because the handler itself then cannot run.
    """
    found = _exception(tile, code, reason)
    if found is None or not has_handler(tile) or tile.words[state.TRAPPED] == tile.retired + 1:
        return False
    cause, value = found
    if reason == stop.JUMP:
        _complete_jump(tile, code, value)
    tile.csrs |= {"mepc": s64(tile.pc), "mcause": cause, "mtval": s64(value)}
    status = tile.csrs.get("mstatus", 0)
    tile.csrs["mstatus"] = MPIE if status & MIE else 0
    tile.pc = _base(tile)
    tile.words[state.TRAPPED] = tile.retired + 1
    return True


def leave(tile: Tile) -> None:
    """Execute mret."""
    status = tile.csrs.get("mstatus", 0)
    tile.csrs["mstatus"] = MPIE | (MIE if status & MPIE else 0)
    tile.advance(0)
    tile.pc = tile.csrs.get("mepc", 0)


def _base(tile: Tile) -> int:
    """Return the handler's address: exceptions go to the base in the vectored mode too."""
    return tile.csrs.get("mtvec", 0) & ~_VECTORED


def _exception(tile: Tile, code: Code, reason: int) -> tuple[int, int] | None:
    """Return mcause and mtval; None when a stop is not an exception."""
    first, _, third, _ = tile.detail
    if reason in (stop.ILLEGAL, stop.CSR):
        word = code.word(tile.pc)
        return (FETCH_FAULT, code.missing(tile.pc)) if word is None else (ILLEGAL, word)
    if reason == stop.JUMP:
        return FETCH_FAULT, first
    if reason == stop.MEMORY:
        return STORE_FAULT if third else LOAD_FAULT, first
    if reason == stop.SYSTEM and tile.status is not Status.EXITED:
        record, _ = code.scalar(tile.pc)
        return (CALL, 0) if record.mnemonic == "ecall" else (BREAKPOINT, tile.pc)
    return None


def _complete_jump(tile: Tile, code: Code, target: int) -> None:
    """Complete a jump before the fault of the fetch at its target."""
    record, values = code.scalar(tile.pc)
    if record.kind in _LINK:
        tile.set_register(values["rd"], tile.pc + code.size(tile.pc))
    tile.advance(0)
    tile.pc = target
