"""The interface of a chip to other chips: what its traffic needs to know of them, and gives to them.

A chip that stands alone has no port. ``emulator/chips`` has those of chips that are linked.
"""

from __future__ import annotations

from typing import Protocol

from emulator.tile.events import Copy
from emulator.tile.tile import Tile
from tx8isa.machine.chips import Chips

from .copies import Channel
from .stream import Update

TILE_SHIFT, Y_SHIFT, X_SHIFT = 40, 48, 56
"""A target on another chip is named by its tile and the coordinates of its chip, 8 bits each (proposed)."""
OTHER_CHIP = 1 << 15
"""In the number of a tile in the address of its registers: it is one of another chip (proposed)."""
CHIP_SHIFT = 8
"""Where the chip stands in that number; the tile is below it (proposed)."""


class Port(Protocol):
    """The exit of a chip, through which copies and updates leave it."""

    number: int
    """Number of the chip."""
    chips: Chips

    def send(self, tile: Tile, copy: Copy, channel: Channel | None) -> None:
        """Between rounds: a copy to other chips begins."""

    def post(self, tile: Tile, update: Update) -> None:
        """Between rounds: a packet counter update leaves for another chip."""

    def awaits(self, tile: Tile) -> bool:
        """Whether copies of a tile to other chips are not done."""


def has_tile(port: Port, tiles: int, chip: int | None, tile: int) -> bool:
    """Whether there is such a chip besides this one, and such a good tile on it."""
    if chip is None or chip >= port.chips.count or chip == port.number or tile >= tiles:
        return False
    return bool(port.chips.good_tiles(chip, tiles) >> tile & 1)


def refused_tile(port: Port, tiles: int, what: str, chip: int | None, tile: int) -> str:
    """Why ``has_tile`` says no; ``what`` names the chip as the program does."""
    chips = port.chips
    if chip is None or chip >= chips.count:
        return f"{what} is not there, expected x < {chips.x} and y < {chips.y} ({chips.count} chips)"
    if chip == port.number:
        return f"{what} is the chip of the program itself, which is addressed without bit 39"
    if tile >= tiles:
        return f"tile {tile} of {what}, expected 0..{tiles - 1}"
    return f"tile {tile} of {what} is not good: its good tiles are 0x{chips.good_tiles(chip, tiles):x}"
