"""The matrix engine: convolution (docs/isa.md, Convolution)."""

from __future__ import annotations

from tx8isa.families.aligned import tensor
from tx8isa.families.matrix import (
    INPUTS,
    RESULT,
    formats,
    partial_tensor,
    post_rules,
    same_batch,
    shifts,
    switches,
    tensor_in_place,
    vectors,
    zero_point,
)
from tx8isa.numbers.layouts import batch_bytes
from tx8isa.records.meaning import Convolution
from tx8isa.records.operands import dilation, pads, rule, shape, spm, window
from tx8isa.records.record import Engine, Instruction, register


def _weights(bits: int, kx: int, ky: int, out_channels: int, in_channels: int) -> int:
    """One Cx volume: rows Ky*Kx*O, channel dimension I."""
    return batch_bytes(ky * kx * out_channels, in_channels, bits)


@rule(
    "dst_shape.h",
    "shape.h",
    "pad.top",
    "pad.bottom",
    "window.ky",
    "dilation.d1",
    "window.sy",
    "unpad.top",
    "unpad.bottom",
)
def _rows(
    out: int,
    h: int,
    top: int,
    bottom: int,
    kernel: int,
    step: int,
    stride: int,
    unpad_top: int,
    unpad_bottom: int,
) -> bool:
    """dst_shape.h must be floor((shape.h + top + bottom - (ky-1)*d1 - 1) / sy) + 1 - unpad.top
    - unpad.bottom"""
    span = h + top + bottom - (kernel - 1) * step - 1
    return span >= 0 and out == span // stride + 1 - unpad_top - unpad_bottom


@rule(
    "dst_shape.w",
    "shape.w",
    "pad.left",
    "pad.right",
    "window.kx",
    "dilation.d0",
    "window.sx",
    "unpad.left",
    "unpad.right",
)
def _columns(
    out: int,
    w: int,
    left: int,
    right: int,
    kernel: int,
    step: int,
    stride: int,
    unpad_left: int,
    unpad_right: int,
) -> bool:
    """dst_shape.w must be floor((shape.w + left + right - (kx-1)*d0 - 1) / sx) + 1 - unpad.left
    - unpad.right"""
    span = w + left + right - (kernel - 1) * step - 1
    return span >= 0 and out == span // stride + 1 - unpad_left - unpad_right


register(
    Instruction(
        Engine.NE,
        0,
        "ne.conv",
        (
            *formats(INPUTS),
            *switches(),
            spm("a", "src_a", "read", tensor, "@format", "shape.n", "shape.h", "shape.w", "shape.c"),
            spm(
                "w", "src_w", "read", _weights, "@format", "window.kx", "window.ky", "dst_shape.c", "shape.c"
            ),
            spm("out", "out", "write", tensor, "@out_format", *RESULT),
            spm(
                "psum",
                "psum",
                "read",
                partial_tensor,
                "@psum_format",
                *RESULT,
                "inpsum_en",
                switched_by="inpsum_en",
            ),
            shape("shape", "tfr_0"),
            shape("dst_shape", "tfr_1"),
            window(),
            pads("pad", "pdr"),
            pads("unpad", "unpdr"),
            dilation(),
            *vectors("dst_shape.c"),
            zero_point("zp_a", "quant_zp_pre"),
            zero_point("zp_out", "quant_zp_cur"),
            *shifts(),
        ),
        INPUTS,
        Convolution(),
        "Convolution of an aligned NHWC tensor with weights [Ky,Kx,O,I] stored as one Cx volume; FP32 fused "
        "multiply-add over ky, kx, i in ascending order, inputs outside the image are 0, one "
        "rounding to out_format. Bias, scales and activation as in post-processing; INT8 inputs take the "
        "INT8 chain, and are zp_a outside the image.",
        "ne.conv.fp16 a=0x10000, w=0x40000, out=0x80000, shape=[1,8,8,16], dst_shape=[1,8,8,32], "
        "window=[3,3,1,1], pad=[1,1,1,1], out_format=fp32",
        "spec and board; order of accumulation, place of the unpads, post-processing and INT8 details "
        "proposed",
        (same_batch, _rows, _columns, tensor_in_place, *post_rules("zp_a", "zp_out")),
    ),
    __name__,
)
