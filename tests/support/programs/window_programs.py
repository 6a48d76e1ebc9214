"""Programs that issue instructions through the packet registers."""

from __future__ import annotations

from chip_bench import W
from tx8isa.numbers.formats import STORAGE_BITS
from tx8isa.records.record import Engine, Instruction
from tx8isa.table.packets import PACKETS, Packet, PacketField, Unit

NOT_WIDE = {Engine.SCALAR: {"rd"}}
"""Operands that no register holds."""


SWITCHES = {"dilation": "dilation_conv", "inpsum_format": "inpsum_en", "scale_n": "scale_en"}


def contents(record: Instruction, values: dict[str, int]) -> dict[int, int]:
    """Registers by offset, from operand values; the control register with its valid bit."""
    packet = PACKETS[record.engine]
    found = {packet.control: 1 << packet.valid_bit}
    fields = {packet.opcode: record.opcode} if packet.opcode else {}
    for operand in record.operands:
        if operand.name not in NOT_WIDE.get(record.engine, ()):
            field = packet.field(operand.field)
            fields[field.name] = in_register(field, values[operand.name], values)
    fields |= {switch: 1 for name, switch in SWITCHES.items() if name in fields and switch not in fields}
    for name, value in fields.items():
        field = packet.field(name)
        assert 0 <= value <= field.mask, (record.mnemonic, name, value)
        found[field.register] = found.get(field.register, 0) | value << field.shift
    return found


def in_register(field: PacketField, value: int, values: dict[str, int]) -> int:
    """A trip count minus one, a stride in bytes, or the value."""
    if field.unit is Unit.TRIPS_LESS_ONE:
        return value - 1
    return value * STORAGE_BITS[values["format"]] // 8 if field.unit is Unit.BYTES else value


def stores(registers: dict[int, int], packet: Packet, worker: int = 0) -> str:
    """Assembly that writes them, the control register last."""
    order = sorted(registers, key=lambda at: (at == packet.control, at))
    lines = [f"li t0, {W.ncc + worker * W.ncc_stride}"]
    lines += [f"li t1, {registers[at]:#x}\n sd t1, {at}(t0)" for at in order]
    return "\n".join(lines) + "\n"
