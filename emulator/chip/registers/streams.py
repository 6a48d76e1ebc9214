"""The registers of a tile's streams, and the words for packet counter updates between tiles."""

from __future__ import annotations

from emulator.chip.port import CHIP_SHIFT, OTHER_CHIP, Port, has_tile, refused_tile
from emulator.chip.stream import COUNT_MASK, PACKETS, STREAMS, Fsm, Update
from emulator.chip.traffic import Traffic
from emulator.tile.events import Packet
from emulator.tile.fault import FaultKind, place
from emulator.tile.tile import Tile

FSM_BASE, FSM_BYTES = 0x62_0000, 0x1_0000
UPDATE_BASE, UPDATE_BYTES = 0x67_0000, 4
REMOTE_BASE, REMOTE_STRIDE = 0x80_0000_0000, 0x80_0000
"""Registers of tile t, as other tiles see them, start at REMOTE_BASE + t * REMOTE_STRIDE (spec)."""
MAX_PACKET = 0x80_0000
"""Longest packet of a stream, in bytes."""
_CONFIG, _CHECK, _BASES, _STATUS, _READY, _COUNTS = 0x0E8, 0x1E8, 0x1F0, 0x6A8, 0x7A8, 0x8A8
_END = _COUNTS + 4 * STREAMS * PACKETS
_WORD, _CONFIG_BITS = (1 << 32) - 1, 0x9FFF_FFFF
_UPDATE_BITS = 1 | 31 << 4 | 63 << 12


class StreamWindow:
    """The stream registers of a tile, 32 bits each."""

    base, size = FSM_BASE, FSM_BYTES

    def __init__(self, traffic: Traffic) -> None:
        self.streams, self.traffic = traffic.dte.streams, traffic

    def load(self, tile: Tile, offset: int, size: int) -> int | None:
        if size != 4 or offset % 4:
            return None
        fsm = self.streams[tile.number]
        if _STATUS <= offset < _STATUS + 8:
            value = fsm.status() >> 8 * (offset - _STATUS) & _WORD
            self.traffic.poll(tile, "STREAM_STA", found=False)
            for stream in (n for n, ready in enumerate(fsm.ready) if ready):
                self._seen(tile, stream)
            return value
        if _READY <= offset < _READY + 4 * STREAMS:
            stream = offset - _READY >> 2
            self.traffic.poll(
                tile, f"PACKET_STA of stream {stream}", fsm.ready[stream] == fsm.all_ready(stream)
            )
            if fsm.ready[stream]:
                self._seen(tile, stream)
            return fsm.ready[stream]
        if _COUNTS <= offset < _END:
            stream, packet = divmod(offset - _COUNTS >> 2, PACKETS)
            count = fsm.counts[stream * PACKETS + packet]
            what = f"PACKET_CNT of stream {stream}, packet {packet}"
            self.traffic.poll(tile, what, count == fsm.length(stream))
            if count:
                self._seen(tile, stream)
            return count
        return self._configured(fsm, offset)

    def _seen(self, tile: Tile, stream: int) -> None:
        for observer in self.traffic.observers:
            observer.arrival_seen(tile, stream)

    def _configured(self, fsm: Fsm, offset: int) -> int | None:
        if _CONFIG <= offset < _CONFIG + 4 * STREAMS:
            return fsm.config[offset - _CONFIG >> 2]
        if _CHECK <= offset < _CHECK + 8:
            return fsm.check >> 8 * (offset - _CHECK) & _WORD
        if _BASES <= offset < _BASES + 8 * STREAMS:
            stream, high = divmod(offset - _BASES, 8)
            return fsm.bases[stream] >> 8 * high & _WORD
        return None

    def store(self, tile: Tile, offset: int, size: int, value: int) -> bool:
        if size != 4 or offset % 4:
            return False
        fsm = self.streams[tile.number]
        if _CONFIG <= offset < _CONFIG + 4 * STREAMS:
            stream = offset - _CONFIG >> 2
            fsm.config[stream] = self._checked_config(tile, stream, value)
        elif _CHECK <= offset < _CHECK + 8:
            fsm.check = _with_word(fsm.check, offset - _CHECK, value)
        elif _BASES <= offset < _BASES + 8 * STREAMS:
            stream, high = divmod(offset - _BASES, 8)
            fsm.bases[stream] = _with_word(fsm.bases[stream], high, value)
        elif _READY <= offset < _READY + 4 * STREAMS:
            fsm.ready[offset - _READY >> 2] &= ~value
        elif _COUNTS <= offset < _END:
            stream, packet = divmod(offset - _COUNTS >> 2, PACKETS)
            if value not in (_WORD, COUNT_MASK):
                found = f"PACKET_CNT of stream {stream}, packet {packet}: found 0x{value:x}"
                raise self.traffic.fault(tile, f"{found}, expected all ones, which clear it", FaultKind.VALUE)
            fsm.counts[stream * PACKETS + packet] = 0
        else:
            return False
        return True

    def _checked_config(self, tile: Tile, stream: int, value: int) -> int:
        """Check a value for STREAM_CFG; Fault when it is not a legal one."""
        length = value & COUNT_MASK
        if value & ~_CONFIG_BITS or length > MAX_PACKET or (value >> 31 and not length):
            found = f"STREAM_CFG of stream {stream}: found 0x{value:x}"
            allowed = f"expected a packet length (bits 23:0) of 1..0x{MAX_PACKET:x} and bits 30:29 zero"
            raise self.traffic.fault(tile, f"{found}, {allowed}", FaultKind.VALUE)
        return value


