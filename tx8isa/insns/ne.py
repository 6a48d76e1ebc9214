"""The matrix engine: GEMM and convolution (docs/isa.md, GEMM; docs/isa.md, Convolution)."""

from __future__ import annotations

from ..aligned import matrices, tensor
from ..formats import FLOATS, Format
from ..layouts import batch_bytes
from ..meaning import Convolution, Matrix
from ..operands import (
    control,
    count,
    flag,
    format_choice,
    format_suffix,
    lanes,
    pads,
    rule,
    shape,
    spm,
    window,
)
from ..record import Engine, Instruction, Lane, Operand, register

_INPUTS = (Format.FP16, Format.BF16, Format.TF32)


def _left(bits: int, m: int, k: int, batch: int, transposed: int) -> int:
    """A is stored [M, K], transposed [K, M]."""
    return matrices(bits, batch, k, m) if transposed else matrices(bits, batch, m, k)


def _right(bits: int, k: int, n: int, batch: int, transposed: int) -> int:
    """B is stored [N, K], with rt = 1 [K, N]: the flag is inverted with respect to the left one."""
    return matrices(bits, batch, k, n) if transposed else matrices(bits, batch, n, k)


def _result(bits: int, m: int, n: int, left: int, right: int) -> int:
    return matrices(bits, max(left, right), m, n)


def _partial(bits: int, m: int, n: int, left: int, right: int, used: int) -> int:
    return _result(bits, m, n, left, right) if used else 0


@rule("lb", "rb")
def _batches(lb: int, rb: int) -> bool:
    """lb and rb must be equal, or one of them 1"""
    return lb == rb or lb == 1 or rb == 1


@rule("format", "out_format")
def _formats(fmt: int, out_format: int) -> bool:
    """out_format must be the input format or fp32"""
    return out_format in (fmt, 5)


def _format_operands() -> tuple[Operand, ...]:
    return (
        format_suffix(_INPUTS, "input_format"),
        format_choice("out_format", "output_format", 12, (*_INPUTS, Format.FP32), "format"),
        format_choice("psum_format", "inpsum_format", 16, FLOATS, int(Format.FP32)),
        flag("inpsum_en", "inpsum_en", 7, hidden=True),
    )


register(
    Instruction(
        Engine.NE, 3, "ne.gemm",
        (
            *_format_operands(),
            control("lt", "gemm_l_trs", 24, 1, 1),
            control("rt", "gemm_r_trs", 25, 1, 1),
            spm("a", "src_a", "read", _left, "@format", "m", "k", "lb", "lt"),
            spm("b", "src_w", "read", _right, "@format", "k", "n", "rb", "rt"),
            spm("out", "out", "write", _result, "@out_format", "m", "n", "lb", "rb"),
            spm("psum", "psum", "read", _partial, "@psum_format", "m", "n", "lb", "rb", "inpsum_en",
                switched_by="inpsum_en"),
            count("m", "gemm_m", 1, 65535),
            count("k", "gemm_k", 1, 16384),
            count("n", "gemm_n", 1, 16384),
            count("lb", "gemm_lb", 1, 4096, default=1),
            count("rb", "gemm_rb", 1, 4096, default=1),
        ),
        _INPUTS, Matrix(),
        "out[b] = A[b mod lb] x B[b mod rb] (+ psum[b]), FP32 fused multiply-add in ascending "
        "k, one rounding to "
        "out_format. All matrices are aligned; A is [M,K] (lt=1: [K,M]), B is [N,K] (rt=1: "
        "[K,N]); padding lanes "
        "of inputs are ignored, of the result zero.",
        "ne.gemm.bf16 a=0x10000, b=0x40000, out=0x80000, m=128, k=256, n=128, rt=1",
        "spec and board; order of accumulation and number of batches proposed",
        (_batches, _formats),
    )
)  # fmt: skip


def _weights(bits: int, kx: int, ky: int, out_channels: int, in_channels: int) -> int:
    """One Cx volume: rows Ky*Kx*O, channel dimension I."""
    return batch_bytes(ky * kx * out_channels, in_channels, bits)


def _partial_tensor(bits: int, n: int, h: int, w: int, c: int, used: int) -> int:
    return tensor(bits, n, h, w, c) if used else 0


@rule("shape.n", "dst_shape.n")
def _same_batch(n: int, out_n: int) -> bool:
    """dst_shape.n must equal shape.n"""
    return n == out_n


@rule("dst_shape.h", "shape.h", "pad.top", "pad.bottom", "window.ky", "dilation.d1", "window.sy",
      "unpad.top", "unpad.bottom")  # fmt: skip
def _rows(out: int, h: int, top: int, bottom: int, k: int, d: int, s: int, utop: int, ubottom: int) -> bool:
    """dst_shape.h must be floor((shape.h + top + bottom - (ky-1)*d1 - 1) / sy) + 1 - unpad.top
    - unpad.bottom"""
    span = h + top + bottom - (k - 1) * d - 1
    return span >= 0 and out == span // s + 1 - utop - ubottom


@rule("dst_shape.w", "shape.w", "pad.left", "pad.right", "window.kx", "dilation.d0", "window.sx",
      "unpad.left", "unpad.right")  # fmt: skip
def _columns(
    out: int, w: int, left: int, right: int, k: int, d: int, s: int, uleft: int, uright: int
) -> bool:  # fmt: skip
    """dst_shape.w must be floor((shape.w + left + right - (kx-1)*d0 - 1) / sx) + 1 - unpad.left
    - unpad.right"""
    span = w + left + right - (k - 1) * d - 1
    return span >= 0 and out == span // s + 1 - uleft - uright


_RESULT = tuple(f"dst_shape.{lane}" for lane in "nhwc")

register(
    Instruction(
        Engine.NE, 0, "ne.conv",
        (
            *_format_operands(),
            spm("a", "src_a", "read", tensor, "@format", "shape.n", "shape.h", "shape.w", "shape.c"),
            spm("w", "src_w", "read", _weights, "@format", "window.kx", "window.ky", "dst_shape.c",
                "shape.c"),
            spm("out", "out", "write", tensor, "@out_format", *_RESULT),
            spm("psum", "psum", "read", _partial_tensor, "@psum_format", *_RESULT, "inpsum_en",
                switched_by="inpsum_en"),
            shape("shape", "tfr_0"),
            shape("dst_shape", "tfr_1"),
            window(),
            pads("pad", "pdr"),
            pads("unpad", "unpdr"),
            lanes("dilation", "dilation", Lane("d0", 1, 1023), Lane("d1", 1, 1023), default=(1 << 16) | 1),
        ),
        _INPUTS, Convolution(),
        "Convolution of an aligned NHWC tensor with weights [Ky,Kx,O,I] stored as one Cx volume; FP32 fused "
        "multiply-add over ky, kx, i in ascending order, inputs outside the image are 0, one "
        "rounding to out_format.",
        "ne.conv.fp16 a=0x10000, w=0x40000, out=0x80000, shape=[1,8,8,16], dst_shape=[1,8,8,32], "
        "window=[3,3,1,1], pad=[1,1,1,1], out_format=fp32",
        "spec and board; order of accumulation and place of the unpads proposed",
        (_formats, _same_batch, _rows, _columns),
    )
)  # fmt: skip
