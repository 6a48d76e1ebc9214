"""The matrix engine: backward convolution, the gradient of weights (docs/isa.md, Backward convolution)."""

from __future__ import annotations

from tx8isa.families.aligned import tensor
from tx8isa.families.matrix import FLOAT_INPUTS, apart, float_result, formats
from tx8isa.numbers.layouts import batch_bytes
from tx8isa.numbers.limits import LANE_BITS, LANE_MASK
from tx8isa.records.meaning import Convolution, Direction
from tx8isa.records.operands import dilation, pads, rule, shape, spm, window
from tx8isa.records.record import Engine, Instruction, register


def _lane(word: int, lane: int) -> int:
    """The number in a lane of a packed operand; lane 0 is the lowest."""
    return word >> LANE_BITS * lane & LANE_MASK


def _extent(size: int, before: int, after: int, kernel: int, step: int, stride: int, unpads: int) -> int:
    """Result positions of the forward convolution along one dimension; ``step``: dilation; below 1: none."""
    span = size + before + after - (kernel - 1) * step - 1
    return span // stride + 1 - unpads if span >= 0 else 0


def forward_rows(shape: int, pad: int, window: int, dilation: int, unpad: int) -> int:
    """Rows of the forward result."""
    k, s, d = _lane(window, 2), _lane(window, 0), _lane(dilation, 0)
    return _extent(_lane(shape, 2), _lane(pad, 3), _lane(pad, 2), k, d, s, _lane(unpad, 3) + _lane(unpad, 2))


def forward_columns(shape: int, pad: int, window: int, dilation: int, unpad: int) -> int:
    """Columns of the forward result."""
    k, s, d = _lane(window, 3), _lane(window, 1), _lane(dilation, 1)
    return _extent(_lane(shape, 1), _lane(pad, 1), _lane(pad, 0), k, d, s, _lane(unpad, 1) + _lane(unpad, 0))


def _gradient(bits: int, shape: int, pad: int, window: int, dilation: int, unpad: int, maps: int) -> int:
    """dY: an aligned NHWC tensor of the shape of the forward result."""
    high, wide = (
        forward_rows(shape, pad, window, dilation, unpad),
        forward_columns(shape, pad, window, dilation, unpad),
    )
    return tensor(bits, _lane(shape, 3), high, wide, maps)


def _weights(bits: int, ky: int, kx: int, maps: int, channels: int) -> int:
    """One Cx volume: rows Ky*Kx*O, channel dimension I."""
    return batch_bytes(ky * kx * maps, channels, bits)


def _partial(bits: int, ky: int, kx: int, maps: int, channels: int, used: int) -> int:
    return _weights(bits, ky, kx, maps, channels) if used else 0


@rule("dst_shape.n", "dst_shape.h", "dst_shape.c", "window.ky", "window.kx", "shape.c")
def _weight_shape(ky: int, kx: int, channels: int, window_ky: int, window_kx: int, shape_c: int) -> bool:
    """dst_shape must be [window.ky, window.kx, result channels, shape.c]"""
    return ky == window_ky and kx == window_kx and channels == shape_c


@rule("shape", "pad", "window", "dilation", "unpad")
def _some_result(shape: int, pad: int, window: int, dilation: int, unpad: int) -> bool:
    """the forward convolution must have a result: floor((h + top + bottom - (ky-1)*d1 - 1) / sy) + 1
    - unpad.top - unpad.bottom must be at least 1, and so along w"""
    return (
        forward_rows(shape, pad, window, dilation, unpad) >= 1
        and forward_columns(shape, pad, window, dilation, unpad) >= 1
    )


_RESULT = tuple(f"dst_shape.{lane}" for lane in "nhwc")


@rule("out", "psum", "inpsum_en", "@out_format", "@psum_format", *_RESULT)
def _in_place(
    out: int, psum: int, used: int, bits: int, psum_bits: int, ky: int, kx: int, maps: int, channels: int
) -> bool:
    """psum must be at out with elements as wide, or apart from it"""
    size, psum_size = _weights(bits, ky, kx, maps, channels), _weights(psum_bits, ky, kx, maps, channels)
    return not used or apart(out, psum, size, psum_size, bits == psum_bits)


register(
    Instruction(
        Engine.NE,
        2,
        "ne.bwconv",
        (
            *formats(FLOAT_INPUTS),
            spm("a", "src_a", "read", tensor, "@format", "shape.n", "shape.h", "shape.w", "shape.c"),
            spm(
                "dy",
                "src_w",
                "read",
                _gradient,
                "@format",
                "shape",
                "pad",
                "window",
                "dilation",
                "unpad",
                "dst_shape.w",
            ),
            spm("out", "out", "write", _weights, "@out_format", *_RESULT),
            spm(
                "psum",
                "psum",
                "read",
                _partial,
                "@psum_format",
                *_RESULT,
                "inpsum_en",
                switched_by="inpsum_en",
            ),
            shape("shape", "tfr_0"),
            shape("dst_shape", "tfr_1"),
            window(),
            pads("pad", "pdr"),
            pads("unpad", "unpdr"),
            dilation(),
        ),
        FLOAT_INPUTS,
        Convolution(Direction.BACKWARD),
        "Gradient of convolution weights: out[ky,kx,o,i] = sum over n, oh, ow of dy[n,oh,ow,o] * the input "
        "a[n,...,i] that the forward convolution multiplies there by w[ky,kx,o,i]; FP32 fused multiply-add "
        "in that order, inputs outside the image are 0, one rounding to out_format. dst_shape is "
        "[Ky,Kx,O,I]; out and psum are laid out as the weights of ne.conv, dy as its result.",
        "ne.bwconv.fp16 a=0x10000, dy=0x40000, out=0x80000, shape=[1,8,8,16], dst_shape=[3,3,32,16], "
        "window=[3,3,1,1], pad=[1,1,1,1], out_format=fp32",
        "inferred from the footprint on the board; operands and order of accumulation proposed",
        (float_result, _weight_shape, _some_result, _in_place),
    ),
    __name__,
)
