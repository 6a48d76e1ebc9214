"""Quantisation: floats to integers of 8 bits and back, products of integers."""

from __future__ import annotations

import numpy as np

from compiler.operators.casting import CAST_NUMBERS
from compiler.operators.composite_shapes import _operator, name_of
from compiler.operators.expansion import Builder
from compiler.operators.matmul import matmul_inner_sizes_agree
from compiler.operators.parts import reshaped
from compiler.operators.record import Attribute, Call, Input, Output, Types, rule
from compiler.operators.types import FLOAT, normalized

_BYTES = ("int8", "uint8")
_SCALE = Types("S", ("float32", "float16", "bfloat16"))
_FLOAT32 = CAST_NUMBERS["float32"]
_INT32 = CAST_NUMBERS["int32"]


def _along(b: Builder, call: Call, name: str) -> str:
    """A scale or zero point of one value per slice, so that it broadcasts along axis."""
    if not b.shape(name) or b.shape(name) == (1,) or len(b.shape(name)) > 1:
        return reshaped(b, name) if b.shape(name) == (1,) else name
    rank = call.tensor(0).rank
    return reshaped(b, name, -1, *(1,) * (rank - normalized(call.integer("axis"), rank) - 1))


def quantized(b: Builder, x: str, zero: str, dtype: str) -> str:
    """round(x) + zero in the range of an integer type."""
    limits = np.iinfo(dtype)
    whole = b("Round", x)
    if zero:
        whole = b("Add", whole, b("Cast", zero, to=CAST_NUMBERS[b.dtype(x)]))
    bounded = b("Min", b("Max", whole, b.like(x, limits.min)), b.like(x, limits.max))
    return b("Cast", bounded, to=CAST_NUMBERS[dtype])


@rule
def whole_slices(call: Call) -> str | None:
    """block_size must be 0"""
    return f"block_size {call.attrs['block_size']}" if call.attrs.get("block_size") else None


def _quantize(b: Builder, call: Call) -> tuple[str, ...]:
    scale = _along(b, call, name_of(call, 1))
    if b.dtype(scale) != call.tensor(0).dtype:
        scale = b("Cast", scale, to=CAST_NUMBERS[call.tensor(0).dtype])
    zero = _along(b, call, name_of(call, 2)) if call.has(2) else ""
    return (quantized(b, b("Div", name_of(call, 0), scale), zero, b.dtype(zero) if zero else "uint8"),)


_AXIS, _BLOCK = Attribute("axis", "int", 1), Attribute("block_size", "int", 0, since=21)
_OUTPUT_DTYPE = Attribute("output_dtype", "int", 0, allowed=(0,), since=21)
_operator(
    "QuantizeLinear",
    13,
    "round(x / y_scale) + y_zero_point, within the range of the type",
    (
        Input("x", FLOAT.named("T1")),
        Input("y_scale", _SCALE.named("T2"), constant=False),
        Input("y_zero_point", Types("T3", _BYTES), optional=True),
    ),
    (Output("y", Types("T3", _BYTES)),),
    _quantize,
    (
        _AXIS,
        _BLOCK,
        _OUTPUT_DTYPE,
        Attribute("precision", "int", 0, allowed=(0,), since=23),
        Attribute("saturate", "int", 1, allowed=(0, 1), since=19),
    ),
    (whole_slices,),
)


def _dequantize(b: Builder, call: Call) -> tuple[str, ...]:
    scale = _along(b, call, name_of(call, 1))
    number = CAST_NUMBERS[b.dtype(scale)]
    x = b("Cast", name_of(call, 0), to=number)
    if call.has(2):
        x = b("Sub", x, b("Cast", _along(b, call, name_of(call, 2)), to=number))
    return (b("Mul", x, scale),)


_operator(
    "DequantizeLinear",
    13,
    "(x - x_zero_point) x_scale",
    (
        Input("x", Types("T1", (*_BYTES, "int32"))),
        Input("x_scale", _SCALE.named("T2")),
        Input("x_zero_point", Types("T1", (*_BYTES, "int32")), optional=True),
    ),
    (Output("y", _SCALE.named("T2")),),
    _dequantize,
    (_AXIS, _BLOCK, Attribute("output_dtype", "int", 0, allowed=(0,), since=23)),
    (whole_slices,),
)


def _dynamic(b: Builder, call: Call) -> tuple[str, ...]:
    x = name_of(call, 0)
    zero, axes = b.like(x, 0), tuple(range(call.tensor(0).rank))
    low = b("Min", b("ReduceMin", x, axes=axes, keepdims=0), zero)
    high = b("Max", b("ReduceMax", x, axes=axes, keepdims=0), zero)
    scale = b("Div", b("Sub", high, low), b.like(x, 255))
    point = quantized(b, b("Div", b("Neg", low), scale), "", "uint8")
    return (quantized(b, b("Div", x, scale), point, "uint8"), scale, point)


_operator(
    "DynamicQuantizeLinear",
    11,
    "The operand as uint8, with the scale and zero point of its own range",
    (Input("x", Types("T1", ("float32",))),),
    (
        Output("y", Types("T2", ("uint8",))),
        Output("y_scale", Types("S", ("float32",))),
        Output("y_zero_point", Types("T2", ("uint8",))),
    ),
    _dynamic,
)


def _centred(b: Builder, name: str, zero: str) -> str:
    """Integers of 32 bits, less a zero point."""
    wide = b("Cast", name, to=_INT32)
    return b("Sub", wide, b("Cast", zero, to=_INT32)) if zero else wide


def _matmul_integer(b: Builder, call: Call) -> tuple[str, ...]:
    a_zero, b_zero = name_of(call, 2), name_of(call, 3)
    if a_zero and len(b.shape(a_zero)) == 1 and b.shape(a_zero) != (1,):
        a_zero = reshaped(b, a_zero, -1, 1)
    return (b("MatMul", _centred(b, name_of(call, 0), a_zero), _centred(b, name_of(call, 1), b_zero)),)


_A, _B = Types("T1", _BYTES), Types("T2", _BYTES)
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
    (Output("Y", Types("T3", ("int32",))),),
    _matmul_integer,
    rules=(matmul_inner_sizes_agree,),
)


def _qlinear_matmul(b: Builder, call: Call) -> tuple[str, ...]:
    names = [name_of(call, at) for at in range(8)]
    product = b("MatMul", _centred(b, names[0], names[2]), _centred(b, names[3], names[5]))
    kind = b.dtype(names[1])
    scale = b("Div", b("Mul", names[1], names[4]), names[6])
    scaled = b("Mul", b("Cast", product, to=CAST_NUMBERS[kind]), scale)
    return (quantized(b, scaled, names[7], b.dtype(names[7])),)


_operator(
    "QLinearMatMul",
    10,
    "Matrix product of quantised operands, quantised",
    (
        Input("a", _A),
        Input("a_scale", _SCALE),
        Input("a_zero_point", _A),
        Input("b", _B),
        Input("b_scale", _SCALE),
        Input("b_zero_point", _B),
        Input("y_scale", _SCALE),
        Input("y_zero_point", Types("T3", _BYTES)),
    ),
    (Output("y", Types("T3", _BYTES)),),
    _qlinear_matmul,
)
