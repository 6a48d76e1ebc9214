"""The integer registers of the kernel core, and expressions compiled to its instructions.

Values are in registers or in the stack. Where code is to be small, nothing is computed again that a register
holds.
"""

from __future__ import annotations

from .contents import RegisterContents
from .names import IMMEDIATES, POOL, STACK, TILE, ZERO, with_immediate
from .sums import Sums
from .values import SIZE_PREFIX, Registers, SizeLoad

__all__ = [
    "IMMEDIATES",
    "POOL",
    "SIZE_PREFIX",
    "STACK",
    "TILE",
    "ZERO",
    "RegisterContents",
    "Registers",
    "SizeLoad",
    "Sums",
    "with_immediate",
]
