"""CT concatenation, opcode 131 (docs/isa.md, Moves; aligned operands proposed)."""

from __future__ import annotations

from tx8isa.families.aligned import tensor
from tx8isa.numbers.formats import MOVE_FORMATS
from tx8isa.records.meaning import Join
from tx8isa.records.operands import dims, format_suffix, rule, shape, spm
from tx8isa.records.record import Engine, Instruction, register

_DIMS = (("c", 0), ("w", 1), ("h", 2), ("hw", 4))
_FIRST = tuple(f"shape.{lane}" for lane in "nhwc")
_RESULT = tuple(f"dst_shape.{lane}" for lane in "nhwc")


def _second(bits: int, n: int, h: int, w: int, c: int, rh: int, rw: int, rc: int, dims: int) -> int:
    """The second source is the part of the result beyond the first source along the joined dimension."""
    if dims == 0:
        return tensor(bits, n, h, w, rc - c)
    if dims == 1:
        return tensor(bits, n, h, rw - w, c)
    return tensor(bits, n, rh - h, w, c)


@rule("dims")
def _not_hw(dims: int) -> bool:
    """dims must not be hw: joining over H and W hangs the chip (board)"""
    return dims != 4


@rule(*_FIRST, *_RESULT, "dims")
def _joined(n: int, h: int, w: int, c: int, rn: int, rh: int, rw: int, rc: int, dims: int) -> bool:
    """dst_shape must equal shape, but be larger along dims"""
    if dims == 0:
        return rn == n and rh == h and rw == w and rc > c
    if dims == 1:
        return rn == n and rh == h and rw > w and rc == c
    return rn == n and rh > h and rw == w and rc == c


register(
    Instruction(
        Engine.CT,
        131,
        "ct.concat",
        (
            format_suffix(MOVE_FORMATS),
            spm("dst", "dst0", "write", tensor, "@format", *_RESULT),
            spm("src0", "src0", "read", tensor, "@format", *_FIRST),
            spm("src1", "src1", "read", _second, "@format", *_FIRST, *_RESULT[1:], "dims"),
            shape("shape", "src0_tfr"),
            shape("dst_shape", "dst_tfr"),
            dims(_DIMS),
        ),
        MOVE_FORMATS,
        Join(),
        "Join src0 (of shape) and src1 along C, W or H; all three are aligned tensors, padding lanes of the "
        "result are zero.",
        "ct.concat.fp16 dst=0x30000, src0=0x10000, src1=0x20000, shape=[1,2,2,64], "
        "dst_shape=[1,2,2,128], dims=c",
        "spec; aligned operands and the second shape proposed; dims hw hangs the chip (board)",
        (_not_hw, _joined),
    ),
    __name__,
)
