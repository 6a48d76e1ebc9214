"""The registers of the DTE and of streams that exchanges between chips use.

docs/isa.md, Registers of the DTE, and docs/isa.md, Streams.
"""

from __future__ import annotations

from tx8isa.machine.description import Machine

SUMS, ALLOWED, WRITTEN, HELLO = 60, 61, 62, 63
"""Streams: a packet for each message to be added, for each chip that allows this one to write, for each
message that stays where it is written, and for each chip that greets."""
INBOXES, EMPTY, MOST_INBOXES = 0, 16, 512
"""The first of the streams that count bytes coming into inboxes in DDR; the first of the streams by which
receivers say that an inbox is empty; and the number of inboxes for which these have packets.
"""
LARGEST = 0x800000
"""Bytes of the largest packet."""

SOURCE, SOURCE_HIGH, TARGET, TARGET_HIGH, USER_ID, LENGTH = 0x000, 0x004, 0x008, 0x00C, 0x010, 0x018
START, STATUS = 0x038, 0x040
FINISHED, FAILED = 1, 0x100
"""Bits of the status of a copy; writing a 1 clears them."""
OTHER_CHIP = 0x80
"""Bit 39 of an address, in its upper word."""

STREAMS = 0x620000
CONFIG, BASE, READY, COUNTERS = STREAMS + 0xE8, STREAMS + 0x1F0, STREAMS + 0x7A8, STREAMS + 0x8A8
PACKETS = 32
"""Packets of a stream, one for each chip."""
UPDATES = 0x670000
"""Packet counter updates of other tiles; the tile's number begins at bit 23."""
UPDATES_OF_CHIPS = 0x18000


def dte_block(machine: Machine, number: int = 0) -> int:
    """The address of a block of the DTE, counted from the last one, because instructions use the first
    ones."""
    return machine.windows.dte + (machine.tile.dte_blocks - 1 - number) * machine.windows.dte_stride


def upper_word(xy: tuple[int, int]) -> int:
    """The upper word of addresses on the chip at (x, y), without the tile."""
    x, y = xy
    return x << 24 | y << 16 | OTHER_CHIP


def config(size: int) -> int:
    """The word that opens a stream with packets of ``size`` bytes."""
    return 1 << 31 | PACKETS - 1 << 24 | size


def packet(stream: int, number: int = 0) -> int:
    """The user id of a copy whose bytes count for a packet of a stream of the receiver."""
    return stream & 63 | (1 << 7 if stream > 32 else 0) | 0x240 | 1 << 15 | number << 10


def packet_of_inbox(number: int) -> tuple[int, int]:
    """The stream and the packet that count the bytes coming into an inbox."""
    stream, packet_number = divmod(number, PACKETS)
    return INBOXES + stream, packet_number


def packet_of_empty(number: int) -> tuple[int, int]:
    """The stream and the packet by which a receiver says that it has emptied an inbox."""
    stream, packet_number = packet_of_inbox(number)
    return stream + EMPTY, packet_number


def update(stream: int, number: int = 0) -> int:
    """The word that makes a packet of another tile ready."""
    return 1 | number << 4 | stream << 12
