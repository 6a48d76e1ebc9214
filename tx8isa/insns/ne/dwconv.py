"""The matrix engine: depthwise convolution (docs/isa.md, Depthwise convolution)."""

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
from tx8isa.records.meaning import Convolution, Direction
from tx8isa.records.operands import pads, rule, shape, spm, window
from tx8isa.records.record import Engine, Instruction, register


def _weights(bits: int, kx: int, ky: int, channels: int) -> int:
    """One Cx volume: rows Ky*Kx, channel dimension C."""
    return batch_bytes(ky * kx, channels, bits)


@rule("shape.c", "dst_shape.c")
def _same_channels(c: int, out_c: int) -> bool:
    """dst_shape.c must equal shape.c"""
    return c == out_c


@rule(
    "dst_shape.h", "shape.h", "pad.top", "pad.bottom", "window.ky", "window.sy", "unpad.top", "unpad.bottom"
)
def _rows(
    out: int, h: int, top: int, bottom: int, kernel: int, stride: int, unpad_top: int, unpad_bottom: int
) -> bool:
    """dst_shape.h must be floor((shape.h + top + bottom - ky) / sy) + 1 - unpad.top - unpad.bottom"""
    span = h + top + bottom - kernel
    return span >= 0 and out == span // stride + 1 - unpad_top - unpad_bottom


@rule(
    "dst_shape.w", "shape.w", "pad.left", "pad.right", "window.kx", "window.sx", "unpad.left", "unpad.right"
)
def _columns(
    out: int, w: int, left: int, right: int, kernel: int, stride: int, unpad_left: int, unpad_right: int
) -> bool:
    """dst_shape.w must be floor((shape.w + left + right - kx) / sx) + 1 - unpad.left - unpad.right"""
    span = w + left + right - kernel
    return span >= 0 and out == span // stride + 1 - unpad_left - unpad_right


register(
    Instruction(
        Engine.NE,
        1,
        "ne.dwconv",
        (
            *formats(INPUTS),
            *switches(),
            spm("a", "src_a", "read", tensor, "@format", "shape.n", "shape.h", "shape.w", "shape.c"),
            spm("w", "src_w", "read", _weights, "@format", "window.kx", "window.ky", "shape.c"),
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
            *vectors("dst_shape.c"),
            zero_point("zp_a", "quant_zp_pre"),
            zero_point("zp_out", "quant_zp_cur"),
            *shifts(),
        ),
        INPUTS,
        Convolution(Direction.DEPTHWISE),
        "Convolution of each channel with its own window: out[..., c] = sum of in[..., c] * w[ky, kx, c], "
        "weights [Ky,Kx,C] stored as one Cx volume; FP32 fused multiply-add over ky, kx in ascending order, "
        "inputs outside the image are 0, one rounding to out_format. Bias, scales, activation and INT8 as in "
        "ne.conv; there is no dilation.",
        "ne.dwconv.fp16 a=0x10000, w=0x40000, out=0x80000, shape=[1,8,8,64], dst_shape=[1,8,8,64], "
        "window=[3,3,1,1], pad=[1,1,1,1]",
        "spec; board for weights [1,1,C,1]; layout of larger weights, order of accumulation, place of the "
        "unpads, post-processing and INT8 details proposed",
        (same_batch, _same_channels, _rows, _columns, tensor_in_place, *post_rules("zp_a", "zp_out")),
    ),
    __name__,
)
