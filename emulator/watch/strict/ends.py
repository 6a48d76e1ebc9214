"""Finds packets whose end register is too small, so that the chip would not detect all dependencies."""

from __future__ import annotations

from collections.abc import Iterator

from asm.image import Image
from emulator.engines import queues, tables
from emulator.memory import state
from emulator.tile.tile import Tile
from tx8isa.records.record import Operand

from .hazards import Hazard, HazardKind, Site, make_site


def hidden_ends(image: Image, tile: Tile) -> Iterator[Hazard]:
    """Yield hazards of a refused packet with its worker's instructions, in the bytes that its end leaves out.

    The packet's operands are in the entry being built, the reason for the refusal in ``Tile.detail``.
    """
    number, index, given, expected = tile.detail
    record = tables.records()[number]
    operand = record.operands[index]
    first = tile.fields(len(record.operands))[index]
    worker = int(tile.words[state.WORKER])
    hidden = range(max(given + 1, first), expected + 1)
    at = make_site(image, tile.number, tile.pc, record.mnemonic, worker)
    for other in _met(image, tile, worker, operand, hidden):
        where = f"0x{hidden.start:x}..0x{expected:x} of the SPM of tile {tile.number}"
        what = (
            f"the end of '{operand.field}', 0x{given:x}, hides that it {operand.role}s {where}, which "
            f"{other.text} may still be using"
        )
        fix = f"make the end 0x{expected:x}, its last byte, or 0"
        memory = f"SPM of tile {tile.number}"
        yield Hazard(HazardKind.HIDDEN_END, at, other, memory, hidden.start, expected, what, fix)


def _met(image: Image, tile: Tile, worker: int, operand: Operand, hidden: range) -> list[Site]:
    """Return instructions in the queues on which the packet depends because of the hidden bytes."""
    block, found = tile.block(worker), []
    for sequence in range(int(block[queues.OLDEST]), int(block[queues.NEXT])):
        entry = block[queues.entry_at(sequence) :][: queues.ENTRY]
        if entry[queues.E_LIVE] and _overlaps(entry.tolist(), operand.role == "write", hidden):
            name = tables.records()[int(entry[queues.E_RECORD])].mnemonic
            pc = int(entry[queues.E_PC])
            found.append(make_site(image, tile.number, pc, name, worker))
    return found


def _overlaps(entry: list[int], writes: bool, hidden: range) -> bool:
    """Return True if an entry touches some of the bytes, and it or the packet writes."""
    for number in range(entry[queues.E_RANGES]):
        at = queues.E_FIRST_RANGE + number * queues.RANGE_WORDS
        meets = entry[at + queues.R_FIRST] < hidden.stop and entry[at + queues.R_REACH] >= hidden.start
        if meets and (writes or entry[at + queues.R_WRITE]):
            return True
    return False
