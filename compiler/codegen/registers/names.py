"""The names of the kernel core's integer registers, and the immediates that instructions may contain."""

from __future__ import annotations

TILE = "s11"
"""Holds the tile number throughout the program."""

ZERO = "zero"
"""Holds 0."""

STACK = "sp"
"""Holds the address of the tile's stack, which is in the part of its scratchpad that is kept for the core."""

POOL = tuple(f"t{i}" for i in range(7)) + tuple(f"a{i}" for i in range(8)) + tuple(f"s{i}" for i in range(11))
"""The registers for the values of a phase."""
ORDER = {register: at for at, register in enumerate(POOL)}
"""The number of each of them."""
IMMEDIATES = range(-2048, 2048)
"""Numbers that an instruction of the core can contain (12 bits)."""


def with_immediate(op: str, right: object) -> tuple[str, int] | None:
    """The form of an operation whose right operand is an immediate; None if there is none."""
    if not isinstance(right, int):
        return None
    if op == "shl":
        return "slli", right
    if op == "add" and right in IMMEDIATES:
        return "addi", right
    if op == "or" and right in IMMEDIATES:
        return "ori", right
    if right > 0 and right & (right - 1) == 0:
        shift = right.bit_length() - 1
        if op == "mul":
            return "slli", shift
        if op == "div":
            return "srli", shift
        if op == "rem" and right - 1 in IMMEDIATES:
            return "andi", right - 1
    return None
