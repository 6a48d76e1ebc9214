"""Products of integers of 8 bits, on the matrix engine in FP32: exact as long as no sum leaves 24 bits, so
long sums are cut and the pieces added as integers."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from compiler.operators.elements.casting import CAST_NUMBERS
from compiler.operators.expansion import Builder
from compiler.operators.linear.matmul import matmul_inner_sizes_agree
from compiler.operators.parts import cut, reshaped
from compiler.operators.record import Attribute, Call, Input, Output, Rule, Types, rule
from compiler.operators.shapes.composite_shapes import _operator, name_of
from compiler.operators.types import rank_within
from compiler.operators.window import (
    AUTO_PAD,
    DILATIONS,
    PADS,
    STRIDES,
    lengths_match,
    pads_or_auto_pad,
    window_fits,
)
from compiler.operators.windows.conv import (
    channels_match,
    conv_window,
    group_divides,
    weight_rank,
    weights_not_empty,
)

from .quantization import BYTES, SCALE, quantized

_INT32, _FLOAT32 = CAST_NUMBERS["int32"], CAST_NUMBERS["float32"]
_EXACT = 1 << 24
"""Integers up to this one are FP32 numbers."""


def _centred(b: Builder, name: str, zero: str) -> tuple[str, int]:
    """An operand less its zero point as floats, and the largest magnitude that can have."""
    largest = 128 if b.dtype(name) == "int8" else 255
    wide = b("Cast", name, to=_FLOAT32)
    if not zero or (zero in b.constants and not b.constants[zero].any()):
        return wide, largest
    return b("Sub", wide, b("Cast", zero, to=_FLOAT32)), 255


def _total(b: Builder, parts: list[str]) -> str:
    """Whole numbers added as integers."""
    whole = [b("Cast", part, to=_INT32) for part in parts]
    return whole[0] if len(whole) == 1 else b("Sum", *whole)


def _matrix_product(b: Builder, left: tuple[str, int], right: tuple[str, int]) -> str:
    (x, largest_x), (y, largest_y) = left, right
    step, inner = _EXACT // (largest_x * largest_y), b.shape(x)[-1]
    if inner <= step:
        return _total(b, [b("MatMul", x, y)])
    across, down = len(b.shape(x)) - 1, max(len(b.shape(y)) - 2, 0)
    pieces = [(at, min(at + step, inner)) for at in range(0, inner, step)]
    return _total(b, [b("MatMul", cut(b, x, across, *piece), cut(b, y, down, *piece)) for piece in pieces])


def _rows_of(b: Builder, zero: str) -> str:
    """The zero points of the rows of a matrix broadcast to its columns."""
    return reshaped(b, zero, -1, 1) if zero and len(b.shape(zero)) == 1 and b.shape(zero) != (1,) else zero


def _matmul_integer(b: Builder, call: Call) -> tuple[str, ...]:
    a = _centred(b, name_of(call, 0), _rows_of(b, name_of(call, 2)))
    return (_matrix_product(b, a, _centred(b, name_of(call, 1), name_of(call, 3))),)


_A, _B, _OUT = Types("T1", BYTES), Types("T2", BYTES), Types("T3", ("int32",))
_operator(
    "MatMulInteger",
    10,
    "Matrix product of integers less their zero points, in int32",
    (
        Input("A", _A),
        Input("B", _B),
        Input("a_zero_point", _A, optional=True),
        Input("b_zero_point", _B, optional=True),
    ),
    (Output("Y", _OUT),),
    _matmul_integer,
    rules=(matmul_inner_sizes_agree,),
    precise=True,
)


def _scaled(b: Builder, total: str, scales: tuple[str, str, str], zero: str) -> str:
    """Sums of products, times both scales of the operands through that of the result, quantised."""
    kind = CAST_NUMBERS[b.dtype(scales[0])]
    scale = b("Div", b("Mul", *scales[:2]), scales[2])
    return quantized(b, b("Mul", b("Cast", total, to=kind), scale), zero, b.dtype(zero))


def _qlinear_matmul(b: Builder, call: Call) -> tuple[str, ...]:
    a, a_scale, a_zero, other, b_scale, b_zero, y_scale, y_zero = (name_of(call, at) for at in range(8))
    product = _matrix_product(b, _centred(b, a, _rows_of(b, a_zero)), _centred(b, other, b_zero))
    return (_scaled(b, product, (_rows_of(b, a_scale), b_scale, y_scale), y_zero),)


@rule
def quantised_inner_sizes_agree(call: Call) -> str | None:
    """The last axis of a and the last but one of b must agree, and the others broadcast"""
    a, other = call.shape(0), call.shape(3)
    if not a or not other or a[-1] != other[-2 if len(other) > 1 else 0]:
        return f"{list(a)} and {list(other)}"
    try:
        np.broadcast_shapes(a[:-2], other[:-2])
    except ValueError:
        return f"{list(a)} and {list(other)}"
    return None


_RESULT = Types("T3", BYTES)
_operator(
    "QLinearMatMul",
    10,
    "Matrix product of quantised operands, quantised",
    (
        Input("a", _A),
        Input("a_scale", SCALE),
        Input("a_zero_point", _A),
        Input("b", _B),
        Input("b_scale", SCALE),
        Input("b_zero_point", _B),
        Input("y_scale", SCALE),
        Input("y_zero_point", _RESULT),
    ),
    (Output("y", _RESULT),),
    _qlinear_matmul,
    rules=(quantised_inner_sizes_agree,),
    precise=True,
)

# --- convolution -----------------------------------------------------------------------------------------


def _per_map(b: Builder, name: str, rank: int) -> str:
    """One value per map, or one for all, in the shape of weights [M, C, ...]."""
    return reshaped(b, name, -1, *(1,) * (rank - 1)) if name and b.shape(name) not in ((), (1,)) else name


def _convolved(b: Builder, call: Call, left: tuple[str, int], right: tuple[str, int]) -> str:
    """The sum over pieces of the channels, cut alike in every group."""
    (x, largest_x), (w, largest_w) = left, right
    names = ("auto_pad", "dilations", "group", "pads", "strides")
    attrs = {name: call.attrs[name] for name in names if name in call.attrs}
    group, channels = call.integer("group"), b.shape(w)[1]
    step = _EXACT // (largest_x * largest_w * math.prod(b.shape(w)[2:]))
    if channels <= step:
        return _total(b, [b("Conv", x, w, **attrs)])
    batch, _, *image = b.shape(x)
    apart, parts = reshaped(b, x, batch, group, channels, *image), []
    for at in range(0, channels, step):
        count = min(step, channels - at)
        piece = reshaped(b, cut(b, apart, 2, at, at + count), batch, group * count, *image)
        parts.append(b("Conv", piece, cut(b, w, 1, at, at + count), **attrs))
    return _total(b, parts)


def _alone(b: Builder, name: str) -> str:
    """A scalar instead of a vector of one."""
    return reshaped(b, name) if name and b.shape(name) == (1,) else name


def _conv_integer(b: Builder, call: Call) -> tuple[str, ...]:
    zero = _per_map(b, name_of(call, 3), call.tensor(1).rank)
    x = _centred(b, name_of(call, 0), _alone(b, name_of(call, 2)))
    return (_convolved(b, call, x, _centred(b, name_of(call, 1), zero)),)


def _qlinear_conv(b: Builder, call: Call) -> tuple[str, ...]:
    x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero = (name_of(call, at) for at in range(8))
    rank = call.tensor(0).rank
    left = _centred(b, x, _alone(b, x_zero))
    total = _convolved(b, call, left, _centred(b, w, _per_map(b, w_zero, rank)))
    if call.has(8):
        total = b("Add", total, _per_map(b, name_of(call, 8), rank - 1))
    scales = (_alone(b, x_scale), _per_map(b, w_scale, rank - 1), _alone(b, y_scale))
    return (_scaled(b, total, scales, _alone(b, y_zero)),)


def _of_conv(weights: int) -> tuple[Rule, ...]:
    """The rules of a Conv for an operator whose weights are another operand than the second."""

    def as_conv(call: Call) -> Call:
        return replace(call, inputs=(call.tensor(0), call.tensor(weights)), values=(None, None))

    def moved(item: Rule) -> Rule:
        return Rule(item.text, lambda call: item.check(as_conv(call)))

    return tuple(map(moved, _CONV_RULES))


@rule
def kernel_is_small(call: Call) -> str | None:
    """The kernel must have at most 256 positions"""
    return None if math.prod(call.shape(1)[2:]) <= 256 else f"W {list(call.shape(1))}"


_CONV_RULES = (
    rank_within("X", 3, 5, "1-D to 3-D convolution"),
    weight_rank,
    weights_not_empty,
    lengths_match,
    group_divides,
    channels_match,
    pads_or_auto_pad,
    window_fits(conv_window),
    kernel_is_small,
)
_ATTRIBUTES = (
    AUTO_PAD,
    DILATIONS,
    Attribute("group", "int", 1, minimum=1),
    Attribute("kernel_shape", "ints", minimum=1),
    PADS,
    STRIDES,
)
_operator(
    "ConvInteger",
    10,
    "Convolution of integers less their zero points, in int32",
    (
        Input("x", _A),
        Input("w", _B),
        Input("x_zero_point", _A, optional=True),
        Input("w_zero_point", _B, optional=True),
    ),
    (Output("y", _OUT),),
    _conv_integer,
    _ATTRIBUTES,
    _of_conv(1),
    precise=True,
)
_SINGLE = Types("S", ("float32",))
_operator(
    "QLinearConv",
    10,
    "Convolution of quantised operands, quantised",
    (
        Input("x", _A),
        Input("x_scale", _SINGLE),
        Input("x_zero_point", _A),
        Input("w", _B),
        Input("w_scale", _SINGLE),
        Input("w_zero_point", _B),
        Input("y_scale", _SINGLE),
        Input("y_zero_point", _RESULT),
        Input("B", Types("T4", ("int32",)), optional=True),
    ),
    (Output("y", _RESULT),),
    _qlinear_conv,
    _ATTRIBUTES,
    _of_conv(3),
    precise=True,
)
