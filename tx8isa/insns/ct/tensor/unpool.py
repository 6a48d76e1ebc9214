"""CT unpool, opcodes 121..123: values of windows back to the positions under them (docs/isa.md, Unpool)."""

from __future__ import annotations

from tx8isa.families.aligned import tensor
from tx8isa.families.fold import MEAN
from tx8isa.families.windows import windowed
from tx8isa.numbers.formats import FLOATS, Format
from tx8isa.records.meaning import Unpool
from tx8isa.records.operands import format_suffix, rule, shape, spm, window
from tx8isa.records.record import Engine, Instruction, register

_RESULT = tuple(f"dst_shape.{lane}" for lane in "nhwc")
_GEOMETRY = (*_RESULT, *(f"window.{lane}" for lane in ("kx", "ky", "sx", "sy")))

_INDEX_BITS = Format.INT16.bits
"""Width of the index tensor, for 32-bit data too (spec)."""


@rule("dst_shape.h", "dst_shape.w", "window.kx", "window.ky")
def _window_fits(h: int, w: int, kx: int, ky: int) -> bool:
    """dst_shape must hold a window: h at least ky, w at least kx"""
    return h >= ky and w >= kx


def _record(opcode: int, name: str, meaning: Unpool, text: str, evidence: str) -> None:
    indices = spm("src1", "src1", "read", windowed, _INDEX_BITS, *_GEOMETRY)
    indexed = meaning.spread is None
    operands = (
        format_suffix(FLOATS),
        spm("dst", "dst0", "write", tensor, "@format", *_RESULT),
        spm("src0", "src0", "read", windowed, "@format", *_GEOMETRY),
        *((indices,) if indexed else ()),
        shape("dst_shape", "dst_tfr"),
        window(),
    )
    register(
        Instruction(
            Engine.CT,
            opcode,
            f"ct.unpool.{name}",
            operands,
            FLOATS,
            meaning,
            f"{text} Both tensors are aligned; src0 has the shape that pooling dst_shape by the window "
            "without pads gives.",
            f"ct.unpool.{name}.fp16 dst=0x30000, src0=0x10000, {'src1=0x20000, ' if indexed else ''}"
            "dst_shape=[1,4,4,64], window=[2,2,2,2]",
            evidence,
            (_window_fits,),
        ),
        __name__,
    )


_AT_INDEX = (
    "Each value of src0 goes to the place of its window that src1 says, a 16-bit integer ky*Kx+kx; other "
    "positions are 0. Of several values for one position the last in scan order stays; an index outside the "
    "window is ignored."
)
_BOARD = "spec; 2x2 windows with stride 2 exact on the board"
_record(
    121,
    "index",
    Unpool(None),
    f"{_AT_INDEX} The same as ct.unpool.mask.",
    "spec; that it does what mask does is proposed",
)
_record(
    122,
    "avg",
    Unpool(MEAN),
    "Each position gets the FP32 sum of the values whose windows lie over it, in scan order, divided once by "
    "Kx*Ky.",
    f"{_BOARD}; sums of overlapping windows proposed",
)
_record(
    123,
    "mask",
    Unpool(None),
    _AT_INDEX,
    f"{_BOARD} in 16-bit formats, other cases differed there; overlaps and outside indices proposed",
)
