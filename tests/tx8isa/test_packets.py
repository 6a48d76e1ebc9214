"""The packets against the layout rules of C, against the ranges of the window, and against the records."""

from __future__ import annotations

import ctypes
import itertools
import re

import pytest

from paths import ROOT
from tx8isa.records.record import Engine, Instruction, Operand
from tx8isa.table.packets import CONTROL_REGISTERS, PACKETS, WRITE_BACK, Packet, Unit, fields_at, packet_at
from tx8isa.table.registry import instructions

BLOCKS = {
    Engine.CT: (0x000, 0x190),
    Engine.NE: (0x200, 0x3E0),
    Engine.RDMA: (0x400, 0x490),
    Engine.WDMA: (0x4A0, 0x530),
    Engine.TDMA: (0x540, 0x660),
    Engine.SCALAR: (0x6A0, 0x6C0),
}
"""First and last register of each unit, from the window's map."""

SIZES = {"CT_Param": 160, "TsmNeInstr": 152, "DMA_Param": 72, "TD_Param": 128, "SC_Param": 12}

PACKED = pytest.mark.parametrize("packet", PACKETS.values(), ids=lambda p: p.engine.name)


@PACKED
def test_offsets_are_those_of_natural_alignment(packet: Packet) -> None:
    """The order of the fields and their widths alone give the published offsets and size."""
    types = {1: ctypes.c_uint8, 2: ctypes.c_uint16, 4: ctypes.c_uint32, 8: ctypes.c_uint64}
    members = [(f.name, types[f.bytes]) for f in packet.fields]
    struct = type(packet.name, (ctypes.Structure,), {"_fields_": members})
    assert {f.name: f.offset for f in packet.fields} == {n: getattr(struct, n).offset for n, _ in members}
    assert packet.size == ctypes.sizeof(struct) == SIZES[packet.name]


@PACKED
def test_registers_lie_in_the_units_block(packet: Packet) -> None:
    first, last = BLOCKS[packet.engine]
    assert (packet.registers[0], packet.registers[-1]) == (first, last)
    assert packet.control == first
    assert all(register % 16 == 0 for register in packet.registers)
    assert set(packet.registers) == set(range(first, last + 1, 16)), "a block has no gaps"


@PACKED
def test_fields_do_not_overlap_in_a_register(packet: Packet) -> None:
    for register in packet.registers:
        taken = 0
        for field in fields_at(register):
            assert field.shift + field.width <= 64
            assert not taken & field.mask << field.shift, (hex(register), field.name)
            taken |= field.mask << field.shift


@PACKED
def test_a_register_field_fits_its_packet_bytes(packet: Packet) -> None:
    assert all(f.width <= 8 * f.bytes for f in packet.fields)


def test_no_register_belongs_to_two_packets() -> None:
    blocks = [set(p.registers) for p in PACKETS.values()] + [{c.offset for c in CONTROL_REGISTERS}]
    assert sum(map(len, blocks)) == len(set().union(*blocks))


@pytest.mark.parametrize(
    "engine, bit", [(Engine.CT, 16), (Engine.NE, 20), (Engine.RDMA, 0), (Engine.WDMA, 0), (Engine.TDMA, 12)]
)
def test_valid_bits(engine: Engine, bit: int) -> None:
    assert PACKETS[engine].valid_bit == bit


@PACKED
def test_every_end_belongs_to_an_address_field(packet: Packet) -> None:
    ends = packet.ends()
    named = {f.name for f in packet.fields if f.name.endswith("_end")}
    assert {end.name for _, end in ends} == named
    assert all(end.bytes == address.bytes for address, end in ends)
    records = [i for i in instructions() if i.engine is packet.engine]
    addresses = {o.field for i in records for o in i.operands if o.is_address}
    if packet.engine is not Engine.SCALAR:
        assert addresses <= {address.name for address, _ in ends}


def packed_operands() -> list[tuple[Instruction, Operand]]:
    return [(i, o) for i in instructions() if i.engine in PACKETS for o in i.operands]


