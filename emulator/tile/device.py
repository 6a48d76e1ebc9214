"""What a block of registers in a tile's address space is to the kernel core."""

from __future__ import annotations

from typing import Protocol

from .tile import Tile


class Device(Protocol):
    """Registers at core addresses ``base`` .. ``base + size - 1``; offsets are from ``base``.

    A refused access that deserves more than "no memory" raises a ``Fault``.
    """

    base: int
    size: int

    def load(self, tile: Tile, offset: int, size: int) -> int | None:
        """The unsigned value of ``size`` bytes; None where there is no such register or width."""

    def store(self, tile: Tile, offset: int, size: int, value: int) -> bool:
        """Write ``size`` bytes; False where there is no such register or width."""
