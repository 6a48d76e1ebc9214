"""Conversions between element types: Cast, CastLike, BitCast."""

from __future__ import annotations

import numpy as np

from compiler.graph import DTYPES, FLOAT_FORMATS, FLOATS, Array
from compiler.operators.boxes.forms import elementwise
from compiler.operators.expansion.builder import Builder
from compiler.operators.expansion.composite import composite
from compiler.operators.record import Attribute, Call, Input, Operator, Output, Types, register, rule
from compiler.operators.types import same_shape
from tx8isa.numbers.rounding import rounded

NUMBERS = {
    1: "float32",
    2: "uint8",
    3: "int8",
    4: "uint16",
    5: "int16",
    6: "int32",
    7: "int64",
    9: "bool",
    10: "float16",
    12: "uint32",
    16: "bfloat16",
}
"""Element types by their numbers in ONNX files (TensorProto.DataType)."""
CAST_NUMBERS = {name: number for number, name in NUMBERS.items()}
_BEFORE = Types("T1", tuple(DTYPES))
_AFTER = Types("T2", tuple(DTYPES))
_SATURATE = Attribute("saturate", "int", 1, allowed=(0, 1), since=19)
_ROUND_MODE = Attribute("round_mode", "string", "up", allowed=("up", "down", "nearest"), since=24)


def cast_dtype(call: Call) -> str:
    """Return the element type after a Cast or BitCast."""
    return NUMBERS[call.integer("to")]


@rule
def known_type(call: Call) -> str | None:
    """to must be the number of float32, float16, bfloat16, int8, uint8, int16, uint16, int32, uint32, int64
    or bool"""
    return None if call.integer("to") in NUMBERS else f"to {call.integer('to')}"


def converted(x: Array, dtype: str) -> Array:
    """Convert values: floats are rounded to a float type, and toward zero to an integer type."""
    if dtype in FLOATS:
        return rounded(x, FLOAT_FORMATS[dtype]).astype(np.float64)
    if dtype == "bool" or x.dtype.kind != "f":
        return np.asarray(x.astype(dtype))
    return np.asarray(np.trunc(np.nan_to_num(x)).astype(np.int64).astype(dtype))


def _cast(call: Call, x: Array) -> tuple[Array, ...]:
    return (converted(x, cast_dtype(call)),)


def _dtypes(call: Call) -> tuple[str, ...]:
    return (cast_dtype(call),)


@rule
def same_width(call: Call) -> str | None:
    """The elements before and after must have the same number of bits"""
    before, after = (np.dtype(DTYPES[name]) for name in (call.tensor(0).dtype, cast_dtype(call)))
    return None if before.itemsize == after.itemsize else f"{before.name} to {after.name}"


def _bit_cast(call: Call, x: Array) -> tuple[Array, ...]:
    before, after = DTYPES[call.tensor(0).dtype], DTYPES[cast_dtype(call)]
    bits = rounded(x, FLOAT_FORMATS[before.name]) if before.name in FLOATS else x
    made = np.ascontiguousarray(bits).view(after).reshape(bits.shape)
    return (made.astype(np.float64) if after.name in FLOATS else np.asarray(made),)


register(
    Operator(
        name="BitCast",
        since=26,
        summary="The same bits as another element type",
        inputs=(Input("input", _BEFORE),),
        outputs=(Output("output", _AFTER),),
        attributes=(Attribute("to", "int", required=True),),
        rules=(known_type, same_width),
        shapes=same_shape,
        reference=_bit_cast,
        needs=elementwise,
        dtypes=_dtypes,
    )
)

register(
    Operator(
        name="Cast",
        since=6,
        summary="The values in another element type; floats become integers toward zero",
        inputs=(Input("input", _BEFORE),),
        outputs=(Output("output", _AFTER),),
        attributes=(Attribute("to", "int", required=True), _SATURATE, _ROUND_MODE),
        rules=(known_type,),
        shapes=same_shape,
        reference=_cast,
        needs=elementwise,
        dtypes=_dtypes,
    )
)


def as_type(build: Builder, value: str, dtype: str) -> str:
    """Convert a value to an element type."""
    return value if build.dtype(value) == dtype else build("Cast", value, to=CAST_NUMBERS[dtype])


def _cast_like(build: Builder, call: Call) -> tuple[str, ...]:
    return (build("Cast", call.name(0), to=CAST_NUMBERS[call.tensor(1).dtype]),)


composite(
    name="CastLike",
    since=15,
    summary="The operand in the element type of another",
    inputs=(Input("input", _BEFORE), Input("target_type", _AFTER)),
    outputs=(Output("output", _AFTER),),
    expansion=_cast_like,
    attributes=(_SATURATE, _ROUND_MODE),
)
