"""TDMA loop-nest instructions: gatherscatter and memset (docs/isa.md, Loop nests)."""

from __future__ import annotations

from tx8isa.families.nest import fill_span, span
from tx8isa.numbers.formats import MOVE_FORMATS
from tx8isa.numbers.limits import SPM_ADDRESS_BITS
from tx8isa.records.meaning import Fill, Nest
from tx8isa.records.operands import count, format_suffix, rule, scalar, spm
from tx8isa.records.record import Engine, Instruction, Operand, register

_ADDRESS_SPACE = (1 << SPM_ADDRESS_BITS) - 1


def _loops(side: str) -> tuple[Operand, ...]:
    """Stride (bytes) and plain trip count of three levels."""
    return tuple(
        operand
        for level in range(3)
        for operand in (
            count(f"{side}stride{level}", f"{side or 'dst_'}stride{level}", 0, _ADDRESS_SPACE, default=0),
            count(f"{side}iter{level}", f"{side or 'dst_'}iteration{level}", 1, _ADDRESS_SPACE, default=1),
        )
    )


def _names(side: str) -> tuple[str, ...]:
    return tuple(o.name for o in _loops(side))


@rule(*(f"{side}iter{level}" for side in ("src_", "dst_") for level in range(3)))
def _same_trips(s0: int, s1: int, s2: int, d0: int, d1: int, d2: int) -> bool:
    """the products of the source's and the destination's trip counts must be equal"""
    return s0 * s1 * s2 == d0 * d1 * d2


register(
    Instruction(
        Engine.TDMA,
        135,
        "td.gatherscatter",
        (
            spm("dst", "dst", "write", span, "n", *_names("dst_")),
            spm("src0", "src0", "read", span, "n", *_names("src_")),
            count("n", "elem_count"),
            *_loops("src_"),
            *_loops("dst_"),
        ),
        (),
        Nest(),
        "Read blocks of n bytes through the source loop nest, write the same stream through the destination "
        "loop nest; strides in bytes, level 0 innermost, a source stride of 0 repeats data.",
        "td.gatherscatter dst=0x30000, src0=0x10000, n=2, src_stride0=2, src_iter0=64, "
        "dst_stride0=4, dst_iter0=64",
        "spec; equal products inferred",
        (_same_trips,),
    ),
    __name__,
)

register(
    Instruction(
        Engine.TDMA,
        179,
        "td.memset",
        (
            format_suffix(MOVE_FORMATS),
            spm("dst", "dst", "write", fill_span, "@format", "n", *_names("")),
            scalar("value", "src1"),
            count("n", "elem_count"),
            *_loops(""),
        ),
        MOVE_FORMATS,
        Fill(),
        "Write n elements of the raw value contiguously from dst, repeated by the loop nest; "
        "strides in bytes. It has no bool, which hangs the chip (board): fill bits as int8.",
        "td.memset.fp16 dst=0x30000, value=0x3c00, n=2048",
        "spec and board; count unit inferred; packet field of the value proposed",
    ),
    __name__,
)
