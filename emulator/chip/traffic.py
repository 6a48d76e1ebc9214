"""Traffic between tiles: DTE copies, waits for them, and barriers.

Started copies are carried out between two rounds, in the order of the tiles and for each tile in the order of
its program; then complete barriers release their tiles. While a round runs, a tile touches only its own
entries here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from asm.image import Image
from emulator.engines import queues, tables
from emulator.memory import state
from emulator.memory.made import MadeBytes
from emulator.memory.resetting import Area
from emulator.tile.events import Copy
from emulator.tile.fault import Fault, FaultKind, place
from emulator.tile.observer import Observer
from emulator.tile.tile import Status, Tile
from tx8isa.records.meaning import Action, Control
from tx8isa.records.record import Instruction
from tx8isa.table.encoding import encoder

from .copies import Channel, Dte, instruction_copy
from .port import Port
from .sends import Sends
from .stream import Update

_MASK = (1 << 64) - 1
_MOST_STARTED = 4096


@dataclass(frozen=True, slots=True)
class Sent:
    """A copy that was started by the registers of ``channel``, or, with None, by an instruction."""

    copy: Copy
    channel: Channel | None


@cache
def _facts(mnemonic: str) -> tuple[tuple[str, ...], int, int]:
    """Return the names of the operands, bytes of the instruction, and number of a record."""
    number = tables.numbers()[mnemonic]
    record = tables.records()[number]
    return tuple(operand.name for operand in record.operands), encoder(record).size, number


class Traffic:
    """Copies, packet counter updates and barriers of all tiles."""

    def __init__(self, image: Image, tiles: Sequence[Tile], ddr: Area, made: MadeBytes | None = None) -> None:
        """``made``: in a run without data, the bytes that copies would have written."""
        self.image, self.tiles, self.ddr = image, tiles, ddr.data
        self.everyone = (1 << len(tiles)) - 1
        """The set of tiles that programs may name."""
        self.port: Port | None = None
        """The port to other chips; None for a single chip."""
        self.dte = Dte(tiles, ddr, made)
        self.started: list[list[Sent | Update]] = [[] for _ in tiles]
        """For each tile: the copies and packet counter updates of this round."""
        self.sends = Sends(len(tiles))
        """Copies that compiled code has recorded; they come after the copies in ``started``."""
        self.observers: list[Observer] = []
        self.polls = [""] * len(tiles)
        """For each tile: the register of its last poll, if that may have failed."""

    def start(self, tile: Tile, record: Instruction) -> None:
        """Execute the send, wait or barrier at a tile's program counter; Fault for illegal operands."""
        meaning = record.meaning
        if not isinstance(meaning, Control):
            raise AssertionError(f"{record.mnemonic} is executed by a kernel")
        names, size, number = _facts(record.mnemonic)
        values = dict(zip(names, tile.fields(len(names)), strict=True))
        if meaning.action in (Action.SEND, Action.SCATTER):
            self._send(tile, record, values, meaning.action is Action.SCATTER)
        elif meaning.action is Action.SEND_WAIT:
            self.take_sends(tile)
            if self.started[tile.number] or self._away(tile):
                tile.status = Status.SENDING
            for observer in self.observers:
                observer.copies_awaited(tile)
        elif meaning.action is Action.BARRIER:
            self._enter_barrier(tile, values["tiles"] & _MASK or self.everyone)
        tile.advance(size)
        tile.counts[number, 0] += 1

    def _send(self, tile: Tile, record: Instruction, values: dict[str, int], scatter: bool) -> None:
        destinations = self._destinations(tile, record, values)
        starts = zip(("dst", "src"), tile.range_starts(2), strict=True)
        in_ddr = {name: start >= queues.DDR for name, start in starts}
        copy = instruction_copy(values, in_ddr, destinations, scatter)
        self.start_copy(tile, copy)
        counts = tile.counts[tables.numbers()[record.mnemonic]]
        counts[1:3] += copy.bytes_read, copy.bytes_written

    def start_copy(self, tile: Tile, copy: Copy, channel: Channel | None = None) -> None:
        """Start a copy, which is carried out after this round."""
        for observer in self.observers:
            observer.copy_started(tile, copy, channel.block if channel else None)
        self.later(tile, Sent(copy, channel))

    def _carry_out(self, tile: Tile, work: Sent | Update) -> None:
        if isinstance(work, Update):
            if self.port is None or work.chip is None:
                work.arrive(self.dte.streams)
            else:
                self.port.post(tile, work)
            return
        if self.port is not None and work.copy.away:
            self.port.send(tile, work.copy, work.channel)
            return
        moved = self.dte.carry_out(tile, work.copy, work.channel)
        for observer in self.observers:
            observer.copy_done(tile, work.copy, not moved)

    def _destinations(self, tile: Tile, record: Instruction, values: dict[str, int]) -> list[int]:
        """Return the tiles to which a copy goes; this tile if it names none.

        Fault when the chip has no such tile.
        """
        if "tiles" in values:
            members = values["tiles"]
            if members & ~self.everyone:
                text = f"operand 'tiles' = 0x{members:x}, expected a set inside 0x{self.everyone:x}"
                raise self.fault(tile, f"{record.mnemonic}: {text}", FaultKind.VALUE)
            return [t.number for t in self.tiles if members >> t.number & 1]
        number = values.get("tile", tile.number)
        if number >= len(self.tiles):
            text = f"operand 'tile' = {number}, expected 0..{len(self.tiles) - 1}"
            raise self.fault(tile, f"{record.mnemonic}: {text}", FaultKind.VALUE)
        return [number]

    def later(self, tile: Tile, work: Sent | Update) -> None:
        """Add work of a tile to carry out between this round and the next.

        The quantum of a tile that has started very much ends, so that it cannot fill the host's memory.
        """
        self.take_sends(tile)
        self.started[tile.number].append(work)
        if len(self.started[tile.number]) >= _MOST_STARTED:
            tile.words[state.LIMIT] = 0

    def take_sends(self, tile: Tile) -> None:
        """Take over the copies that a tile has recorded; it records no more in this round."""
        self.started[tile.number] += [Sent(copy, None) for copy in self.sends.take(tile.number)]

    @property
    def unwatched(self) -> bool:
        """Return True if rounds can end without Python.

        Then no observer needs their ends, and no copy is counted or waits.
        """
        watched = any(observer.needs_rounds for observer in self.observers)
        counts = any(counters.enabled for counters in self.dte.counters)
        return not (watched or counts or any(self.started))

    def poll(self, tile: Tile, what: str, found: bool) -> None:
        """Record that a program has read a register that other tiles change.

        If the poll may have failed, the tile's quantum ends, so that the other tiles run first.
        """
        self.polls[tile.number] = "" if found else what
        if not found:
            tile.words[state.LIMIT] = 0
            for observer in self.observers:
                observer.polled(tile)

    def looking_for(self, tile: Tile) -> str:
        """Return the register that a tile polled last, if the poll failed, for messages."""
        what = self.polls[tile.number]
        return f"; its last poll was of {what}" if what else ""

    def fault(self, tile: Tile, text: str, kind: FaultKind) -> Fault:
        """Return a fault of the instruction that a tile is at."""
        return Fault(f"{place(self.image, tile, tile.pc)}: {text}", kind)

    def _enter_barrier(self, tile: Tile, group: int) -> None:
        if not group >> tile.number & 1 or group & ~self.everyone:
            text = f"ncc.barrier: operand 'tiles' = 0x{group:x}, expected a set with this tile's bit"
            text += f" 0x{1 << tile.number:x}, inside 0x{self.everyone:x}"
            raise self.fault(tile, text, FaultKind.VALUE)
        tile.group = group
        tile.status = Status.BARRIER
        for observer in self.observers:
            observer.barrier_entered(tile, group)

    def carry_out_sends(self) -> bool:
        """Carry out the started copies; return True if there were some."""
        for tile in self.tiles:
            self.take_sends(tile)
        done = any(self.started)
        for tile, started in zip(self.tiles, self.started, strict=True):
            for work in started:
                self._carry_out(tile, work)
            started.clear()
            if tile.status is Status.SENDING and not self._away(tile):
                tile.status = Status.RUNNING
        self.sends.begin()
        return done

    def _away(self, tile: Tile) -> bool:
        """Return True while copies of a tile to other chips are not done."""
        return self.port is not None and self.port.awaits(tile)

    def release_barriers(self) -> bool:
        """Release the tiles of complete barriers; return True if there was one."""
        waiting = {t.number: t.group for t in self.tiles if t.status is Status.BARRIER}
        released = False
        for group in sorted(set(waiting.values())):
            members = [t for t in self.tiles if group >> t.number & 1]
            if all(waiting.get(t.number) == group for t in members):
                released = True
                for tile in members:
                    tile.status = Status.RUNNING
                for observer in self.observers:
                    observer.barrier_released(group)
        return released

    def deadlock(self) -> Fault:
        """Return the fault of a hanging program: where each tile waits, and for what."""
        text = "the program can never go on: " + "; ".join(self.standstill())
        return Fault(text, FaultKind.DEADLOCK)

    def standstill(self) -> list[str]:
        """Return for each hanging tile the place where it waits, and for what."""
        for observer in self.observers:
            observer.never_goes_on(self.tiles)
        return [self._waits(t) for t in self.tiles if t.status is not Status.EXITED]

    def _waits(self, tile: Tile) -> str:
        size = 0
        if tile.status is Status.BARRIER:
            size = encoder(tables.records()[tables.numbers()["ncc.barrier"]]).size
        return f"{place(self.image, tile, tile.pc - size)} {self.waits_for(tile)}"

    def waits_for(self, tile: Tile) -> str:
        """Return what a hanging tile is waiting for."""
        if tile.status is not Status.BARRIER:
            what = self.polls[tile.number]
            return f"polls {what}, which no other tile will change" if what else "loops without progress"
        absent = [
            f"tile {other.number} ({_instead(other)})"
            for other in self.tiles
            if tile.group >> other.number & 1 and not _is_at(other, tile.group)
        ]
        return f"waits at barrier 0x{tile.group:x} for {', '.join(absent)}"


def _is_at(tile: Tile, group: int) -> bool:
    return tile.status is Status.BARRIER and tile.group == group


def _instead(tile: Tile) -> str:
    if tile.status is Status.BARRIER:
        return f"at barrier 0x{tile.group:x}"
    return "exited" if tile.status is Status.EXITED else "which loops without progress"
