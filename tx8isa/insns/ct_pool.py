"""CT pooling of an aligned NHWC tensor, opcodes 115..117 (docs/isa.md, Pooling)."""

from __future__ import annotations

from ..aligned import tensor
from ..fold import MAXIMUM, MEAN, SUM
from ..formats import FLOATS
from ..meaning import Pool, Reduction
from ..operands import format_suffix, pads, rule, shape, spm, window
from ..record import Engine, Instruction, register


@rule("dst_shape.h", "shape.h", "pad.top", "pad.bottom", "window.ky", "window.sy")
def _rows(out: int, rows: int, top: int, bottom: int, ky: int, sy: int) -> bool:
    """dst_shape.h must be floor((shape.h + top + bottom - ky) / sy) + 1"""
    return rows + top + bottom >= ky and out == (rows + top + bottom - ky) // sy + 1


@rule("dst_shape.w", "shape.w", "pad.left", "pad.right", "window.kx", "window.sx")
def _columns(out: int, columns: int, left: int, right: int, kx: int, sx: int) -> bool:
    """dst_shape.w must be floor((shape.w + left + right - kx) / sx) + 1"""
    return columns + left + right >= kx and out == (columns + left + right - kx) // sx + 1


@rule("dst_shape.n", "shape.n", "dst_shape.c", "shape.c")
def _same_planes(out_n: int, n: int, out_c: int, c: int) -> bool:
    """dst_shape must have the n and c of shape"""
    return out_n == n and out_c == c


def _record(opcode: int, name: str, fold: Reduction, outside: bool, text: str) -> None:
    def lanes(operand: str) -> tuple[str, ...]:
        return tuple(f"{operand}.{lane}" for lane in "nhwc")

    operands = (
        format_suffix(FLOATS),
        spm("dst", "dst0", "write", tensor, "@format", *lanes("dst_shape")),
        spm("src0", "src0", "read", tensor, "@format", *lanes("shape")),
        shape("shape", "src0_tfr"),
        shape("dst_shape", "dst_tfr"),
        pads("pad", "pdr"),
        window(),
    )
    register(
        Instruction(
            Engine.CT, opcode, f"ct.pool.{name}", operands, FLOATS, Pool(fold, outside),
            f"{text} per channel over windows of an aligned NHWC tensor; padding lanes of the "
            f"result are zero.",
            f"ct.pool.{name}.fp16 dst=0x30000, src0=0x10000, shape=[1,4,4,64], dst_shape=[1,2,2,64], "
            "window=[2,2,2,2]",
            "spec; positions outside the input observed or proposed",
            (_same_planes, _rows, _columns),
        )
    )  # fmt: skip


_record(115, "avg", MEAN, True, "Mean over Kx*Ky positions, those outside the input counting as zero,")
_record(116, "sum", SUM, True, "Sum, accumulated in FP32 in scan order,")
_record(117, "max", MAXIMUM, False, "Maximum, positions outside the input ignored,")
