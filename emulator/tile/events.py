"""Records of events between tiles: copies of the DTE, and packets of streams."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

Levels = tuple[int, int, int]
"""One number for each loop, level 0 the innermost."""
_TRANSACTION = 1 << 15
"""Bit of a user id: the copy is part of a stream (spec)."""


class Packet(NamedTuple):
    """A packet of a stream."""

    stream: int
    number: int


@dataclass(frozen=True, slots=True)
class Pieces:
    """Pieces of ``size`` bytes at the positions of three nested loops."""

    size: int
    trips: Levels = (1, 1, 1)

    @property
    def total(self) -> int:
        """Bytes of all pieces."""
        return self.size * self.trips[0] * self.trips[1] * self.trips[2]

    @property
    def consecutive(self) -> Levels:
        """The strides of pieces that follow each other without gaps."""
        rows = self.size * self.trips[0]
        return self.size, rows, rows * self.trips[1]

    def strided(self, strides: Sequence[int]) -> Levels:
        """Return strides of loops; a loop with a single trip may have any."""
        first, second, third = (
            stride if trips > 1 else consecutive
            for stride, trips, consecutive in zip(strides, self.trips, self.consecutive, strict=True)
        )
        return first, second, third

    def span(self, strides: Levels) -> int:
        """Return the bytes from the first to the last one touched."""
        (n, m, k), (first, second, third) = self.trips, strides
        return self.size + (n - 1) * first + (m - 1) * second + (k - 1) * third


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a copy: an offset in DDR or in a tile's SPM, and the strides of its loops."""

    in_ddr: bool
    start: int
    strides: Levels


@dataclass(frozen=True, slots=True)
class Target:
    """A side that is written; ``user_id`` as in the register of that name."""

    tile: int
    side: Side
    user_id: int = 0
    chip: int | None = None
    """Number of the tile's chip, if that is another one; None for a tile of this chip."""

    @property
    def packet(self) -> Packet | None:
        """The packet that the bytes belong to; None without a transaction of a stream."""
        if not self.user_id & _TRANSACTION:
            return None
        return Packet(self.user_id & 63, self.user_id >> 10 & 31)


@dataclass(frozen=True, slots=True)
class Copy:
    """One copy: all targets receive the bytes of the one source, or target i those of source i."""

    pieces: Pieces
    sources: tuple[Side, ...]
    targets: tuple[Target, ...]

    @property
    def bytes_read(self) -> int:
        return self.pieces.total * len(self.sources)

    @property
    def bytes_written(self) -> int:
        return self.pieces.total * len(self.targets)

    @property
    def away(self) -> bool:
        """True if the copy goes to other chips; all its targets are then on other chips."""
        return self.targets[0].chip is not None

    def source_of(self, target: int) -> int:
        """Return the number of a target's source."""
        return target if len(self.sources) > 1 else 0