def _with_word(old: int, byte: int, value: int) -> int:
    """Replace the low (byte 0) or the high word (byte 4) in a pair of 32-bit words."""
    return old & ~(_WORD << 8 * byte) | value << 8 * byte


class PacketUpdates:
    """The packet counter update word of a tile itself, or (``remote``) of all tiles."""

    def __init__(self, traffic: Traffic, remote: bool) -> None:
        self.traffic, self.remote = traffic, remote
        self.base, self.size = (REMOTE_BASE, REMOTE_STRIDE << 16) if remote else (UPDATE_BASE, UPDATE_BYTES)

    def load(self, tile: Tile, offset: int, size: int) -> int | None:
        return None

    def store(self, tile: Tile, offset: int, size: int, value: int) -> bool:
        number, register = tile.number, offset
        if self.remote:
            number, register = offset // REMOTE_STRIDE, offset % REMOTE_STRIDE - UPDATE_BASE
        if size != 4 or register:
            return False
        tiles, chip, port = len(self.traffic.tiles), None, self.traffic.port
        if self.remote and number & OTHER_CHIP and port is not None:
            chip, number = self._chip(tile, port, number & ~OTHER_CHIP)
        elif number >= tiles:
            text = f"packet counter update of tile {number}, expected 0..{tiles - 1}"
            raise self.traffic.fault(tile, text, FaultKind.VALUE)
        if not value & 1 or value & ~_UPDATE_BITS:
            text = f"packet counter update: found 0x{value:x}, expected 1 | packet << 4 | stream << 12"
            raise self.traffic.fault(tile, text, FaultKind.VALUE)
        packet = Packet(value >> 12 & 63, value >> 4 & 31)
        to = f"tile {number}" if chip is None else f"tile {number} of chip {chip}"
        text = f"packet counter update: stream {packet.stream} of {to} has no packet {packet.number}"
        update = Update(number, packet, f"{place(self.traffic.image, tile, tile.pc)}: {text}", chip)
        for observer in self.traffic.observers:
            observer.update_sent(tile, number, packet, chip)
        self.traffic.later(tile, update)
        return True

    def _chip(self, tile: Tile, port: Port, number: int) -> tuple[int, int]:
        """Split a number into another chip and its tile; Fault when there is none."""
        tiles, (chip, of_chip) = len(self.traffic.tiles), divmod(number, 1 << CHIP_SHIFT)
        if not has_tile(port, tiles, chip, of_chip):
            why = refused_tile(port, tiles, f"chip {chip}", chip, of_chip)
            raise self.traffic.fault(tile, f"packet counter update: {why}", FaultKind.VALUE)
        return chip, of_chip
