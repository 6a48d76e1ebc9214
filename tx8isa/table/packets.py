"""Instruction packets: the structure a program fills for each engine, and the registers it is copied to.

A packet is the in-memory form of one engine instruction; every field also has a place in a register of the
worker's NCC window. ``Operand.field`` of the records names the fields here. The names, byte offsets, widths
and registers are those of the vendor header (spec; docs/sources.md, headers and registers) unless a constant
below says otherwise.

Registers are 64 bits wide, little-endian, 16 bytes apart. All fields are unsigned numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from tx8isa.records.record import Engine

PAIR_STRIDE_SHIFT, PAIR_ITERATION_SHIFT = 0, 32
"""First bits of a stride and its iteration in their common register (proposed: no source gives the order)."""
SCALAR_OPCODE_SHIFT, SCALAR_FORMAT_SHIFT, SCALAR_VALID_BIT = 0, 8, 12
"""SCALAR's control register (proposed: laid out as TDMA's)."""
TRANSPOSE_BITS = 1
"""Width of the two transpose flags of GEMM in their registers (inferred: a flag)."""
VALID_DATA_BIT = 32
"""Bit of a write-back register that says its bits 31:0 are data (the header; the vendor's issue routine tests
bit 31. Proposed: the header is right)."""
INTER_TYPE_WORKER_SHIFT = 8
"""First of the two bits of ``inter_type`` that hold the worker; bits 7:0 hold the engine."""


class Unit(Enum):
    """The encoding of an operand's value in a packet field."""

    VALUE = "value"
    """The value itself."""
    TRIPS_LESS_ONE = "trips - 1"
    """A trip count minus 1."""
    BYTES = "bytes"
    """A stride in bytes, where the operand counts elements of the instruction's format (inferred: the sources
    disagree). A BOOL operand counts bits."""


@dataclass(frozen=True, slots=True)
class PacketField:
    """One field: ``bytes`` bytes at byte ``offset`` of the packet, and its bits in a register."""

    name: str
    offset: int
    bytes: int
    register: int
    """Offset from the start of the worker's window; -1: ``inter_type``, which is not a register."""
    shift: int = 0
    """First bit in the register."""
    width: int = 64
    """Bits in the register."""
    unit: Unit = Unit.VALUE
    end_of: str = ""
    """For an end address: the address field whose last touched byte (inclusive) it holds."""

    @property
    def mask(self) -> int:
        """Largest value of the field in its register."""
        return (1 << self.width) - 1


@dataclass(frozen=True, slots=True)
class Packet:
    """The packet of one engine."""

    name: str
    """The vendor's type name."""
    engine: Engine
    size: int
    """Bytes, with natural C alignment."""
    control: int
    """Register that starts the instruction when its bit of ``cmd_valid`` is written as 1."""
    opcode: str
    """Name of the field with the record's opcode; empty: the engine has one instruction."""
    fields: tuple[PacketField, ...]

    def field(self, name: str) -> PacketField:
        """The field called ``name``; KeyError when there is none."""
        for field in self.fields:
            if field.name == name:
                return field
        raise KeyError(f"{self.name} has no field '{name}'")

    @property
    def valid_bit(self) -> int:
        """Bit of the control register that starts the instruction."""
        return self.field("cmd_valid").shift

    @property
    def registers(self) -> tuple[int, ...]:
        """Offsets of all its registers, ascending."""
        return tuple(sorted({f.register for f in self.fields if f.register >= 0}))

    def ends(self) -> tuple[tuple[PacketField, PacketField], ...]:
        """(address field, its end field)."""
        return tuple((self.field(f.end_of), f) for f in self.fields if f.end_of)


@dataclass(frozen=True, slots=True)
class ControlRegister:
    """A register of a worker's window that belongs to no packet."""

    name: str
    offset: int
    fields: tuple[tuple[str, int, int], ...]
    """(name, first bit, width)."""


def _inter_type() -> PacketField:
    return PacketField("inter_type", 0, 4, -1, 0, 32)


def _word(name: str, offset: int, register: int, end_of: str = "") -> PacketField:
    return PacketField(name, offset, 4, register, 0, 32, end_of=end_of)


def _long(name: str, offset: int, register: int, end_of: str = "") -> PacketField:
    return PacketField(name, offset, 8, register, end_of=end_of)


def _half(name: str, offset: int, register: int) -> PacketField:
    return PacketField(name, offset, 2, register, 0, 16)


def _byte(name: str, offset: int, register: int, shift: int, width: int) -> PacketField:
    return PacketField(name, offset, 1, register, shift, width)


