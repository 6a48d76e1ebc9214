"""Hints: instructions without effect by the RISC-V manual, by which a program marks its phases.

The library for C (``tx8isa/c/runtime/hints.h``) executes them when it starts a program or builds packets.
"""

from __future__ import annotations

ENTERS, LEAVES = 1, 2
"""Numbers of the hints at which the program enters and leaves the library."""


def hint(number: int) -> int:
    """``slti zero, zero, number``, which is left to custom use (RISC-V manual, spec)."""
    return number << 20 | 0x2013
