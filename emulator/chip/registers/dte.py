"""The register blocks of the DTE: a store of 1 to cmd_valid starts the copy that the registers describe.

docs/isa.md, Registers of the DTE. The registers are read when the copy starts; storing to them afterwards
does not change it (proposed).
"""

from __future__ import annotations

from emulator.chip.copies import FINISHED, Channel
from emulator.chip.port import TILE_SHIFT, X_SHIFT, Y_SHIFT, has_tile, refused_tile
from emulator.chip.traffic import Traffic
from emulator.engines.tables import MOST_BYTES
from emulator.tile.events import Copy, Levels, Pieces, Side, Target
from emulator.tile.fault import Fault, FaultKind, memory_of
from emulator.tile.tile import Tile
from tx8isa.machine.description import Machine

SRC, DST, USER_ID, MODE, LENGTH, DEST_NUM = 0x000, 0x008, 0x010, 0x014, 0x018, 0x01C
SRC_LOOPS, CMD_VALID, DMA_STATUS = 0x020, 0x038, 0x040
MORE_DST, MORE_USER_ID = 0x050, 0x148
MAX_AXI_NUM, MEM_BURSTLEN, MEM_BACKPRESSURE, MEM_READ_TURBO, DST_LOOPS = 0x1D0, 0x1D4, 0x1D8, 0x1DC, 0x1E0
PMU = 0x800
"""Offset of the first counter register."""
RESERVED_BLOCK = 0
"""The block of the special core (spec)."""

DESTINATIONS = 32
UNICAST, SCATTER, BROADCAST, SHUFFLE = range(4)
SG_FLAG, DIM_FLAG, OUT_SLICE = 1 << 8, 1 << 16, 1 << 24
_BYPASS_MEMORY = 1 << 4
_WORD = (1 << 32) - 1
_HIGH, _HIGH_WITH_TILE, _HIGH_WITH_CHIP = 0xFF, 0xFF_FFFF, _WORD
"""Address bits 39:32; a destination has the tile above them, and where chips are linked the chip."""
_LOCAL, _OTHER_CHIP, _COORDINATE = (1 << 40) - 1, 1 << 39, 0xFF


def _registers() -> dict[int, tuple[str, int]]:
    """Return name and bits of each register by offset, except dma_status and cmd_valid."""
    found = {
        SRC: ("src low", _WORD),
        SRC + 4: ("src high", _HIGH),
        MODE: ("mode", 3 | _BYPASS_MEMORY | SG_FLAG | DIM_FLAG | OUT_SLICE),
        LENGTH: ("length", _WORD),
        DEST_NUM: ("dest_num", DESTINATIONS - 1),
        MAX_AXI_NUM: ("max_axi_num", 0xFFFF),
        MEM_BURSTLEN: ("mem_burstlen", 0xFFFF),
        MEM_BACKPRESSURE: ("mem_backpressure", _WORD),
        MEM_READ_TURBO: ("mem_read_turbo", 0),
    }
    for number in range(DESTINATIONS):
        at, user_id = _destination(number)
        found[at] = f"dst {number} low", _WORD
        found[at + 4] = f"dst {number} high", _HIGH_WITH_TILE
        found[user_id] = f"user_id {number}", 0xFFFF
    for name, first in (("src", SRC_LOOPS), ("dst", DST_LOOPS)):
        for level in range(3):
            found[first + 8 * level] = f"{name} stride {level}", _WORD
            found[first + 8 * level + 4] = f"{name} iteration {level}", _WORD
    return found


def _destination(number: int) -> tuple[int, int]:
    """Return the offsets of the low address and of the user id of a destination."""
    if number == 0:
        return DST, USER_ID
    return MORE_DST + 8 * (number - 1), MORE_USER_ID + 4 * (number - 1)


_REGISTERS = _registers()
_RESET = {MEM_BURSTLEN: 0x1010, MEM_BACKPRESSURE: 1}
"""Registers that are not 0 after a reset (spec)."""


