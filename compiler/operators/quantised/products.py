"""Products of 8-bit integers, on the matrix engine in FP32.

They are exact as long as no sum exceeds 24 bits, so long sums are cut and the pieces added as integers.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from compiler.operators.elements.casting import CAST_NUMBERS
from compiler.operators.expansion.builder import Builder
from compiler.operators.expansion.composite import composite
from compiler.operators.expansion.parts import reshaped, sliced
from compiler.operators.linear.matmul import matmul_inner_sizes_agree
from compiler.operators.record import Call, Input, Output, Rule, Types, rule
from compiler.operators.types import BYTES, EXACT_INTEGERS, rank_within
from compiler.operators.windows.conv import (
    GROUP,
    KERNEL_SHAPE,
    channels_match,
    conv_window,
    group_divides,
    weight_rank,
    weights_not_empty,
)
from compiler.operators.windows.geometry import (
    AUTO_PAD,
    DILATIONS,
    PADS,
    STRIDES,
    lengths_match,
    pads_or_auto_pad,
    window_fits,
)

from .quantisation import SCALE, quantised, scales_usable

_ROUNDED_ONCE = 2
"""The most exact numbers whose sum in FP32 is their exact sum, rounded once."""
_INT32, _FLOAT32 = CAST_NUMBERS["int32"], CAST_NUMBERS["float32"]

_Centred = tuple[str, int]
"""The name of an operand minus its zero point, as floats, and its largest possible magnitude."""


def _centred(build: Builder, name: str, zero: str) -> _Centred:
    """Subtract the zero point from an operand; ``zero`` is empty if there is none."""
    largest = 128 if build.dtype(name) == "int8" else 255
    wide = build("Cast", name, to=_FLOAT32)
    if not zero or (zero in build.constants and not build.constants[zero].any()):
        return wide, largest
    return build("Sub", wide, build("Cast", zero, to=_FLOAT32)), 255


def _total(build: Builder, parts: list[str]) -> str:
    """Add float32 values that are whole numbers, as integers."""
    whole = [build("Cast", part, to=_INT32) for part in parts]
    return whole[0] if len(whole) == 1 else build("Sum", *whole)


def _single_total(build: Builder, parts: list[str]) -> str:
    """Add such values to a float32, rounded once: two values are added in FP32, more as integers first."""
    if len(parts) > _ROUNDED_ONCE:
        return build("Cast", _total(build, parts), to=_FLOAT32)
    return parts[0] if len(parts) == 1 else build("Add", *parts)


def _matrix_product(build: Builder, left: _Centred, right: _Centred) -> list[str]:
    """Multiply matrices in pieces of the inner axis whose sums are exact, as float32."""
    (x, largest_x), (y, largest_y) = left, right
    step, inner = EXACT_INTEGERS // (largest_x * largest_y), build.shape(x)[-1]
    if inner <= step:
        return [build("MatMul", x, y)]
    across, down = len(build.shape(x)) - 1, max(len(build.shape(y)) - 2, 0)
    pieces = [(at, min(at + step, inner)) for at in range(0, inner, step)]
    parts = []
    for piece in pieces:
        columns, rows = sliced(build, x, across, *piece), sliced(build, y, down, *piece)
        parts.append(build("MatMul", columns, rows))
    return parts


def _rows_of(build: Builder, zero: str) -> str:
    """Return zero points or scales of the rows of a matrix in a shape that broadcasts to its columns."""
    per_row = zero and len(build.shape(zero)) == 1 and build.shape(zero) != (1,)
    return reshaped(build, zero, -1, 1) if per_row else zero


def _matmul_integer(build: Builder, call: Call) -> tuple[str, ...]:
    a = _centred(build, call.name(0), _rows_of(build, call.name(2)))
    return (_total(build, _matrix_product(build, a, _centred(build, call.name(1), call.name(3)))),)


_A, _B, _OUT = Types("T1", BYTES), Types("T2", BYTES), Types("T3", ("int32",))
composite(
    name="MatMulInteger",
    since=10,
    summary="Matrix product of integers less their zero points, in int32",
    inputs=(
        Input("A", _A),
        Input("B", _B),
        Input("a_zero_point", _A, optional=True),
        Input("b_zero_point", _B, optional=True),
    ),
    outputs=(Output("Y", _OUT),),
    expansion=_matmul_integer,
    rules=(matmul_inner_sizes_agree,),
    precise=True,
    quantised=True,
)


def _scaled(build: Builder, total: str, scales: tuple[str, str, str], zero: str) -> str:
    """Multiply sums of products by both operands' scales, divide by the result's, and quantise."""
    kind = build.dtype(scales[0])
    scale = build("Div", build("Mul", *scales[:2]), scales[2])
    wide = total if build.dtype(total) == kind else build("Cast", total, to=CAST_NUMBERS[kind])
    scaled = build("Mul", wide, scale)
    return quantised(build, scaled, build.constant(np.ones(()), "float32"), zero, build.dtype(zero))


def _qlinear_matmul(build: Builder, call: Call) -> tuple[str, ...]:
    a, a_scale, a_zero, other, b_scale, b_zero, y_scale, y_zero = (call.name(at) for at in range(8))
    left = _centred(build, a, _rows_of(build, a_zero))
    parts = _matrix_product(build, left, _centred(build, other, b_zero))
    product = _single_total(build, parts) if build.dtype(a_scale) == "float32" else _total(build, parts)
    return (_scaled(build, product, (_rows_of(build, a_scale), b_scale, y_scale), y_zero),)


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
composite(
    name="QLinearMatMul",
    since=10,
    summary="Matrix product of quantised operands, quantised",
    inputs=(
        Input("a", _A),
        Input("a_scale", SCALE),
        Input("a_zero_point", _A),
        Input("b", _B),
        Input("b_scale", SCALE),
        Input("b_zero_point", _B),
        Input("y_scale", SCALE),
        Input("y_zero_point", _RESULT),
    ),
    outputs=(Output("y", _RESULT),),
    expansion=_qlinear_matmul,
    rules=(quantised_inner_sizes_agree, scales_usable((1, 4), (6,))),
    precise=True,
    quantised=True,
)


def _per_map(build: Builder, name: str, rank: int) -> str:
    """Return one value per output channel, or one for all, in a shape that broadcasts to [M, C, ...]."""
    is_vector = name and build.shape(name) not in ((), (1,))
    return reshaped(build, name, -1, *(1,) * (rank - 1)) if is_vector else name


def _convolved(build: Builder, call: Call, left: _Centred, right: _Centred) -> str:
    """Convolve in pieces of every group's channels whose sums are exact."""
    (x, largest_x), (w, largest_w) = left, right
    names = ("auto_pad", "dilations", "group", "pads", "strides")
    attrs = {name: call.attrs[name] for name in names if name in call.attrs}
    group, channels = call.integer("group"), build.shape(w)[1]
    step = EXACT_INTEGERS // (largest_x * largest_w * math.prod(build.shape(w)[2:]))
    if channels <= step:
        return _total(build, [build("Conv", x, w, **attrs)])
    batch, _, *image = build.shape(x)
    groups, parts = reshaped(build, x, batch, group, channels, *image), []
    for at in range(0, channels, step):
        count = min(step, channels - at)
        piece = reshaped(build, sliced(build, groups, 2, at, at + count), batch, group * count, *image)
        parts.append(build("Conv", piece, sliced(build, w, 1, at, at + count), **attrs))
    return _total(build, parts)


