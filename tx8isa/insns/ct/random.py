"""CT random numbers: randgen (185) and elemmask (186) (docs/isa.md, Random numbers).

The chip's generator is not published. Proposed: randgen uses xorshift128+ (S. Vigna, Further scramblings of
Marsaglia's xorshift generators, 2017), which has two 64-bit words of state.
"""

from __future__ import annotations

from tx8isa.numbers.formats import FLOATS, Format
from tx8isa.numbers.primitives import u64
from tx8isa.records.meaning import Dropout, Uniform
from tx8isa.records.operands import count, format_suffix, linear, results_apart, rounding, scalar, spm
from tx8isa.records.record import Engine, Instruction, Operand, register

_FORMATS = (Format.INT16, Format.FP16, Format.BF16, Format.INT32, Format.FP32, Format.TF32)
_SEED = (64, 16)  # 16 words of 64 bits


def _draw(a: int, b: int) -> int:
    """64 random bits of the generator in state (a, b): the sum of its words."""
    return u64(u64(a) + u64(b))


def _following(a: int, b: int) -> int:
    """The second word of the next state; its first word is ``b``. The shifts 23, 18, 5 are the paper's."""
    mixed = u64(u64(a) ^ u64(u64(a) << 23))
    return u64(u64(mixed ^ u64(b)) ^ u64(u64(mixed >> 18) ^ u64(u64(b) >> 5)))


register(
    Instruction(
        Engine.CT,
        185,
        "ct.randgen",
        (
            format_suffix(_FORMATS),
            spm("dst", "dst0", "write", linear, *_SEED),
            spm("dst1", "dst1", "write", linear, *_SEED),
            spm("dst2", "dst2", "write", linear, "@format", "n"),
            spm("src0", "src0", "read", linear, *_SEED),
            spm("src1", "src1", "read", linear, *_SEED),
            count("n", "elem_count"),
        ),
        _FORMATS,
        Uniform(_draw, _following),
        "n random values to dst2. Word k of src0 and word k of src1 (64 bits each) are the state of "
        "generator k, an xorshift128+; value i is the next one of generator i mod 16. dst and dst1 get "
        "the states afterwards. Floats are multiples of 2**-p in [0, 1), p their bits of precision; integers "
        "are the highest bits drawn.",
        "ct.randgen.fp16 dst=0x30000, dst1=0x30100, dst2=0x40000, src0=0x30000, src1=0x30100, n=1024",
        "spec: operands; generator, order and range proposed",
        results_apart(*_SEED, *_SEED, "@format", "n"),
    ),
    __name__,
)


def _dropped(u: float, p: float) -> bool:
    return u < p


def _scaled(x: float, scale: float) -> float:
    return x * scale


register(
    Instruction(
        Engine.CT,
        186,
        "ct.elemmask",
        (
            format_suffix(FLOATS),
            spm("dst", "dst0", "write", linear, "@format", "n"),
            spm("src0", "src0", "read", linear, "@format", "n"),
            scalar("src1", "src1"),
            count("n", "elem_count"),
            Operand("p", "int8_scale_val0", 1, 32, 0, (1 << 32) - 1),
            rounding(),
        ),
        FLOATS,
        Dropout(_dropped, _scaled),
        "Drop-out: dst[i] = 0 with probability p (the bits of an FP32 number), otherwise src0[i] times the "
        "scalar whose raw bits are in src1, rounded by rnd. Random numbers come from the tile's LFSR.",
        "ct.elemmask.fp16 dst=0x30000, src0=0x10000, src1=0x4000, n=128, p=0x3f000000",
        "spec: operands; meaning and random source proposed",
    ),
    __name__,
)