def _pair(
    prefix: str, level: int, offset: int, register: int, stride: Unit, trips: Unit
) -> tuple[PacketField, PacketField]:
    """Stride and iteration of one loop level: two words of the packet, one register."""
    return (
        PacketField(f"{prefix}stride{level}", offset, 4, register, PAIR_STRIDE_SHIFT, 32, stride),
        PacketField(f"{prefix}iteration{level}", offset + 4, 4, register, PAIR_ITERATION_SHIFT, 32, trips),
    )


CT_PARAM = Packet(
    "CT_Param",
    Engine.CT,
    160,
    0x000,
    "opcode",
    (
        _inter_type(),
        _byte("cmd_valid", 4, 0x000, 16, 1),
        _byte("rnd_mode", 5, 0x000, 12, 4),
        _byte("src0_format", 6, 0x000, 8, 4),
        _byte("opcode", 7, 0x000, 0, 8),
        _word("src0", 8, 0x010),
        _word("src1", 12, 0x020),
        _word("dst0", 16, 0x030),
        _word("dst1", 20, 0x040),
        _word("dst2", 24, 0x050),
        _long("src0_tfr", 32, 0x070),
        _long("dst_tfr", 40, 0x080),
        _long("pdr", 48, 0x090),
        _long("swr", 56, 0x0A0),
        _long("elem_count", 64, 0x0B0),
        _long("unit_elem_count", 72, 0x0C0),
        _long("int8_scale_val0", 80, 0x0D0),
        _long("int8_scale_val1", 88, 0x0E0),
        _long("int8_quant", 96, 0x0F0),
        _word("int8_bn_bias", 104, 0x100),
        _word("full_elem_count", 108, 0x110),
        _word("full_unit_elem_count", 112, 0x120),
        _long("wb_data0", 120, 0x130),
        _long("wb_data1", 128, 0x140),
        _word("src0_end", 136, 0x150, "src0"),
        _word("src1_end", 140, 0x160, "src1"),
        _word("dst0_end", 144, 0x170, "dst0"),
        _word("dst1_end", 148, 0x180, "dst1"),
        _word("dst2_end", 152, 0x190, "dst2"),
        _byte("dims", 156, 0x060, 0, 3),
    ),
)

NE_INSTR = Packet(
    "TsmNeInstr",
    Engine.NE,
    152,
    0x200,
    "type",
    (
        _inter_type(),
        _byte("sparse_en", 4, 0x200, 21, 1),
        _byte("cmd_valid", 5, 0x200, 20, 1),
        _byte("inpsum_format", 6, 0x200, 16, 4),
        _byte("output_format", 7, 0x200, 12, 4),
        _byte("input_format", 8, 0x200, 8, 4),
        _byte("inpsum_en", 9, 0x200, 7, 1),
        _byte("lrelu_en", 10, 0x200, 6, 1),
        _byte("relu_en", 11, 0x200, 5, 1),
        _byte("scale_en", 12, 0x200, 4, 1),
        _byte("bias_en", 13, 0x200, 3, 1),
        _byte("dilation_conv", 14, 0x200, 2, 1),
        _byte("type", 15, 0x200, 0, 2),
        _word("src_a", 16, 0x210),
        _word("src_w", 20, 0x220),
        _word("psum", 24, 0x230),
        _word("bias", 28, 0x240),
        _word("scale_p", 32, 0x250),
        _word("scale_n", 36, 0x260),
        _word("out", 40, 0x270),
        _long("tfr_0", 48, 0x280),
        _long("tfr_1", 56, 0x290),
        _long("pdr", 64, 0x2A0),
        _long("unpdr", 72, 0x2B0),
        _long("swr", 80, 0x2C0),
        _long("dilation", 88, 0x2D0),
        _half("gemm_lb", 96, 0x2E0),
        _half("gemm_rb", 98, 0x2F0),
        _half("gemm_n", 100, 0x300),
        _half("gemm_m", 102, 0x310),
        _half("gemm_k", 104, 0x320),
        _byte("gemm_l_trs", 106, 0x330, 0, TRANSPOSE_BITS),
        _byte("gemm_r_trs", 107, 0x340, 0, TRANSPOSE_BITS),
        _byte("quant_zp_cur", 108, 0x350, 32, 8),
        _byte("quant_reserved", 109, 0x350, 24, 8),
        _byte("quant_zp_pre", 110, 0x350, 16, 8),
        _byte("quant_q1", 111, 0x350, 8, 8),
        _byte("quant_q0", 112, 0x350, 0, 8),
        _word("sparse_index", 116, 0x360),
        _word("srca_end", 120, 0x370, "src_a"),
        _word("srcw_end", 124, 0x380, "src_w"),
        _word("psum_end", 128, 0x390, "psum"),
        _word("bias_end", 132, 0x3A0, "bias"),
        _word("scale_p_end", 136, 0x3B0, "scale_p"),
        _word("scale_n_end", 140, 0x3C0, "scale_n"),
        _word("out_end", 144, 0x3D0, "out"),
        _word("sparse_end", 148, 0x3E0, "sparse_index"),
    ),
)


