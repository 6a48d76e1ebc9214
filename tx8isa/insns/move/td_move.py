"""TDMA moves between compact tensors, opcodes 124..130 (docs/isa.md, Moves; compact operands proposed)."""

from __future__ import annotations

from collections.abc import Callable

from tx8isa.families.aligned import compact
from tx8isa.numbers.formats import MOVE_FORMATS
from tx8isa.records.meaning import Move
from tx8isa.records.operands import format_suffix, rule, shape, spm
from tx8isa.records.record import Engine, Instruction, Rule, register

Index = Callable[[int, int, int, int, int, int, int, int], int]

_SOURCE = tuple(f"shape.{lane}" for lane in "nhwc")
_RESULT = tuple(f"dst_shape.{lane}" for lane in "nhwc")


@rule(*_SOURCE, *_RESULT)
def _same(n: int, h: int, w: int, c: int, rn: int, rh: int, rw: int, rc: int) -> bool:
    """dst_shape must equal shape"""
    return rn == n and rh == h and rw == w and rc == c


@rule(*_SOURCE, *_RESULT)
def _swapped(n: int, h: int, w: int, c: int, rn: int, rh: int, rw: int, rc: int) -> bool:
    """dst_shape must be shape with h and w exchanged"""
    return rn == n and rh == w and rw == h and rc == c


_SHUNNED = "on a card a nchw2nhwc ended in a time-out of TDMA, and programs leave out all three (board)"
"""Of transpose, nchw2nhwc and nhwc2nchw."""


def _record(opcode: int, check: Rule, shunned: str = "") -> Callable[[Index], Index]:
    """Decorator: make the record of a source-index body, with the body's name."""
    result = "[1,4,8,3]" if check is _same else "[1,8,4,3]"

    def wrap(body: Index) -> Index:
        operands = (
            format_suffix(MOVE_FORMATS),
            spm("dst", "dst", "write", compact, "@format", *_RESULT),
            spm("src0", "src0", "read", compact, "@format", *_SOURCE),
            shape("shape", "src0_tfr"),
            shape("dst_shape", "dst_tfr"),
        )
        register(
            Instruction(
                Engine.TDMA,
                opcode,
                f"td.{body.__name__}",
                operands,
                MOVE_FORMATS,
                Move(body, channels_first=body.__name__ == "nhwc2nchw"),
                body.__doc__ or "",
                f"td.{body.__name__}.fp16 dst=0x30000, src0=0x10000, shape=[1,4,8,3], dst_shape={result}",
                "spec; compact operands proposed",
                (check,),
                shunned=shunned,
            ),
            __name__,
        )
        return body

    return wrap


@_record(124, _same)
def mirror(i: int, j: int, k: int, m: int, n: int, h: int, w: int, c: int) -> int:
    """Reverse a compact tensor along W: dst[n,h,w,c] = src0[n,h,W-1-w,c]."""
    return ((i * h + j) * w + w - 1 - k) * c + m


@_record(125, _swapped, _SHUNNED)
def transpose(i: int, j: int, k: int, m: int, n: int, h: int, w: int, c: int) -> int:
    """Exchange H and W of a compact tensor: dst[n,w,h,c] = src0[n,h,w,c]."""
    return ((i * h + k) * w + j) * c + m


@_record(126, _swapped)
def rotate90(i: int, j: int, k: int, m: int, n: int, h: int, w: int, c: int) -> int:
    """Turn the H x W plane of a compact tensor a quarter clockwise: dst[n,i,j,c] = src0[n,H-1-j,i,c]."""
    return ((i * h + h - 1 - k) * w + j) * c + m


@_record(127, _same)
def rotate180(i: int, j: int, k: int, m: int, n: int, h: int, w: int, c: int) -> int:
    """Turn the H x W plane of a compact tensor by half: dst[n,i,j,c] = src0[n,H-1-i,W-1-j,c]."""
    return ((i * h + h - 1 - j) * w + w - 1 - k) * c + m


@_record(128, _swapped)
def rotate270(i: int, j: int, k: int, m: int, n: int, h: int, w: int, c: int) -> int:
    """Turn the H x W plane of a compact tensor three quarters clockwise: dst[n,i,j,c] = src0[n,j,W-1-i,c]."""
    return ((i * h + k) * w + w - 1 - j) * c + m


@_record(129, _same, _SHUNNED)
def nchw2nhwc(i: int, j: int, k: int, m: int, n: int, h: int, w: int, c: int) -> int:
    """Compact NCHW to compact NHWC; shape and dst_shape hold the extents N, H, W, C of the image."""
    return ((i * c + m) * h + j) * w + k


@_record(130, _same, _SHUNNED)
def nhwc2nchw(i: int, j: int, k: int, m: int, n: int, h: int, w: int, c: int) -> int:
    """Compact NHWC to compact NCHW; shape and dst_shape hold the extents N, H, W, C of the image."""
    return ((i * h + k) * w + m) * c + j
