"""Quantisation by the vector engine: FP32 rounded to integers, and bytes of both kinds of signs."""

from __future__ import annotations

from compiler.codegen.expr import Value
from compiler.codegen.slices.integers import OFFSET
from compiler.codegen.slices.vector import Vector
from compiler.dialect.orders import Order
from compiler.lowering.record import Engine, lowering
from compiler.operators.quantised.integers import offset_dtype
from compiler.operators.record import Call

from .chain import FLOATS_AND_BOOL
from .record import Body, Operand, Pointwise, SliceVector, define
from .single import lower_single

ROUNDER = 12582912.0
"""1.5 * 2**23: numbers near it have no fraction, so the sum with a number below 2**22 is rounded to even."""


def round_and_shift(vector: Vector, x: Value, zero: float) -> None:
    """x = round(x) + zero, for FP32; exact if the result is within 2**22, otherwise outside the range of
    bytes.

    The subtracted number includes the zero point, because adding it earlier would round at another place.
    """
    vector.vs("add", x, x, ROUNDER)
    vector.vs("sub", x, x, ROUNDER - zero)


def _quantise(vector: SliceVector, operands: list[Operand], call: Call) -> Value:
    x = vector.writable(operands[0])
    scale, zero = operands[1], operands[2] if len(operands) > 2 else Operand(number=0.0)
    if scale.number != 1.0:
        vector.apply("div", x, x, scale)
    round_and_shift(vector, x, zero.number or 0.0)
    if zero.number is None:
        vector.apply("add", x, x, zero)
    return x


def _dequantise(vector: SliceVector, operands: list[Operand], call: Call) -> Value:
    x = vector.writable(operands[0])
    if len(operands) > 2:
        vector.apply("sub", x, x, operands[2])
    if operands[1].number != 1.0:
        vector.apply("mul", x, x, operands[1])
    return x


def _offset(vector: SliceVector, operands: list[Operand], call: Call) -> Value:
    x = vector.writable(operands[0])
    vector.vs("add", x, x, OFFSET if offset_dtype(call) == "uint8" else -OFFSET)
    return x


def _define(op: str, body: Body, repeating: tuple[int, ...] = ()) -> None:
    define(Pointwise(op, body, temporaries=1, wide=True, repeating=repeating, of_bytes=True))
    types = (*FLOATS_AND_BOOL, "int8", "uint8")
    lowering(op, order=Order.FOLLOW, types=types, engines=(Engine.VECTOR,))(lower_single)


_define("QuantiseInt8", _quantise, (1, 2))
_define("DequantiseInt8", _dequantise, (1, 2))
_define("OffsetBinary", _offset)
