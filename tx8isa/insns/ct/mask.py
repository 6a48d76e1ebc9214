"""CT masked moves, opcodes 134, 136, 137 (docs/isa.md, Masked moves)."""

from __future__ import annotations

from tx8isa.families.vector import packed_bits
from tx8isa.numbers.formats import FLOATS
from tx8isa.records.meaning import Compress, Gather, MaskedCopy
from tx8isa.records.operands import count, format_suffix, linear, spm
from tx8isa.records.record import Engine, Instruction, Operand, register


def _operands(*rest: Operand) -> tuple[Operand, ...]:
    return (format_suffix(FLOATS), spm("dst", "dst0", "write", linear, "@format", "n"), *rest)


register(
    Instruction(
        Engine.CT,
        134,
        "ct.maskmove",
        _operands(
            spm("src0", "src0", "read", linear, "@format", "n"),
            spm("src1", "src1", "read", linear, "@format", "n"),
            count("n", "elem_count"),
        ),
        FLOATS,
        MaskedCopy(),
        "dst[i] = src0[i], bits unchanged, where the number src1[i] is not zero; elsewhere dst[i] keeps its "
        "value.",
        "ct.maskmove.fp16 dst=0x30000, src0=0x10000, src1=0x20000, n=128",
        "spec and board for masks of 0 and 1; that every other number counts as 1, NaN included, proposed",
    ),
    __name__,
)

register(
    Instruction(
        Engine.CT,
        136,
        "ct.maskgather.v",
        _operands(
            spm("src0", "src0", "read", linear, "@format", "entries"),
            spm("src1", "src1", "read", linear, "@format", "n"),
            count("n", "elem_count"),
            count("entries", "full_elem_count"),
        ),
        FLOATS,
        Gather(0, in_bytes=False),
        "dst[i] = src0[src1[i]], bits unchanged; indices are unsigned and as wide as an element. Indices of "
        "entries and more read SPM as addressed, unseen by the conflict detection; beyond SPM they read 0.",
        "ct.maskgather.v.fp16 dst=0x30000, src0=0x10000, src1=0x20000, n=130, entries=260",
        "spec: the opcode; seen in use with 130 16-bit indices into 260 elements; meaning, entries proposed",
    ),
    __name__,
)

register(
    Instruction(
        Engine.CT,
        137,
        "ct.maskgather.bv",
        _operands(
            spm("src0", "src0", "read", linear, "@format", "n"),
            spm("src1", "src1", "read", packed_bits, "n"),
            count("n", "elem_count"),
        ),
        FLOATS,
        Compress(),
        "The elements of src0 whose bit in src1 is 1, in their order, to the front of dst; the rest of dst "
        "keeps its values. Bit i is bit i mod 8 of byte i div 8.",
        "ct.maskgather.bv.fp16 dst=0x30000, src0=0x10000, src1=0x20000, n=128",
        "spec: the opcode; meaning proposed",
    ),
    __name__,
)
