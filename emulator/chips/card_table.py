"""The table of cards in the memory of every chip, which lists the chips for a program.

An entry has 64 bytes: chip, number of good tiles, their set, and coordinates of the chip, 32 bits each; then
the coordinates of 16 tiles, 16 bits each. Coordinates are ``x << 8 | y``; entries without a chip, and tiles
that are not good, hold all ones. Contents and address: spec; the order and the widths are proposed.
"""

from __future__ import annotations

import struct

from tx8isa.machine.chips import CARD_BYTES, MOST_CHIPS, MOST_TILES, Chips
from tx8isa.machine.description import Machine

_ENTRY = struct.Struct(f"<4I{MOST_TILES}H")
_NOTHING, _NO_TILE = 0xFFFF_FFFF, 0xFFFF


def card_table(machine: Machine, chips: Chips) -> bytes:
    """Return the table for the chips of a machine."""
    entries = [_entry(machine, chips, number) for number in range(chips.count)]
    return b"".join(entries).ljust(CARD_BYTES * MOST_CHIPS, b"\xff")


def _entry(machine: Machine, chips: Chips, number: int) -> bytes:
    good = chips.good_tiles(number, machine.tiles)
    x, y = chips.xy(number)
    tiles = [_NO_TILE] * MOST_TILES
    for tile in range(machine.tiles):
        if good >> tile & 1:
            tile_x, tile_y = machine.tile_xy(tile)
            tiles[tile] = tile_x << 8 | tile_y
    packed = _ENTRY.pack(number, good.bit_count(), good, x << 8 | y, *tiles)
    return packed.ljust(CARD_BYTES, b"\xff")
