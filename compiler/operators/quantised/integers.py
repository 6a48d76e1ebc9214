"""Operators on signed bytes, which rewrites and expansions make from quantised ones.

Bytes inside a graph are signed, as the engines take them. An unsigned byte becomes the signed byte whose
value is 128 less, and so does its zero point.
"""

from __future__ import annotations

import numpy as np

from compiler.graph import FLOATS, Array
from compiler.operators.boxes.forms import elementwise
from compiler.operators.elements.casting import CAST_NUMBERS, NUMBERS
from compiler.operators.record import Attribute, Call, Input, Operator, Output, Types, register, rule
from compiler.operators.types import broadcast_result, operands_broadcast, same_shape

OFFSET = 128
"""The difference between an unsigned byte and the signed byte that replaces it."""

_FLOAT = Types("T", FLOATS)
_SINGLE = Types("S", ("float32",))
_SIGNED = Types("B", ("int8",))


def _quantised(call: Call, x: Array, scale: Array, zero: Array | None = None) -> tuple[Array, ...]:
    """Quantise: x / scale in binary32, as ONNX says, rounded to even.

    The zero point is added to the integer.
    """
    whole = np.rint(x.astype(np.float32) / scale.astype(np.float32)).astype(np.float64)
    shifted = whole if zero is None else whole + zero
    return (np.clip(np.nan_to_num(shifted, nan=0.0), -128, 127).astype(np.int8),)


register(
    Operator(
        name="QuantiseInt8",
        since=1,
        summary="round(x / scale) + zero, within the range of int8",
        inputs=(
            Input("x", _FLOAT),
            Input("scale", _SINGLE, factor=True),
            Input("zero", _SINGLE, optional=True),
        ),
        outputs=(Output("y", _SIGNED),),
        shapes=broadcast_result,
        reference=_quantised,
        needs=elementwise,
        rules=(operands_broadcast,),
        internal=True,
        precise=True,
    )
)


def _dequantised(call: Call, x: Array, scale: Array, zero: Array | None = None) -> tuple[Array, ...]:
    """Dequantise: the difference is exact; the product is rounded to binary32, as ONNX says."""
    centred = x.astype(np.float32) - (np.float32(0) if zero is None else zero.astype(np.float32))
    return ((centred * scale.astype(np.float32)).astype(np.float64),)


register(
    Operator(
        name="DequantiseInt8",
        since=1,
        summary="(x - zero) scale, in binary32",
        inputs=(
            Input("x", _SIGNED),
            Input("scale", _SINGLE, factor=True),
            Input("zero", _SINGLE, optional=True),
        ),
        outputs=(Output("y", _SINGLE),),
        shapes=broadcast_result,
        reference=_dequantised,
        needs=elementwise,
        rules=(operands_broadcast,),
        internal=True,
        precise=True,
    )
)


def _offset(call: Call, x: Array) -> tuple[Array, ...]:
    """Invert the highest bit of each byte."""
    return (np.asarray((x.view(np.uint8) ^ np.uint8(OFFSET)).view(offset_dtype(call))),)


def offset_dtype(call: Call) -> str:
    """Return the element type of the result of an OffsetBinary."""
    return "uint8" if call.tensor(0).dtype == "int8" else "int8"


register(
    Operator(
        name="OffsetBinary",
        since=1,
        summary="Unsigned bytes as the signed ones that are 128 less, and back",
        inputs=(Input("x", Types("T", ("int8", "uint8"))),),
        outputs=(Output("y", Types("U", ("int8", "uint8"))),),
        shapes=same_shape,
        dtypes=lambda call: (offset_dtype(call),),
        reference=_offset,
        needs=elementwise,
        internal=True,
    )
)

REQUANTISED = (
    Attribute("x_zero", "int", 0),
    Attribute("y_zero", "int", 0),
    Attribute("low", "int", -128),
    Attribute("high", "int", 127),
    Attribute(
        "to", "int", CAST_NUMBERS["int8"], allowed=tuple(CAST_NUMBERS[t] for t in ("int8", "int32", *FLOATS))
    ),
)
"""Attributes of products of bytes: zero points of operand and result, limits and type of the result."""
STEP_AWAY = Attribute("exact", "int", 1, allowed=(0, 1))
"""With 0, integers may be off by one if the quotient is near a half."""


@rule
def scaled_unless_sums(call: Call) -> str | None:
    """A result of another type than int32 needs a scale, one value or one per output channel"""
    if result_dtype(call) == "int32":
        return "a scale" if call.has(3) else None
    return None if call.has(3) and call.tensor(3).size >= 1 else "none"


def result_dtype(call: Call) -> str:
    """Return the element type of the result of a product of bytes."""
    return NUMBERS[call.integer("to")]


def result_dtypes(call: Call) -> tuple[str, ...]:
    """Return the type of :func:`result_dtype`, as records take it."""
    return (result_dtype(call),)


def requantised(call: Call, sums: Array, scale: Array | None) -> Array:
    """Convert sums, which wrap, to the result type of a product: multiplied by the scale in binary32."""
    whole = np.asarray(sums).astype(np.int64).astype(np.int32)
    dtype = result_dtype(call)
    if scale is None:
        return np.asarray(whole)
    scaled = whole.astype(np.float32) * scale.astype(np.float32)
    if dtype != "int8":
        return scaled.astype(np.float64)
    shifted = np.rint(scaled).astype(np.float64) + call.integer("y_zero")
    return np.clip(shifted, call.integer("low"), call.integer("high")).astype(np.int8)


PRODUCT_INPUTS = (
    Input("X", _SIGNED),
    Input("W", _SIGNED),
    Input("B", Types("I", ("int32",)), optional=True),
    Input("scale", _SINGLE, optional=True, factor=True),
)
"""Operands of a product of bytes: the computed one, the known one, the start of the sums, the scale."""
