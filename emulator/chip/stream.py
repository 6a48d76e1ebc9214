"""Streams: the state of the packets that other tiles send to a tile (docs/isa.md, Streams).

A stream has up to 32 packets of one length. Copies that name a stream in their user id count as bytes of a
packet. The packet becomes ready when it is complete, or by a packet counter update of the sender.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from emulator.tile.events import Packet
from emulator.tile.fault import Fault, FaultKind

STREAMS, PACKETS = 64, 32
FIRST_SRAM_STREAM = 32
"""Streams with smaller numbers end in DDR, the others in SPM (spec)."""
COUNT_MASK = (1 << 24) - 1
"""Bits of a packet's length, and of its count of bytes."""


@dataclass(frozen=True, slots=True)
class Update:
    """A packet counter update that was sent; ``refusal`` is the fault if the target has no such packet."""

    target: int
    packet: Packet
    refusal: str
    chip: int | None = None
    """The other chip of the target tile."""

    def arrive(self, streams: Sequence[Fsm]) -> None:
        """Apply the update; Fault when the target has no such packet (proposed)."""
        fsm = streams[self.target]
        if not fsm.has(self.packet):
            raise Fault(self.refusal, FaultKind.PACKET)
        fsm.update(self.packet)


class Fsm:
    """The state of a tile's 64 streams."""

    def __init__(self) -> None:
        self.config = [0] * STREAMS
        self.check = 0
        """Bit s: the addresses of stream s are checked."""
        self.bases = [0] * STREAMS
        self.ready = [0] * STREAMS
        self.counts = [0] * (STREAMS * PACKETS)
        """Bytes of packet p of stream s at ``s * PACKETS + p``: one list, because most runs never use it."""

    def length(self, stream: int) -> int:
        """Return the bytes of a packet."""
        return self.config[stream] & COUNT_MASK

    def all_ready(self, stream: int) -> int:
        """Return PACKET_STA when every packet is there."""
        return (2 << (self.config[stream] >> 24 & 31)) - 1

    def has(self, packet: Packet) -> bool:
        """Return True if the stream is enabled and has the packet."""
        config = self.config[packet.stream]
        return bool(config >> 31) and packet.number <= config >> 24 & 31

    def has_room(self, packet: Packet, size: int) -> bool:
        """Return True if ``size`` more bytes of a packet fit into its length (proposed)."""
        received = self.counts[packet.stream * PACKETS + packet.number]
        return self.has(packet) and received + size <= self.length(packet.stream)

    def covers(self, stream: int, address: int, size: int) -> bool:
        """Return True if the check of addresses, if enabled, accepts bytes (its comparison: proposed)."""
        if not self.check >> stream & 1:
            return True
        packets = (self.config[stream] >> 24 & 31) + 1
        offset = address - self.bases[stream]
        return offset >= 0 and offset + size <= packets * self.length(stream)

    def receive(self, packet: Packet, size: int) -> None:
        """Count bytes that have arrived. A complete packet in the SPM becomes ready (proposed)."""
        at = packet.stream * PACKETS + packet.number
        self.counts[at] += size
        if packet.stream >= FIRST_SRAM_STREAM and self.counts[at] == self.length(packet.stream):
            self.ready[packet.stream] |= 1 << packet.number

    def update(self, packet: Packet) -> None:
        """Apply a packet counter update: the packet is ready."""
        self.ready[packet.stream] |= 1 << packet.number

    def status(self) -> int:
        """Return STREAM_STA: bit s is set while stream s has a ready packet (proposed)."""
        return sum(1 << stream for stream, ready in enumerate(self.ready) if ready)