def _dma(engine: Engine, base: int) -> Packet:
    """RDMA and WDMA share the packet; their registers differ by the start of the block."""
    return Packet(
        "DMA_Param",
        engine,
        72,
        base,
        "",
        (
            _inter_type(),
            _byte("cmd_valid", 4, base, 0, 1),
            _long("dst", 8, base + 0x20),
            _long("src", 16, base + 0x10),
            *(
                field
                for level in range(3)
                for field in _pair(
                    "", level, 24 + 8 * level, base + 0x30 + 0x10 * level, Unit.BYTES, Unit.TRIPS_LESS_ONE
                )
            ),
            _word("elem_count", 48, base + 0x60),
            _byte("format", 52, base + 0x70, 0, 4),
            _long("src_end", 56, base + 0x80, "src"),
            _long("dst_end", 64, base + 0x90, "dst"),
        ),
    )


RDMA_PARAM = _dma(Engine.RDMA, 0x400)
WDMA_PARAM = _dma(Engine.WDMA, 0x4A0)

TD_PARAM = Packet(
    "TD_Param",
    Engine.TDMA,
    128,
    0x540,
    "opcode",
    (
        _inter_type(),
        _byte("cmd_valid", 4, 0x540, 12, 1),
        _byte("src0_format", 5, 0x540, 8, 4),
        _byte("opcode", 6, 0x540, 0, 8),
        _word("src0", 8, 0x550),
        _word("src1", 12, 0x560),
        _word("dst", 16, 0x570),
        _long("src0_tfr", 24, 0x590),
        _long("dst_tfr", 32, 0x5A0),
        _long("pdr", 40, 0x5B0),
        _long("swr", 48, 0x5C0),
        _word("elem_count", 56, 0x5D0),
        *(
            field
            for place, side in enumerate(("src_", "dst_"))
            for level in range(3)
            for field in _pair(
                side,
                level,
                60 + 24 * place + 8 * level,
                0x5E0 + 0x30 * place + 0x10 * level,
                Unit.VALUE,
                Unit.VALUE,
            )
        ),
        _word("src0_end", 108, 0x640, "src0"),
        _word("src1_end", 112, 0x650, "src1"),
        _word("dst_end", 116, 0x660, "dst"),
        _byte("dims", 120, 0x580, 0, 3),
    ),
)

SC_PARAM = Packet(
    "SC_Param",
    Engine.SCALAR,
    12,
    0x6A0,
    "opcode",
    (
        _byte("cmd_valid", 0, 0x6A0, SCALAR_VALID_BIT, 1),
        _byte("format", 1, 0x6A0, SCALAR_FORMAT_SHIFT, 4),
        _byte("opcode", 2, 0x6A0, SCALAR_OPCODE_SHIFT, 8),
        _word("srcs", 4, 0x6B0),
        _word("dst", 8, 0x6C0),
    ),
)

PACKETS: dict[Engine, Packet] = {
    packet.engine: packet for packet in (CT_PARAM, NE_INSTR, RDMA_PARAM, WDMA_PARAM, TD_PARAM, SC_PARAM)
}
"""The packet of every engine that has a block of registers in a worker's window."""

WRITE_BACK = (CT_PARAM.field("wb_data0"), CT_PARAM.field("wb_data1"))
"""The registers in which CT instructions return values; the program reads them."""

CONTROL_REGISTERS: tuple[ControlRegister, ...] = (
    ControlRegister("ib_status", 0x740, (("left", 0, 8), ("task_done", 8, 1))),
    ControlRegister(
        "exception",
        0x750,
        tuple((unit, 8 * i, 8) for i, unit in enumerate(("scalar", "ct", "ne", "rdma", "wdma", "tdma"))),
    ),
    ControlRegister("priority", 0x760, (("priority", 0, 8),)),
    ControlRegister("exception_mask", 0x770, (("mask", 0, 48), ("keep_last", 48, 1), ("clear", 49, 1))),
    ControlRegister("serial_mode", 0x780, (("serial", 0, 1),)),
)
"""The control and status registers of a worker's window (spec)."""


def packet_at(register: int) -> Packet | None:
    """Return the packet with a register at this offset of the window; None when there is none."""
    for packet in PACKETS.values():
        if register in packet.registers:
            return packet
    return None


def fields_at(register: int) -> tuple[PacketField, ...]:
    """The fields in the register at this offset of the window, lowest bit first; empty when there is none."""
    packet = packet_at(register)
    found = packet.fields if packet else ()
    return tuple(sorted((f for f in found if f.register == register), key=lambda f: f.shift))