class DteWindow:
    """The DTE registers of each tile, 32 bits each."""

    def __init__(self, traffic: Traffic, machine: Machine) -> None:
        self.traffic, self.windows = traffic, machine.windows
        self.base, self.size = machine.windows.dte, machine.windows.dte_bytes
        self.blocks = machine.tile.dte_blocks
        self.channels = [[Channel(block) for block in range(self.blocks)] for _ in traffic.tiles]

    def load(self, tile: Tile, offset: int, size: int) -> int | None:
        """Return a register; None if there is none of that size. Fault for the reserved block."""
        if size != 4 or offset % 4:
            return None
        if offset >= self.blocks * self.windows.dte_stride:
            return self.traffic.dte.counters[tile.number].load(offset - PMU)
        channel, register = self._channel(tile, offset)
        if register == CMD_VALID:
            return 0
        if register == DMA_STATUS:
            finished = bool(channel.status & FINISHED)
            self.traffic.poll(tile, f"dma_status of DTE block {channel.block}", finished)
            if finished:
                for observer in self.traffic.observers:
                    observer.copies_awaited(tile)
            return channel.status
        return channel.registers.get(register, _RESET.get(register, 0)) if register in _REGISTERS else None

    def store(self, tile: Tile, offset: int, size: int, value: int) -> bool:
        """Write a register; False if there is none of that size. Fault for a value it does not take."""
        if size != 4 or offset % 4:
            return False
        if offset >= self.blocks * self.windows.dte_stride:
            return self.traffic.dte.counters[tile.number].store(offset - PMU, value)
        channel, register = self._channel(tile, offset)
        if register == DMA_STATUS:
            channel.status &= ~value
            return True
        if register != CMD_VALID and register not in _REGISTERS:
            return False
        name, bits = _REGISTERS.get(register, ("cmd_valid", 1))
        if self.traffic.port is not None and bits == _HIGH_WITH_TILE:
            bits = _HIGH_WITH_CHIP
        if value & ~bits:
            text = f"register '{name}': found 0x{value:x}, expected no bits beyond 0x{bits:x}"
            raise self.traffic.fault(tile, f"DTE block {channel.block}: {text}", FaultKind.VALUE)
        if register != CMD_VALID:
            channel.registers[register] = value
        elif value:
            self._start(tile, channel)
        return True

    def _channel(self, tile: Tile, offset: int) -> tuple[Channel, int]:
        block, register = divmod(offset, self.windows.dte_stride)
        if block == RESERVED_BLOCK:
            text = f"DTE block {block} belongs to the special core; programs use blocks 1..{self.blocks - 1}"
            raise self.traffic.fault(tile, text, FaultKind.VALUE)
        return self.channels[tile.number][block], register

    def _start(self, tile: Tile, channel: Channel) -> None:
        if channel.busy:
            text = "cmd_valid while a copy is busy: wait for bit 0 of dma_status"
            raise self.traffic.fault(tile, f"DTE block {channel.block}: {text}", FaultKind.BUSY)
        copy = _Description(self, tile, channel).copy()
        channel.busy, channel.status = True, 0
        self.traffic.start_copy(tile, copy, channel)


