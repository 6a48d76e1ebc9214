"""The interface of a chip to other chips, as its traffic uses it.

A single chip has no port. ``emulator/chips`` has the ports of linked chips.
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
"""Bit of a tile's number in the address of its registers: the tile is on another chip (proposed)."""
CHIP_SHIFT = 8
"""Position of the chip in that number; the tile is in the bits below (proposed)."""


class Port(Protocol):
    """The exit of a chip, through which copies and updates leave it."""

    number: int
    """Number of the chip."""
    chips: Chips

    def send(self, tile: Tile, copy: Copy, channel: Channel | None) -> None:
        """Start a copy to other chips, between rounds."""

    def post(self, tile: Tile, update: Update) -> None:
        """Send a packet counter update to another chip, between rounds."""

    def awaits(self, tile: Tile) -> bool:
        """Return True while copies of a tile to other chips are not done."""


def has_tile(port: Port, tiles: int, chip: int | None, tile: int) -> bool:
    """Return True if there is another chip of this number with a good tile of this number."""
    if chip is None or chip >= port.chips.count or chip == port.number or tile >= tiles:
        return False
    return bool(port.chips.good_tiles(chip, tiles) >> tile & 1)


def refused_tile(port: Port, tiles: int, what: str, chip: int | None, tile: int) -> str:
    """Return the reason why ``has_tile`` refuses; ``what`` names the chip as the program does."""
    chips = port.chips
    if chip is None or chip >= chips.count:
        return f"{what} is not there, expected x < {chips.x} and y < {chips.y} ({chips.count} chips)"
    if chip == port.number:
        return f"{what} is the chip of the program itself, which is addressed without bit 39"
    if tile >= tiles:
        return f"tile {tile} of {what}, expected 0..{tiles - 1}"
    return f"tile {tile} of {what} is not good: its good tiles are 0x{chips.good_tiles(chip, tiles):x}"
