"""Adds two quantised tensors and quantises the sum: DequantizeLinear, Add and QuantizeLinear in one
operator."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from compiler.graph import Array
from compiler.operators.boxes.forms import elementwise
from compiler.operators.record import Attribute, Call, Input, Operator, Output, Types, register, rule
from compiler.operators.types import same_shape

from .integers import STEP_AWAY

_SIGNED = Types("B", ("int8",))


@dataclass(frozen=True)
class SumQuantisation:
    """Scales and zero points of the operands and of the result, and the bytes that limit the result.

    ``exact``: results must be ONNX's; otherwise they may be off by one.
    """

    a_scale: float
    a_zero: int
    b_scale: float
    b_zero: int
    y_scale: float
    y_zero: int
    low: int
    high: int
    exact: bool = True


def sum_quantisation(call: Call) -> SumQuantisation:
    """Return the scales and zero points of an Int8Sum."""
    whole = (call.integer(name) for name in ("a_zero", "b_zero", "y_zero", "low", "high"))
    a_zero, b_zero, y_zero, low, high = whole
    a_scale, b_scale, y_scale = (call.number(name) for name in ("a_scale", "b_scale", "y_scale"))
    exact = bool(call.integer("exact"))
    return SumQuantisation(a_scale, a_zero, b_scale, b_zero, y_scale, y_zero, low, high, exact)


def summed_bytes(how: SumQuantisation, a: Array, b: Array) -> Array:
    """Add bytes, each step in binary32 as ONNX says, rounded to even and limited.

    ``a`` and ``b`` are integers of shapes that broadcast; the result is int8.
    """
    left = (a.astype(np.float32) - np.float32(how.a_zero)) * np.float32(how.a_scale)
    right = (b.astype(np.float32) - np.float32(how.b_zero)) * np.float32(how.b_scale)
    with np.errstate(over="ignore"):
        whole = np.rint((left + right) / np.float32(how.y_scale)).astype(np.float64) + how.y_zero
    return np.clip(whole, how.low, how.high).astype(np.int8)


@rule
def _of_one_shape(call: Call) -> str | None:
    """A and B must have the same shape"""
    a, b = call.shape(0), call.shape(1)
    return None if a == b else f"{list(a)} and {list(b)}"


_SCALE = ("a_scale", "b_scale", "y_scale")
register(
    Operator(
        name="Int8Sum",
        since=1,
        summary="Sum of two tensors of bytes, each with its scale and zero point, as bytes of a third scale",
        inputs=(Input("A", _SIGNED), Input("B", _SIGNED)),
        outputs=(Output("Y", _SIGNED),),
        attributes=(
            *(Attribute(name, "float", required=True, factor=True) for name in _SCALE),
            *(Attribute(name, "int", 0) for name in ("a_zero", "b_zero", "y_zero")),
            Attribute("low", "int", -128),
            Attribute("high", "int", 127),
            STEP_AWAY,
        ),
        rules=(_of_one_shape,),
        shapes=same_shape,
        reference=lambda call, a, b: (summed_bytes(sum_quantisation(call), a, b),),
        needs=elementwise,
        internal=True,
    )
)