class _Description:
    """The registers of a block when its copy starts, checked."""

    def __init__(self, window: DteWindow, tile: Tile, channel: Channel) -> None:
        self.window, self.tile, self.channel = window, tile, channel
        mode = self._get(MODE)
        self.kind, self.out_slice, self.dim = mode & 3, mode & OUT_SLICE, mode & DIM_FLAG
        self.levels = 3 if self.kind == SHUFFLE or (self.kind == UNICAST and mode & SG_FLAG) else 0
        if self.dim and not self.levels:
            self.levels = 1

    def copy(self) -> Copy:
        """Return the copy; Fault when it cannot be done."""
        self._check_mode()
        strided = DST_LOOPS if self.out_slice else SRC_LOOPS
        loops = [self._loop(strided, level) if level < self.levels else (0, 1) for level in range(3)]
        pieces = Pieces(self._get(LENGTH), (loops[0][1], loops[1][1], loops[2][1]))
        of = to = pieces.consecutive
        if self.out_slice:
            to = pieces.strided([stride for stride, _ in loops])
        else:
            of = pieces.strided([stride for stride, _ in loops])
        count = self._get(DEST_NUM) + 1
        sources = self._sources(pieces, of, count)
        targets = tuple(self._target(i, pieces, to) for i in range(count))
        if len({target.chip is None for target in targets}) > 1:
            text = "some targets are on this chip and some on others: start a copy for each kind"
            raise self._fault(text, FaultKind.RULE)
        if pieces.total * count > MOST_BYTES:
            text = f"the copy has {pieces.total * count} bytes, expected at most 2**32"
            raise self._fault(f"{text}, the emulator's limit for one instruction", FaultKind.LIMIT)
        return Copy(pieces, sources, targets)

    def _check_mode(self) -> None:
        for wrong, text in (
            (self.dim and self.kind != UNICAST, "dim_flag is for mode 0 (unicast)"),
            (self.out_slice and self.kind != SHUFFLE, "out_slice is for mode 3 (shuffle)"),
            (self._get(LENGTH) == 0, "length: found 0, expected at least 1"),
            (
                self._get(DEST_NUM) and self.kind in (UNICAST, SHUFFLE),
                f"dest_num: found {self._get(DEST_NUM)}, expected 0 (one destination) in mode {self.kind}",
            ),
        ):
            if wrong:
                raise self._fault(text, FaultKind.RULE)

    def _loop(self, first: int, level: int) -> tuple[int, int]:
        return self._get(first + 8 * level), self._get(first + 8 * level + 4) + 1

    def _sources(self, pieces: Pieces, strides: Levels, count: int) -> tuple[Side, ...]:
        address = self._get(SRC) | self._get(SRC + 4) << 32
        if self.kind != SCATTER:
            return (self._side("src", "reads", address, strides, pieces.span(strides)),)
        first = self._side("src", "reads", address, strides, pieces.size * count)
        return tuple(Side(first.in_ddr, first.start + i * pieces.size, strides) for i in range(count))

    def _target(self, number: int, pieces: Pieces, strides: Levels) -> Target:
        at, user_id = _destination(number)
        name, tiles = f"dst {number}", len(self.window.traffic.tiles)
        address = self._get(at) | self._get(at + 4) << 32
        tile, local = address >> TILE_SHIFT, address & _LOCAL
        if local & _OTHER_CHIP:
            return self._target_away(name, address, strides, pieces.span(strides), self._get(user_id))
        if tile >= tiles:
            raise self._fault(f"{name}: tile {tile}, expected 0..{tiles - 1}", FaultKind.VALUE)
        return Target(
            tile, self._side(name, "writes", local, strides, pieces.span(strides)), self._get(user_id)
        )

    def _target_away(self, name: str, address: int, strides: Levels, span: int, user_id: int) -> Target:
        """Return a target on another chip; Fault when there is no such tile."""
        port, tiles = self.window.traffic.port, len(self.window.traffic.tiles)
        if port is None:
            text = f"{name}: 0x{address:x} is on another card (bit 39); one chip is emulated"
            raise self._fault(text, FaultKind.OTHER_CARD)
        tile, y, x = (address >> shift & _COORDINATE for shift in (TILE_SHIFT, Y_SHIFT, X_SHIFT))
        chip = port.chips.number(x, y)
        if chip is None or not has_tile(port, tiles, chip, tile):
            why = refused_tile(port, tiles, f"chip ({x},{y})", chip, tile)
            raise self._fault(f"{name}: 0x{address:x}: {why}", FaultKind.VALUE)
        side = self._side(name, "writes", address & _LOCAL & ~_OTHER_CHIP, strides, span)
        return Target(tile, side, user_id, chip)

    def _side(self, name: str, verb: str, address: int, strides: Levels, span: int) -> Side:
        base = self.window.windows.ddr_engine
        in_ddr = address >= base
        start = address - base if in_ddr else address
        size = self.window.traffic.ddr.size if in_ddr else self.tile.spm.data.size
        if start + span > size:
            outside = memory_of(self.tile, "any", address)
            text = f"{name} {verb} {span} bytes from 0x{address:x}, outside {outside}"
            raise self._fault(text, FaultKind.RANGE)
        return Side(in_ddr, start, strides)

    def _get(self, register: int) -> int:
        return self.channel.registers.get(register, _RESET.get(register, 0))

    def _fault(self, text: str, kind: FaultKind) -> Fault:
        return self.window.traffic.fault(self.tile, f"DTE block {self.channel.block}: {text}", kind)