def _scalar(build: Builder, name: str) -> str:
    """Return a value of one element as a scalar."""
    return reshaped(build, name) if name and build.shape(name) == (1,) else name


def _conv_integer(build: Builder, call: Call) -> tuple[str, ...]:
    zero = _per_map(build, call.name(3), call.tensor(1).rank)
    x = _centred(build, call.name(0), _scalar(build, call.name(2)))
    return (_convolved(build, call, x, _centred(build, call.name(1), zero)),)


def _qlinear_conv(build: Builder, call: Call) -> tuple[str, ...]:
    x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero = (call.name(at) for at in range(8))
    rank = call.tensor(0).rank
    left = _centred(build, x, _scalar(build, x_zero))
    total = _convolved(build, call, left, _centred(build, w, _per_map(build, w_zero, rank)))
    if call.has(8):
        total = build("Add", total, _per_map(build, call.name(8), rank - 1))
    scales = (_scalar(build, x_scale), _per_map(build, w_scale, rank - 1), _scalar(build, y_scale))
    return (_scaled(build, total, scales, _scalar(build, y_zero)),)


def _of_conv(weights: int) -> tuple[Rule, ...]:
    """Return the rules of a Conv for an operator whose operand number ``weights`` is W."""

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


_ATTRIBUTES = (AUTO_PAD, DILATIONS, GROUP, KERNEL_SHAPE, PADS, STRIDES)


composite(
    name="ConvInteger",
    since=10,
    summary="Convolution of integers less their zero points, in int32",
    inputs=(
        Input("x", _A),
        Input("w", _B),
        Input("x_zero_point", _A, optional=True),
        Input("w_zero_point", _B, optional=True),
    ),
    outputs=(Output("y", _OUT),),
    expansion=_conv_integer,
    attributes=_ATTRIBUTES,
    rules=_of_conv(1),
    precise=True,
    quantised=True,
)


_SINGLE = Types("S", ("float32",))
composite(
    name="QLinearConv",
    since=10,
    summary="Convolution of quantised operands, quantised",
    inputs=(
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
    outputs=(Output("y", _RESULT),),
    expansion=_qlinear_conv,
    attributes=_ATTRIBUTES,
    rules=(*_of_conv(3), scales_usable((1, 4), (6,))),
    precise=True,
    quantised=True,
)
