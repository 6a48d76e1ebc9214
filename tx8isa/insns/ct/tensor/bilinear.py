"""CT bilinear resize, opcode 182 (docs/isa.md, Bilinear resize; sampling and scales proposed)."""

from __future__ import annotations

from tx8isa.families.aligned import tensor
from tx8isa.families.windows import same_planes
from tx8isa.numbers.formats import FLOATS
from tx8isa.records.meaning import Resize
from tx8isa.records.operands import count, format_suffix, shape, spm
from tx8isa.records.record import Engine, Instruction, register

_SOURCE = tuple(f"shape.{lane}" for lane in "nhwc")
_RESULT = tuple(f"dst_shape.{lane}" for lane in "nhwc")
_SCALE_MAX = (1 << 32) - 1


def _sample(position: int, scale: int, extent: int) -> int:
    """Proposed: no offset of half a pixel; beyond the last row or column its value stays."""
    return min(position * scale, (extent - 1) << 16)


def _blend(a: float, b: float, t: float) -> float:
    """Proposed: a neighbour of weight 0 is ignored, so a scale of 1 copies infinities and NaN too."""
    return a if t == 0.0 else a * (1.0 - t) + b * t


register(
    Instruction(
        Engine.CT,
        182,
        "ct.bilinear",
        (
            format_suffix(FLOATS),
            spm("dst", "dst0", "write", tensor, "@format", *_RESULT),
            spm("src0", "src0", "read", tensor, "@format", *_SOURCE),
            shape("shape", "src0_tfr"),
            shape("dst_shape", "dst_tfr"),
            count("scale_x", "int8_scale_val0", 0, _SCALE_MAX),
            count("scale_y", "int8_scale_val1", 0, _SCALE_MAX),
        ),
        FLOATS,
        Resize(_sample, _blend),
        "Bilinear resize of an aligned NHWC tensor. Column x of the result is sampled at x * scale_x / 65536 "
        "in the source, row y at y * scale_y / 65536; neighbours are weighted in FP32, along W first, then "
        "along H, and the result is rounded once.",
        "ct.bilinear.fp16 dst=0x30000, src0=0x10000, shape=[1,4,4,64], dst_shape=[1,8,8,64], "
        "scale_x=0x8000, scale_y=0x8000",
        "spec; scale format and sampling proposed: on the board equal shapes were not copied unchanged",
        (same_planes,),
    ),
    __name__,
)
