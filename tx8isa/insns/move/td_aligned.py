"""TDMA moves into the aligned layout: pad, channelnorm, img2col; 132, 133, 138 (docs/isa.md, Moves)."""

from __future__ import annotations

from tx8isa.families.aligned import compact, tensor
from tx8isa.families.windows import places, same_planes
from tx8isa.numbers.formats import MOVE_FORMATS
from tx8isa.records.meaning import Unfold
from tx8isa.records.operands import format_suffix, pads, rule, shape, spm, window
from tx8isa.records.record import Engine, Instruction, Operand, Rule, register

_SOURCE = tuple(f"shape.{lane}" for lane in "nhwc")
_RESULT = tuple(f"dst_shape.{lane}" for lane in "nhwc")


@rule("shape.h", "shape.w", "dst_shape.h", "dst_shape.w")
def _same_extents(h: int, w: int, rh: int, rw: int) -> bool:
    """dst_shape must equal shape"""
    return rh == h and rw == w


@rule("shape.h", "dst_shape.h", "pad.top", "pad.bottom")
def _padded_rows(h: int, rh: int, top: int, bottom: int) -> bool:
    """dst_shape.h must be shape.h + top + bottom"""
    return rh == h + top + bottom


@rule("shape.w", "dst_shape.w", "pad.left", "pad.right")
def _padded_columns(w: int, rw: int, left: int, right: int) -> bool:
    """dst_shape.w must be shape.w + left + right"""
    return rw == w + left + right


@rule("dst_shape.h", "window.kx", "window.ky")
def _window_places(rh: int, kx: int, ky: int) -> bool:
    """dst_shape.h must be kx * ky"""
    return rh == kx * ky


@rule(
    "shape.h",
    "shape.w",
    "dst_shape.w",
    "pad.top",
    "pad.bottom",
    "pad.left",
    "pad.right",
    "window.kx",
    "window.ky",
    "window.sx",
    "window.sy",
)
def _unfolded(
    h: int, w: int, rw: int, top: int, bottom: int, left: int, right: int, kx: int, ky: int, sx: int, sy: int
) -> bool:
    """dst_shape.w must be OH * OW, with OH = floor((shape.h + top + bottom - ky) / sy) + 1 and
    OW = floor((shape.w + left + right - kx) / sx) + 1"""
    fits = h + top + bottom >= ky and w + left + right >= kx
    return fits and rw == places(h, top, bottom, ky, sy) * places(w, left, right, kx, sx)


def _record(
    opcode: int,
    name: str,
    aligned: bool,
    more: tuple[Operand, ...],
    checks: tuple[Rule, ...],
    text: str,
    example: str,
    evidence: str,
) -> None:
    operands = (
        format_suffix(MOVE_FORMATS),
        spm("dst", "dst", "write", tensor, "@format", *_RESULT),
        spm("src0", "src0", "read", tensor if aligned else compact, "@format", *_SOURCE),
        shape("shape", "src0_tfr"),
        shape("dst_shape", "dst_tfr"),
        *more,
    )
    register(
        Instruction(
            Engine.TDMA,
            opcode,
            f"td.{name}",
            operands,
            MOVE_FORMATS,
            Unfold(aligned),
            text,
            f"td.{name}.fp16 dst=0x30000, src0=0x10000, {example}",
            evidence,
            (same_planes, *checks),
        ),
        __name__,
    )


_record(
    132,
    "pad",
    True,
    (pads("pad", "pdr"),),
    (_padded_rows, _padded_columns),
    "Surround H and W of an aligned tensor with zeros.",
    "shape=[1,4,4,64], dst_shape=[1,6,6,64], pad=[1,1,1,1]",
    "spec; exact on the board",
)
_record(
    133,
    "channelnorm",
    False,
    (),
    (_same_extents,),
    "Repack a compact tensor into the aligned layout; padding lanes are written as zero.",
    "shape=[1,4,4,65], dst_shape=[1,4,4,65]",
    "spec; zero padding lanes proposed",
)
_record(
    138,
    "img2col",
    True,
    (pads("pad", "pdr"), window()),
    (_window_places, _unfolded),
    "Unfold the windows of an aligned tensor: dst[n, ky*Kx+kx, oh*OW+ow, c] is src0[n, oh*Sy+ky-top, "
    "ow*Sx+kx-left, c], zero outside.",
    "shape=[1,4,4,64], dst_shape=[1,4,9,64], window=[2,2,1,1]",
    "spec; exact on the board",
)