def test_every_operand_has_a_place() -> None:
    """A window can give every operand of every record, and no two operands share a field."""
    missing = []
    for instruction, operand in packed_operands():
        field = next((f for f in PACKETS[instruction.engine].fields if f.name == operand.field), None)
        if field is None or field.register < 0 or field.width < operand.width:
            missing.append(f"{instruction.mnemonic} {operand.name}: field '{operand.field}'")
    assert not missing
    for instruction in instructions():
        if instruction.engine in PACKETS:
            names = [o.field for o in instruction.operands]
            assert len(names) == len(set(names)), instruction.mnemonic


def test_control_bits_of_records_are_those_of_the_register() -> None:
    """A field in the control register has the same bits in the instruction stream."""
    compared = 0
    for instruction, operand in packed_operands():
        packet = PACKETS[instruction.engine]
        field = packet.field(operand.field)
        if operand.words == 0 and field.register == packet.control:
            assert (operand.at, operand.width) == (field.shift, field.width), (instruction, operand)
            compared += 1
    assert compared > 100


def test_opcodes_fit_their_field() -> None:
    for instruction in instructions():
        packet = PACKETS.get(instruction.engine)
        if packet and packet.opcode:
            assert instruction.opcode <= packet.field(packet.opcode).mask
        elif packet:
            assert instruction.opcode == 0, "an engine without an opcode field has one instruction"


def test_units_of_loops() -> None:
    """DMA holds bytes and trips minus 1, TDMA plain trip counts; strides lie below iterations."""
    for engine, sides in ((Engine.RDMA, ("",)), (Engine.WDMA, ("",)), (Engine.TDMA, ("src_", "dst_"))):
        dma = engine is not Engine.TDMA
        for side, level in itertools.product(sides, range(3)):
            stride = PACKETS[engine].field(f"{side}stride{level}")
            trips = PACKETS[engine].field(f"{side}iteration{level}")
            assert stride.register == trips.register
            assert (stride.shift, trips.shift) == (0, 32)
            assert stride.unit is (Unit.BYTES if dma else Unit.VALUE)
            assert trips.unit is (Unit.TRIPS_LESS_ONE if dma else Unit.VALUE)


@pytest.mark.parametrize(
    "register, names",
    [
        (0x000, ["opcode", "src0_format", "rnd_mode", "cmd_valid"]),
        (0x350, ["quant_q0", "quant_q1", "quant_zp_pre", "quant_reserved", "quant_zp_cur"]),
        (0x440, ["stride1", "iteration1"]),
        (0x630, ["dst_stride2", "dst_iteration2"]),
        (0x6C0, ["dst"]),
        (0x1A0, []),
        (0x008, []),
        (0x740, []),
    ],
)
def test_fields_at_a_register(register: int, names: list[str]) -> None:
    assert [f.name for f in fields_at(register)] == names
    assert (packet_at(register) is None) == (not names)


def test_write_back_registers() -> None:
    assert [f.register for f in WRITE_BACK] == [0x130, 0x140]


def test_an_unknown_field_is_refused() -> None:
    with pytest.raises(KeyError, match="DMA_Param has no field 'rnd_mode'"):
        PACKETS[Engine.RDMA].field("rnd_mode")


def test_the_table_of_the_chip_page() -> None:
    page = (ROOT / "docs" / "registers.md").read_text(encoding="utf-8")
    for packet in PACKETS.values():
        first, last = packet.registers[0], packet.registers[-1]
        row = f"| `{packet.name}` | {packet.engine.name} | {packet.size} | 0x{first:03X}..0x{last:03X} | "
        assert f"{row}0x{packet.control:03X} | {packet.valid_bit}" in page


def test_the_chip_page_names_the_fields_of_every_record() -> None:
    page = (ROOT / "docs" / "registers.md").read_text(encoding="utf-8")
    section = page[page.index("## Packet fields") :].partition("\n## ")[0]
    loops = {
        f.name for p in PACKETS.values() for f in p.fields if re.search(r"(stride|iteration)\d$", f.name)
    }
    fields = {o.field for _, o in packed_operands()} - loops
    assert {field for field in fields if f"`{field}`" not in section} == set()
