"""The integer registers of the kernel core, and expressions compiled to its instructions.

Values are in registers or in the stack. Final code reuses values that a register still holds.
"""

from __future__ import annotations

from .names import IMMEDIATES, POOL, STACK, TILE, ZERO, with_immediate
from .size_load import SIZE_PREFIX, SizeLoad
from .turns import Turns, registers_for
from .values import Registers

__all__ = [
    "IMMEDIATES",
    "POOL",
    "SIZE_PREFIX",
    "STACK",
    "TILE",
    "ZERO",
    "Registers",
    "SizeLoad",
    "Turns",
    "registers_for",
    "with_immediate",
]
