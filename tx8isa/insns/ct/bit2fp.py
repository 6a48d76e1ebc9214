"""CT bits to numbers, opcode 181 (docs/isa.md, Logic)."""

from __future__ import annotations

from tx8isa.families.vector import packed_bits
from tx8isa.numbers.formats import FLOATS
from tx8isa.records.meaning import Unpack
from tx8isa.records.operands import count, format_suffix, linear, spm
from tx8isa.records.record import Engine, Instruction, register

register(
    Instruction(
        Engine.CT,
        181,
        "ct.bit2fp",
        (
            format_suffix(FLOATS),
            spm("dst", "dst0", "write", linear, "@format", "n"),
            spm("src0", "src0", "read", packed_bits, "n"),
            count("n", "elem_count"),
        ),
        FLOATS,
        Unpack(),
        "Bits to numbers of the given format. dst[i] is 1.0 where bit i of src0 is set, otherwise 0.0.",
        "ct.bit2fp.fp16 dst=0x30000, src0=0x10000, n=128",
        "spec; exact on the board",
    ),
    __name__,
)
