"""CT counts, argmax and argmin, factorize: opcodes 175..178, 180 (docs/isa.md, Returned values, Factors)."""

from __future__ import annotations

from tx8isa.families.vector import packed_bits
from tx8isa.numbers.formats import FLOATS
from tx8isa.numbers.primitives import bits64, from_bits64
from tx8isa.records.meaning import CountBits, CountNonZero, Extreme, Split
from tx8isa.records.operands import count, format_suffix, linear, results_apart, spm
from tx8isa.records.record import Engine, Instruction, register

_VECTOR = (
    format_suffix(FLOATS),
    spm("src0", "src0", "read", linear, "@format", "n"),
    count("n", "elem_count"),
)


register(
    Instruction(
        Engine.CT,
        175,
        "ct.count",
        _VECTOR,
        FLOATS,
        CountNonZero(),
        "wb_data0 = the number of elements of src0 that are not zero; a NaN is not zero, -0 is.",
        "ct.count.fp16 src0=0x10000, n=128",
        "spec; NaN and -0 proposed",
    ),
    __name__,
)

register(
    Instruction(
        Engine.CT,
        176,
        "ct.bitcount",
        (spm("src0", "src0", "read", packed_bits, "n"), count("n", "elem_count")),
        (),
        CountBits(),
        "wb_data0 = the number of ones among the first n bits of src0.",
        "ct.bitcount src0=0x10000, n=128",
        "spec: the opcode; meaning proposed",
    ),
    __name__,
)


def _extreme(opcode: int, name: str, largest: bool, evidence: str) -> None:
    register(
        Instruction(
            Engine.CT,
            opcode,
            f"ct.{name}",
            _VECTOR,
            FLOATS,
            Extreme(largest),
            f"wb_data0 = the bits of the {'largest' if largest else 'smallest'} element of src0, wb_data1 = "
            "its index, the first one of several. A NaN is never chosen, but of NaNs alone the first; -0 is "
            "below +0.",
            f"ct.{name}.fp16 src0=0x10000, n=128",
            evidence,
        ),
        __name__,
    )


_extreme(177, "argmax", True, "spec and board; ties, NaN and zeros proposed")
_extreme(178, "argmin", False, "spec; the board is wrong for negative elements; ties, NaN and zeros proposed")


def _sign(x: float) -> float:
    if x != x:
        return x
    return -1.0 if x < 0.0 else 1.0


def _exponent(x: float) -> float:
    if x - x != 0.0:
        return x * x  # +inf or NaN
    return 0.0 if x == 0.0 else float(((bits64(x) >> 52) & 0x7FF) - 1023)


def _fraction(x: float) -> float:
    if x != x:
        return x
    return 0.0 if x == 0.0 else from_bits64((bits64(x) & 0xFFFFFFFFFFFFF) | 0x3FF0000000000000)


register(
    Instruction(
        Engine.CT,
        180,
        "ct.factorize",
        (
            spm("dst", "dst0", "write", linear, 32, "n"),
            spm("dst1", "dst1", "write", linear, 32, "n"),
            spm("dst2", "dst2", "write", linear, 32, "n"),
            spm("src0", "src0", "read", linear, 32, "n"),
            count("n", "elem_count"),
        ),
        (),
        Split(("dst", "dst1", "dst2"), (_sign, _exponent, _fraction)),
        "FP32: dst[i] = the sign of src0[i] as 1 or -1, dst1[i] = floor(log2 of its magnitude), dst2[i] = "
        "its fraction in [1, 2). A zero of either sign gives 1, 0, 0; an infinity has exponent +inf and "
        "fraction 1; a NaN gives NaN three times.",
        "ct.factorize dst=0x30000, dst1=0x34000, dst2=0x38000, src0=0x10000, n=128",
        "spec: the opcode; meaning of the three results proposed",
        results_apart(32, "n", 32, "n", 32, "n"),
    ),
    __name__,
)
