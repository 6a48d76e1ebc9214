"""Relations, logic, choice, and arithmetic beyond the four rules."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from compiler.graph import INTEGERS, Array
from compiler.operators.record import Attribute, Call, Input, Operator, Output, Types, register
from compiler.operators.types import ANY, FLOAT, NUMERIC

from .elementwise import broadcast_result, operands_broadcast

BOOL = Types("B", ("bool",))
_TRUTH = Types("T1", ("bool",))
_LOGICAL = Types("T", ("bool",))
_WHOLE = Types("T", INTEGERS)


def _binary(
    name: str,
    since: int,
    summary: str,
    function: Callable[[Array, Array], Array],
    types: Types,
    result: Types,
) -> None:
    def reference(call: Call, a: Array, b: Array) -> tuple[Array, ...]:
        return (np.asarray(function(a, b)),)

    register(
        Operator(
            name=name,
            since=since,
            summary=summary,
            inputs=(Input("A", types), Input("B", types)),
            outputs=(Output("C", result),),
            rules=(operands_broadcast,),
            shapes=broadcast_result,
            reference=reference,
        )
    )


_binary("Equal", 7, "Whether a = b, with broadcasting", np.equal, ANY, _TRUTH)
_binary("Greater", 7, "Whether a > b, with broadcasting", np.greater, NUMERIC, _TRUTH)
_binary("GreaterOrEqual", 12, "Whether a >= b, with broadcasting", np.greater_equal, NUMERIC, _TRUTH)
_binary("Less", 7, "Whether a < b, with broadcasting", np.less, NUMERIC, _TRUTH)
_binary("LessOrEqual", 12, "Whether a <= b, with broadcasting", np.less_equal, NUMERIC, _TRUTH)
_binary("And", 7, "Logical and, with broadcasting", np.logical_and, _LOGICAL, _TRUTH)
_binary("Or", 7, "Logical or, with broadcasting", np.logical_or, _LOGICAL, _TRUTH)
_binary("Xor", 7, "Logical exclusive or, with broadcasting", np.logical_xor, _LOGICAL, _TRUTH)
_binary("BitwiseAnd", 18, "And, bit by bit, with broadcasting", np.bitwise_and, _WHOLE, _WHOLE)
_binary("BitwiseOr", 18, "Or, bit by bit, with broadcasting", np.bitwise_or, _WHOLE, _WHOLE)
_binary("BitwiseXor", 18, "Exclusive or, bit by bit, with broadcasting", np.bitwise_xor, _WHOLE, _WHOLE)


def _shift(call: Call, a: Array, b: Array) -> tuple[Array, ...]:
    """Outside the width nothing is left but copies of the sign."""
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
    )
)


def _mod(call: Call, a: Array, b: Array) -> tuple[Array, ...]:
    return (np.asarray(np.fmod(a, b) if call.integer("fmod") else np.mod(a, b)),)


register(
    Operator(
        name="Mod",
        since=10,
        summary="Remainder with broadcasting; its sign is that of B, with fmod that of A",
        inputs=(Input("A", NUMERIC), Input("B", NUMERIC)),
        outputs=(Output("C", NUMERIC),),
        attributes=(Attribute("fmod", "int", 0, allowed=(0, 1)),),
        rules=(operands_broadcast,),
        shapes=broadcast_result,
        reference=_mod,
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
    )
)


def _power(call: Call, x: Array, y: Array) -> tuple[Array, ...]:
    return (np.asarray(np.power(x, y)),)


FLOAT_POWER = register(
    Operator(
        name="FloatPow",
        since=1,
        summary="x**y of floats",
        inputs=(Input("X", FLOAT), Input("Y", FLOAT)),
        outputs=(Output("Z", FLOAT),),
        rules=(operands_broadcast,),
        shapes=broadcast_result,
        reference=_power,
        internal=True,
    )
)

register(
    Operator(
        name="IntegerPow",
        since=1,
        summary="x**y of integers",
        inputs=(Input("X", _WHOLE), Input("Y", _WHOLE)),
        outputs=(Output("Z", _WHOLE),),
        rules=(operands_broadcast,),
        shapes=broadcast_result,
        reference=_power,
        internal=True,
    )
)
