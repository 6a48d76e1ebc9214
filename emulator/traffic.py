"""What passes between tiles: DTE copies, waits for them, and barriers.

Nothing here happens while tiles run: copies that were started are carried out between two rounds, in the
order of tiles, and barriers that are complete release their tiles then.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

from asm.image import Image
from tx8isa.encoding import encoder
from tx8isa.meaning import Action, Control
from tx8isa.record import Instruction

from . import queues, tables
from .fault import Fault, place
from .memory import LINE, Bytes
from .tile import Send, Status, Tile

_MASK = (1 << 64) - 1


class Traffic:
    """The tiles of a chip, seen from what connects them."""

    def __init__(self, image: Image, tiles: Sequence[Tile], ddr: Bytes) -> None:
        self.image, self.tiles, self.ddr = image, tiles, ddr
        self.everyone = (1 << len(tiles)) - 1

    def start(self, tile: Tile, record: Instruction) -> None:
        """Execute the send, wait or barrier at a tile's program counter; Fault when it makes no sense."""
        meaning = record.meaning
        if not isinstance(meaning, Control):
            raise AssertionError(f"{record.mnemonic} is executed by a kernel")
        names = (operand.name for operand in record.operands)
        values = dict(zip(names, tile.fields(len(record.operands)), strict=True))
        if meaning.action is Action.SEND:
            self._send(tile, record, values)
        elif meaning.action is Action.SEND_WAIT and tile.sends:
            tile.status = Status.SENDING
        elif meaning.action is Action.BARRIER:
            self._enter_barrier(tile, values["tiles"] & _MASK or self.everyone)
        tile.advance(encoder(record).size)
        tile.counts[tables.numbers()[record.mnemonic], 0] += 1

    def _send(self, tile: Tile, record: Instruction, values: dict[str, int]) -> None:
        if values["tile"] >= len(self.tiles):
            text = f"dte.unicast: operand 'tile' = {values['tile']}, expected 0..{len(self.tiles) - 1}"
            raise Fault(f"{place(self.image, tile, tile.pc)}: {text}")
        starts = dict(zip((operand.name for operand in record.operands), tile.range_starts(2), strict=False))
        source, target = (starts[name] >= queues.DDR for name in ("src", "dst"))
        tile.sends.append(Send(values["src"], values["dst"], values["tile"], values["n"], source, target))
        counts = tile.counts[tables.numbers()[record.mnemonic]]
        counts[1:3] += values["n"]

    def _enter_barrier(self, tile: Tile, group: int) -> None:
        if not group >> tile.number & 1 or group & ~self.everyone:
            text = f"ncc.barrier: operand 'tiles' = 0x{group:x}, expected a set with this tile's bit"
            text += f" 0x{1 << tile.number:x}, inside 0x{self.everyone:x}"
            raise Fault(f"{place(self.image, tile, tile.pc)}: {text}")
        tile.group = group
        tile.status = Status.BARRIER

    def carry_out_sends(self) -> bool:
        """Carry out the copies that were started; whether there was anything to do."""
        done = False
        for tile in self.tiles:
            for send in tile.sends:
                self._copy(tile, send)
                done = True
            tile.sends.clear()
            if tile.status is Status.SENDING:
                tile.status = Status.RUNNING
        return done

    def _copy(self, tile: Tile, send: Send) -> None:
        """One copy, as if everything were read before anything is written."""
        target_spm = self.tiles[send.tile].spm
        source = self.ddr if send.source_in_ddr else tile.spm.data
        target = self.ddr if send.target_in_ddr else target_spm.data
        ctypes.memmove(target.ctypes.data + send.target, source.ctypes.data + send.source, send.size)
        if not send.target_in_ddr:
            target_spm.lines[send.target // LINE : (send.target + send.size - 1) // LINE + 1] = 1

    def release_barriers(self) -> bool:
        """Release the tiles of complete barriers; whether there was one."""
        waiting = {t.number: t.group for t in self.tiles if t.status is Status.BARRIER}
        released = False
        for group in set(waiting.values()):
            members = [t for t in self.tiles if group >> t.number & 1]
            if all(waiting.get(t.number) == group for t in members):
                released = True
                for tile in members:
                    tile.status = Status.RUNNING
        return released

    def deadlock(self) -> Fault:
        """The report of a program that can never go on: who waits where, and for whom."""
        waiting = [self._waits(t) for t in self.tiles if t.status is Status.BARRIER]
        return Fault("the program can never go on: " + "; ".join(waiting))

    def _waits(self, tile: Tile) -> str:
        absent = [
            f"tile {other.number} ({_instead(other)})"
            for other in self.tiles
            if tile.group >> other.number & 1 and not _is_at(other, tile.group)
        ]
        size = encoder(tables.records()[tables.numbers()["ncc.barrier"]]).size
        where = place(self.image, tile, tile.pc - size)
        return f"{where} waits at barrier 0x{tile.group:x} for {', '.join(absent)}"


def _is_at(tile: Tile, group: int) -> bool:
    return tile.status is Status.BARRIER and tile.group == group


def _instead(tile: Tile) -> str:
    return "exited" if tile.status is Status.EXITED else f"at barrier 0x{tile.group:x}"
