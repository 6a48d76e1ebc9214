"""Quantisation: floats to integers of 8 bits and back."""

from __future__ import annotations

import numpy as np

from compiler.graph import FLOATS, Shape
from compiler.operators.elements.casting import CAST_NUMBERS, NUMBERS
from compiler.operators.expansion import Builder
from compiler.operators.parts import broadcast, cut, reshaped
from compiler.operators.record import Attribute, Call, Input, Output, Types, rule
from compiler.operators.shapes.composite_shapes import _operator, name_of
from compiler.operators.types import FLOAT, normalized

BYTES = ("int8", "uint8")
SCALE = Types("S", ("float32", "float16", "bfloat16"))
_FLOAT32 = CAST_NUMBERS["float32"]


def _along(b: Builder, call: Call, name: str) -> str:
    """A scale or zero point of one value per slice or block, so that it broadcasts along axis."""
    size = call.attrs.get("block_size")
    if isinstance(size, int) and size:
        return _repeated(b, name, normalized(call.integer("axis"), call.tensor(0).rank), size, call.shape(0))
    if not b.shape(name) or b.shape(name) == (1,) or len(b.shape(name)) > 1:
        return reshaped(b, name) if b.shape(name) == (1,) else name
    rank = call.tensor(0).rank
    return reshaped(b, name, -1, *(1,) * (rank - normalized(call.integer("axis"), rank) - 1))


def _repeated(b: Builder, name: str, axis: int, size: int, shape: Shape) -> str:
    """One value per block of ``size`` elements of an axis as one per element; the last may be shorter."""
    blocks = b.shape(name)
    apart = reshaped(b, name, *blocks[: axis + 1], 1, *blocks[axis + 1 :])
    wide = broadcast(b, apart, (*blocks[: axis + 1], size, *blocks[axis + 1 :]))
    flat = reshaped(b, wide, *blocks[:axis], blocks[axis] * size, *blocks[axis + 1 :])
    return cut(b, flat, axis, 0, shape[axis])


def quantized(b: Builder, x: str, zero: str, dtype: str) -> str:
    """round(x) + zero in the range of an integer type."""
    limits = np.iinfo(dtype)
    whole = b("Round", x)
    if zero:
        whole = b("Add", whole, b("Cast", zero, to=CAST_NUMBERS[b.dtype(x)]))
    bounded = b("Min", b("Max", whole, b.like(x, limits.min)), b.like(x, limits.max))
    return b("Cast", bounded, to=CAST_NUMBERS[dtype])


@rule
def scales_fit(call: Call) -> str | None:
    """The scale must be one value, one per element of axis, or with block_size one per block of axis, and the
    zero point must have its shape"""
    rank, shape, scale = call.tensor(0).rank, call.shape(0), call.shape(1)
    axis, size = call.integer("axis"), call.attrs.get("block_size", 0)
    found = f"{list(scale)} for {list(shape)}, axis {axis}, block_size {size}"
    if call.has(2) and call.tensor(2).size != call.tensor(1).size:
        return f"{list(scale)} and {list(call.shape(2))}"
    if scale in ((), (1,)):
        return found if size else None
    if not -rank <= axis < rank or not isinstance(size, int) or size < 0:
        return found
    axis = normalized(axis, rank)
    if size:
        blocks = (*shape[:axis], -(-shape[axis] // size), *shape[axis + 1 :])
        return None if scale == blocks else found
    return None if scale == (shape[axis],) else found


def _wanted(call: Call, default: int) -> int:
    """The number of the element type that output_dtype asks for."""
    given = call.attrs.get("output_dtype")
    return given if isinstance(given, int) and given else default


def _quantize(b: Builder, call: Call) -> tuple[str, ...]:
    scale = _along(b, call, name_of(call, 1))
    if b.dtype(scale) != call.tensor(0).dtype:
        scale = b("Cast", scale, to=CAST_NUMBERS[call.tensor(0).dtype])
    zero = _along(b, call, name_of(call, 2)) if call.has(2) else ""
    dtype = b.dtype(zero) if zero else NUMBERS[_wanted(call, CAST_NUMBERS["uint8"])]
    return (quantized(b, b("Div", name_of(call, 0), scale), zero, dtype),)


_AXIS, _BLOCK = Attribute("axis", "int", 1), Attribute("block_size", "int", 0, since=21)
_OUTPUT_DTYPE = Attribute("output_dtype", "int", 0, allowed=(0, *(CAST_NUMBERS[t] for t in BYTES)), since=21)
_FLOAT_DTYPE = Attribute("output_dtype", "int", 0, allowed=(0, *(CAST_NUMBERS[t] for t in FLOATS)), since=23)
_operator(
    "QuantizeLinear",
    13,
    "round(x / y_scale) + y_zero_point, within the range of the type",
    (
        Input("x", FLOAT.named("T1")),
        Input("y_scale", SCALE.named("T2"), constant=False),
        Input("y_zero_point", Types("T3", BYTES), optional=True),
    ),
    (Output("y", Types("T3", BYTES)),),
    _quantize,
    (
        _AXIS,
        _BLOCK,
        _OUTPUT_DTYPE,
        Attribute("precision", "int", 0, allowed=(0, _FLOAT32), since=23),
        Attribute("saturate", "int", 1, allowed=(0, 1), since=19),
    ),
    (scales_fit,),
    precise=True,
)


def _dequantize(b: Builder, call: Call) -> tuple[str, ...]:
    scale = _along(b, call, name_of(call, 1))
    number = CAST_NUMBERS[b.dtype(scale)]
    x = b("Cast", name_of(call, 0), to=number)
    if call.has(2):
        x = b("Sub", x, b("Cast", _along(b, call, name_of(call, 2)), to=number))
    made, wanted = b("Mul", x, scale), _wanted(call, number)
    return (made if wanted == number else b("Cast", made, to=wanted),)


_operator(
    "DequantizeLinear",
    13,
    "(x - x_zero_point) x_scale",
    (
        Input("x", Types("T1", (*BYTES, "int32"))),
        Input("x_scale", SCALE.named("T2")),
        Input("x_zero_point", Types("T1", (*BYTES, "int32")), optional=True),
    ),
    (Output("y", SCALE.named("T2")),),
    _dequantize,
    (_AXIS, _BLOCK, _FLOAT_DTYPE),
    (scales_fit,),
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
    precise=True,
)
