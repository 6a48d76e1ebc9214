"""Blocks of registers in the address space of a kernel core."""

from __future__ import annotations

from typing import Protocol

from .tile import Tile


class Device(Protocol):
    """Registers at core addresses ``base`` .. ``base + size - 1``; offsets are from ``base``.

    An access that is refused for any other reason than "no such register" raises a ``Fault``.
    """

    base: int
    size: int

    def load(self, tile: Tile, offset: int, size: int) -> int | None:
        """Return the unsigned value of ``size`` bytes; None if there is no such register or width."""

    def store(self, tile: Tile, offset: int, size: int, value: int) -> bool:
        """Write ``size`` bytes; False if there is no such register or width."""
