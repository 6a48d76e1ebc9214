"""Hints: instructions that do nothing by the RISC-V manual, with which a program says where it is.

The library for C (``tx8isa/c/runtime/hints.h``) executes them where it starts a program or builds packets.
"""

from __future__ import annotations

ENTERS, LEAVES = 1, 2
"""The program enters the library, and leaves it."""


def hint(number: int) -> int:
    """``slti zero, zero, number``, which is left to custom use (RISC-V manual, spec)."""
    return number << 20 | 0x2013
