"""The packet registers of the NCC: a window for each worker, whose control registers start instructions.

Operand registers are plain memory: ``window_address`` is compiled into the kernel core's loop. A store to a
control register with its valid bit set reads the operands from there (``Submission``) and issues the same
instruction as a wide one with these operands.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from emulator.memory import state, stop
from emulator.native.primitives.memory import view_u8
from tx8isa.numbers.formats import STORAGE_BITS
from tx8isa.numbers.primitives import s64, u64
from tx8isa.records.record import Engine, Extent, Instruction, Operand
from tx8isa.table.encoding import argument_values, value_error
from tx8isa.table.packets import PACKETS, WRITE_BACK, Packet, PacketField, Unit

from . import tables

PLACE = 16  # bytes from one register to the next; a register is the first eight of them
PLACES = 128  # registers of a window
END = 0x740  # offset of the first register that is not an operand's

_SWITCHES = {"dilation": "dilation_conv", "inpsum_format": "inpsum_en", "scale_n": "scale_en"}
"""Fields that are valid only when the bit of another field is set."""

Registers = npt.NDArray[np.int64]
"""The registers of one worker: the one at offset r is word r / PLACE."""


class Refused(Exception):
    """A refused access to a device, with a reason of ``stop`` whose details are in the state."""

    def __init__(self, reason: int) -> None:
        super().__init__(reason)
        self.reason = reason


def window_address(s: Any, address: int, size: int) -> int:
    """Return the host address of ``size`` bytes of an operand register at a core address, or 0 without one.

    Each half of a register can be accessed separately (proposed).
    """
    off = u64(address - s64(s[u64(state.NCC)]))
    stride = u64(s[u64(state.NCC_STRIDE)])
    worker = off // stride
    inside = s64(off - worker * stride)
    if worker >= u64(s[u64(state.WORKERS)]) or inside >= END or size < 4 or (inside & 15) + size > 8:
        return 0
    if inside & (size - 1) != 0:
        return 0
    if view_u8(s64(s[u64(state.REGISTER_MAP)]) + (inside >> 4), 1)[u64(0)] == 0:
        return 0
    return s64(s[u64(state.REGISTERS)]) + s64(worker) * (8 * PLACES) + (inside >> 4) * 8 + (inside & 7)


@cache
def register_map() -> npt.NDArray[np.uint8]:
    """Return 1 for each operand register in which a store has effects, 0 for the others."""
    places = np.zeros(PLACES, np.uint8)
    for packet in PACKETS.values():
        for register in packet.registers:
            places[register // PLACE] = 1
        places[packet.control // PLACE] = 0
    for field in WRITE_BACK:
        places[field.register // PLACE] = 0
    return places


def field_value(registers: Registers, field: PacketField) -> int:
    """Return the number in a field."""
    return int(registers[field.register // PLACE]) >> field.shift & field.mask


@cache
def _records() -> dict[tuple[Engine, int], Instruction]:
    return {(record.engine, record.opcode): record for record in tables.records()}


@dataclass(frozen=True)
class _Plan:
    """The places of a record's operands in the registers."""

    number: int
    packet: Packet
    fields: tuple[tuple[Operand, PacketField | None], ...]
    """Each operand with its register field; None for one without a register."""
    ends: tuple[tuple[int, Extent, PacketField], ...]
    """(operand, its extent, its end register)."""


@cache
def _plan(mnemonic: str) -> _Plan:
    number = tables.numbers()[mnemonic]
    record = tables.records()[number]
    packet = PACKETS[record.engine]
    fields = {field.name: field for field in packet.fields}
    if record.engine is Engine.SCALAR:
        del fields["dst"]  # the register receives the result; only assembly can name a register of the core
    ends = tuple(
        (index, operand.extent, end)
        for address, end in packet.ends()
        for index, operand in enumerate(record.operands)
        if operand.field == address.name and operand.extent is not None
    )
    return _Plan(number, packet, tuple((o, fields.get(o.field)) for o in record.operands), ends)


def find_record(packet: Packet, registers: Registers) -> tuple[Instruction | None, int]:
    """Return the instruction that a control register selects, None for an unknown one, and its opcode."""
    opcode = field_value(registers, packet.field(packet.opcode)) if packet.opcode else 0
    return _records().get((packet.engine, opcode)), opcode


class Submission:
    """The operands of an instruction in the registers.

    ``problem`` is None, or a stop reason and its details.
    """

    def __init__(self, record: Instruction, registers: Registers) -> None:
        self.record, self.registers, self.plan = record, registers, _plan(record.mnemonic)
        self.problem: tuple[int, int, int, int, int] | None = None
        self.number = self.plan.number
        self.values = [self._raw(operand, field) for operand, field in self.plan.fields]
        for index, (_, field) in enumerate(self.plan.fields):
            if field is not None:
                self._convert(index, field)
        for index, operand in enumerate(record.operands):
            if value_error(operand, self.values[index]):
                self._refuse(stop.VALUE, index, s64(self.values[index]), 0)

    def _refuse(self, reason: int, index: int, first: int, second: int) -> None:
        if self.problem is None:
            self.problem = (reason, self.number, index, first, second)

    def _raw(self, operand: Operand, field: PacketField | None) -> int:
        switch = _SWITCHES.get(operand.field, "")
        if operand.switched_by:
            switch = self.record.operand(operand.switched_by).field
        off = switch and not field_value(self.registers, self.plan.packet.field(switch))
        if field is None or off:
            return operand.default if isinstance(operand.default, int) else 0
        return field_value(self.registers, field)

    def _convert(self, index: int, field: PacketField) -> None:
        """Convert a value from the register's unit to the operand's."""
        value = self.values[index]
        if field.unit is Unit.TRIPS_LESS_ONE:
            self.values[index] = value + 1
        elif field.unit is Unit.BYTES:
            code = self.values[self.record.index("format")]
            bits = STORAGE_BITS[code] if code < len(STORAGE_BITS) else 8
            if 8 * value % bits:
                self._refuse(stop.STRIDE, index, value, bits // 8)
            self.values[index] = 8 * value // bits

    def wrong_end(self) -> tuple[int, int, int, int, int] | None:
        """Find the first end register that is neither 0 nor the last byte that its operand touches.

        All rules of the record must hold.
        """
        for index, extent, end in self.plan.ends:
            given = field_value(self.registers, end)
            if given != 0:
                length = extent.length(*argument_values(self.record, extent.arguments, self.values))
                expected = self.values[index] + length - 1
                if length != 0 and given != expected:
                    return stop.END, self.number, index, given, expected
        return None
