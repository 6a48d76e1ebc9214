"""Branches to the end of a loop or condition, and to the beginning of a loop."""

from __future__ import annotations

from compiler.codegen.expr import Value
from compiler.codegen.registers import Registers
from compiler.codegen.tree import most_bytes

_REACH = 4000
"""Bytes that a branch reaches, and a few less."""


def exit_unless(registers: Registers, index: Value, limit: Value, end: str) -> int:
    """Jump to ``end`` unless ``index`` < ``limit``; returns the number of the line with the branch.

    A branch reaches 4 KiB, which is a few dozen engine instructions; a jump reaches 1 MiB.
    """
    out = registers.out
    with registers.scope():
        out.instruction("blt", registers.operand(index), registers.operand(limit), "1f")
    out.instruction("j", end)
    registers.label_after_jump("1")
    return out.count - 3


def shorten_exit(registers: Registers, branch: int | None, end: str, is_reached: bool = True) -> None:
    """Make the branch of ``exit_unless`` go directly to its ``end``, which is here, for small code.

    Code in between that is never reached is omitted.
    """
    if branch is not None and not is_reached:
        registers.out.erase(branch, registers.out.count - 1)
    elif branch is not None and _reaches(registers, branch):
        registers.out.shorten(branch, "bge", end, 2)


def shorten_turn(registers: Registers, branch: int, begin: str, first: int) -> None:
    """Make the branch of ``exit_unless`` at the end of a loop go to its ``begin``, without a jump after it.

    ``begin`` is after line ``first``; the end of the loop is here.
    """
    if _reaches(registers, first):
        registers.out.shorten(branch, "blt", begin, 3)


def _reaches(registers: Registers, line: int) -> bool:
    """True if code should be small, and a branch reaches from a line to here."""
    return registers.contents is not None and most_bytes(registers.out.since(line)) <= _REACH
