"""Relations, logic on truth values and on bits, choice."""

from __future__ import annotations

import numpy as np

from compiler.graph import INTEGERS, Array
from compiler.operators.boxes.forms import elementwise
from compiler.operators.record import Attribute, Call, Input, Operator, Output, Types, register
from compiler.operators.types import ANY, BOOL, NUMERIC, broadcast_result, operands_broadcast

from .elementwise import binary

_TRUTH = Types("T1", ("bool",))
_LOGICAL = Types("T", ("bool",))
_WHOLE = Types("T", INTEGERS)

binary("Equal", 7, "Whether a = b, with broadcasting", np.equal, ANY, _TRUTH)
binary("Greater", 7, "Whether a > b, with broadcasting", np.greater, NUMERIC, _TRUTH)
binary("GreaterOrEqual", 12, "Whether a >= b, with broadcasting", np.greater_equal, NUMERIC, _TRUTH)
binary("Less", 7, "Whether a < b, with broadcasting", np.less, NUMERIC, _TRUTH)
binary("LessOrEqual", 12, "Whether a <= b, with broadcasting", np.less_equal, NUMERIC, _TRUTH)
binary("And", 7, "Logical and, with broadcasting", np.logical_and, _LOGICAL, _TRUTH)
binary("Or", 7, "Logical or, with broadcasting", np.logical_or, _LOGICAL, _TRUTH)
binary("Xor", 7, "Logical exclusive or, with broadcasting", np.logical_xor, _LOGICAL, _TRUTH)
binary("BitwiseAnd", 18, "And, bit by bit, with broadcasting", np.bitwise_and, _WHOLE)
binary("BitwiseOr", 18, "Or, bit by bit, with broadcasting", np.bitwise_or, _WHOLE)
binary("BitwiseXor", 18, "Exclusive or, bit by bit, with broadcasting", np.bitwise_xor, _WHOLE)


def _shift(call: Call, a: Array, b: Array) -> tuple[Array, ...]:
    """Shift; by the width or more, or by less than 0, only copies of the sign remain."""
    width = a.dtype.itemsize * 8
    inside = (b >= 0) & (b < width)
    if call.string("direction") == "LEFT":
        return (np.asarray(np.where(inside, np.left_shift(a, np.where(inside, b, 0)), 0).astype(a.dtype)),)
    return (np.asarray(np.right_shift(a, np.where(inside, b, width - 1)).astype(a.dtype)),)


register(
    Operator(
        name="BitShift",
        since=11,
        summary="The bits of X moved by Y places, with broadcasting",
        inputs=(Input("X", _WHOLE), Input("Y", _WHOLE)),
        outputs=(Output("Z", _WHOLE),),
        attributes=(Attribute("direction", "string", required=True, allowed=("LEFT", "RIGHT")),),
        rules=(operands_broadcast,),
        shapes=broadcast_result,
        reference=_shift,
        needs=elementwise,
    )
)


def _where(call: Call, condition: Array, x: Array, y: Array) -> tuple[Array, ...]:
    return (np.asarray(np.where(condition, x, y)),)


register(
    Operator(
        name="Where",
        since=9,
        summary="X where the condition holds, else Y, with broadcasting",
        inputs=(Input("condition", BOOL), Input("X", ANY), Input("Y", ANY)),
        outputs=(Output("output", ANY),),
        rules=(operands_broadcast,),
        shapes=broadcast_result,
        reference=_where,
        needs=elementwise,
    )
)
