"""TDMA moves given by shapes: transpose, nchw2nhwc, nhwc2nchw, pad, channelnorm (docs/isa.md, Moves)."""

from __future__ import annotations

from collections.abc import Callable

from ..aligned import compact, tensor
from ..formats import MOVE_FORMATS
from ..meaning import Move
from ..operands import format_suffix, pads, rule, shape, spm
from ..record import Engine, Instruction, Rule, register

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


@rule(*_SOURCE, *_RESULT, "pad.top", "pad.bottom", "pad.left", "pad.right")
def _padded(
    n: int, h: int, w: int, c: int, rn: int, rh: int, rw: int, rc: int,
    top: int, bottom: int, left: int, right: int,
) -> bool:  # fmt: skip
    """dst_shape must be shape with h + top + bottom rows and w + left + right columns"""
    return rn == n and rc == c and rh == h + top + bottom and rw == w + left + right


def _record(opcode: int, check: Rule, aligned: tuple[bool, bool], example: str) -> Callable[
    [Callable[..., int]], Callable[..., int]
]:  # fmt: skip
    """Decorator: the record of a source-index body; ``aligned`` says so of source and result."""

    def wrap(body: Callable[..., int]) -> Callable[..., int]:
        operands = [
            format_suffix(MOVE_FORMATS),
            spm("dst", "dst", "write", tensor if aligned[1] else compact, "@format", *_RESULT),
            spm("src0", "src0", "read", tensor if aligned[0] else compact, "@format", *_SOURCE),
            shape("shape", "src0_tfr"),
            shape("dst_shape", "dst_tfr"),
        ]
        if body.__name__ == "pad":
            operands.append(pads("pad", "pdr"))
        register(
            Instruction(
                Engine.TDMA, opcode, f"td.{body.__name__}", tuple(operands), MOVE_FORMATS,
                Move(body, *aligned, channels_first=body.__name__ == "nhwc2nchw"), body.__doc__ or "",
                f"td.{body.__name__}.fp16 dst=0x30000, src0=0x10000, {example}",
                "spec; native operand layouts proposed", (check,),
            )
        )  # fmt: skip
        return body

    return wrap


@_record(125, _swapped, (False, False), "shape=[1,4,8,1], dst_shape=[1,8,4,1]")
def transpose(i: int, j: int, k: int, m: int, n: int, h: int, w: int, c: int, top: int, left: int) -> int:
    """Exchange H and W of a compact tensor: dst[n,w,h,c] = src0[n,h,w,c]."""
    return ((i * h + k) * w + j) * c + m


@_record(129, _same, (False, False), "shape=[1,4,8,3], dst_shape=[1,4,8,3]")
def nchw2nhwc(i: int, j: int, k: int, m: int, n: int, h: int, w: int, c: int, top: int, left: int) -> int:
    """Compact NCHW to compact NHWC; shape and dst_shape hold the extents N, H, W, C of the image."""
    return ((i * c + m) * h + j) * w + k


@_record(130, _same, (False, False), "shape=[1,4,8,3], dst_shape=[1,4,8,3]")
def nhwc2nchw(i: int, j: int, k: int, m: int, n: int, h: int, w: int, c: int, top: int, left: int) -> int:
    """Compact NHWC to compact NCHW; shape and dst_shape hold the extents N, H, W, C of the image."""
    return ((i * h + k) * w + m) * c + j


@_record(132, _padded, (True, True), "shape=[1,4,4,64], dst_shape=[1,6,6,64], pad=[1,1,1,1]")
def pad(i: int, j: int, k: int, m: int, n: int, h: int, w: int, c: int, top: int, left: int) -> int:
    """Surround H and W of an aligned tensor with zeros (exact on the board)."""
    if j < top or j >= top + h or k < left or k >= left + w:
        return -1
    return ((i * h + j - top) * w + k - left) * c + m


@_record(133, _same, (False, True), "shape=[1,4,4,65], dst_shape=[1,4,4,65]")
def channelnorm(i: int, j: int, k: int, m: int, n: int, h: int, w: int, c: int, top: int, left: int) -> int:
    """Repack a compact tensor into the aligned layout; padding lanes are written as zero."""
    return ((i * h + j) * w + k) * c + m
