"""Slots of addresses that take several instructions."""

from __future__ import annotations

from collections.abc import Sequence

from asm.diagnostics import Fault
from asm.syntax.expressions import Atom, Node, evaluate
from tx8isa.riscv.format import Field
from tx8isa.table.scalar import scalar_by_mnemonic

from .constants import RD, RS1, low12
from .scalar import distance
from .template import Place, Slot

PAIR_LOW, PAIR_HIGH = -(1 << 31) - 0x800, (1 << 31) - 0x801
"""The distances that auipc and a signed 12-bit immediate reach."""

_AUIPC, _LUI = 0x17, 0x37

ABSOLUTE_BITS = 43
"""Addresses below 2**43 fit the four instructions of ``AbsoluteSlot``."""


class PairSlot(Slot):
    """The distance to a symbol, split over an auipc and the instruction after it.

    ``base``: the bits of the second instruction's base register if it jumps. As with GNU ld, a jump to a
    missing weak symbol goes to 0 without that register, and an address beyond the reach of auipc is 0, made
    by lui.
    """

    needs_place = True

    def __init__(self, node: Node, low: Field, base: int = 0) -> None:
        super().__init__(node, 0)
        self.low, self.base = low, base

    def resolve(self, atoms: Sequence[str], place: Place) -> int:
        missing = isinstance(self.node, Atom) and place.is_missing(atoms[self.node.index])
        if missing and self.base:
            self.number(atoms, place)  # not before the layout
            return self.base
        if missing and not PAIR_LOW <= self.number(atoms, place) <= PAIR_HIGH:
            return _AUIPC ^ _LUI
        return super().resolve(atoms, place)

    def number(self, atoms: Sequence[str], place: Place) -> int:
        return distance(evaluate(self.node, atoms, place), place.here, 0)

    def bits(self, value: int) -> int:
        if not PAIR_LOW <= value <= PAIR_HIGH:
            raise Fault(
                f"the address is {value} bytes away; auipc reaches 2 GiB",
                self.node.at,
                "declare what lies in .ddr before its first use, or take %core(...) for the core's view",
            )
        low = low12(value)
        return (value - low >> 12 & 0xFFFFF) << 12 | self.low.insert(low) << 32


class AbsoluteSlot(Slot):
    """An address of up to 43 bits in lui, addiw, slli, addi: as long for every address."""

    needs_place = True

    def bits(self, value: int) -> int:
        if not 0 <= value < 1 << ABSOLUTE_BITS:
            raise Fault(
                f"{value:#x} is not an address: expected 0..{(1 << ABSOLUTE_BITS) - 1:#x}", self.node.at
            )
        low = low12(value)
        upper = value - low >> 12
        middle = low12(upper)
        field = scalar_by_mnemonic()["addi"].field("imm")
        word = (upper - middle >> 12 & 0xFFFFF) << 12
        return word | field.insert(middle) << 32 | field.insert(low) << 96


def absolute_pattern() -> tuple[int, int]:
    """(fixed bits, a one in every register field) of the four instructions."""
    records = scalar_by_mnemonic()
    shift = records["slli"].match | records["slli"].field("shamt").insert(12)
    words = (records["lui"].match, records["addiw"].match, shift, records["addi"].match)
    base = sum(word << 32 * index for index, word in enumerate(words))
    return base, sum((RD if index == 0 else RD | RS1) << 32 * index for index in range(4))
