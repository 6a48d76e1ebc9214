"""Sums of bytes in FP32, in few instructions, with ONNX's result for every pair of bytes.

ONNX subtracts zero points, multiplies, adds, divides and rounds. A sum takes half of the time if the operands
are multiplied by quotients of the scales and one number, which contains the zero points, is added last. That
rounds differently, so it is used only after all 65,536 pairs of bytes have been computed by both methods.
Where pairs differ, numbers a unit in the last place away are tried.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

import numpy as np

from compiler.codegen.expr import Value
from compiler.codegen.slices.vector import Vector
from compiler.dialect.orders import Order
from compiler.graph import Array
from compiler.lowering.record import Engine, lowering
from compiler.operators.quantised.sums import SumQuantisation, sum_quantisation, summed_bytes
from compiler.operators.record import Call

from .quantisation import round_and_shift
from .record import Operand, Pointwise, SliceVector, define
from .single import lower_single

_BYTES = np.arange(-128, 128)
_UNITS = (0, 1, -1, 2, -2, 3, -3)
"""Changes of a factor that are tried, in units in the last place."""


@dataclass(frozen=True)
class SumFactors:
    """Binary32 numbers such that ``a * left + b * right + last``, rounded and limited, is the sum."""

    left: float
    right: float
    last: float

    def bytes_of(self, how: SumQuantisation, a: Array, b: Array) -> Array:
        """The sum of bytes as the vector engine computes it with these numbers."""
        left, right, last = (np.float32(number) for number in (self.left, self.right, self.last))
        total = (a.astype(np.float32) * left + b.astype(np.float32) * right) + last
        return np.clip(np.rint(total), how.low, how.high).astype(np.int8)


@lru_cache(maxsize=1024)
def sum_factors(how: SumQuantisation) -> SumFactors | None:
    """Numbers with which every pair of bytes has ONNX's sum; None if none were found."""
    a, b = _BYTES[:, None], _BYTES[None, :]
    want = summed_bytes(how, a, b)
    return next((each for each in _candidates(how) if (each.bytes_of(how, a, b) == want).all()), None)


def _candidates(how: SumQuantisation) -> Iterator[SumFactors]:
    quotients = [np.float32(scale / how.y_scale) for scale in (how.a_scale, how.b_scale)]
    if not all(np.isfinite(each) and each > 0 for each in quotients):
        return
    for steps in sorted(product(_UNITS[:5], _UNITS[:5], _UNITS), key=lambda each: sum(map(abs, each))):
        left, right = (
            float(each + step * np.spacing(each)) for each, step in zip(quotients, steps[:2], strict=True)
        )
        last = np.float32(how.y_zero - how.a_zero * left - how.b_zero * right)
        yield SumFactors(left, right, float(last + steps[2] * np.spacing(last)))


def add_bytes(vector: Vector, how: SumQuantisation, a: Value, b: Value) -> None:
    """a = the sum of bytes ``a`` and ``b``, given in FP32 and overwritten; the sum is in FP32.

    It may have a fraction, or exceed the range of bytes; the conversion to bytes rounds and limits it.
    """
    factors = sum_factors(how)
    if factors is None:
        _add_exactly(vector, how, a, b)
    else:
        vector.vs("mul", a, a, factors.left)
        vector.vs("mul", b, b, factors.right)
        vector.vv("add", a, a, b)
        vector.vs("add", a, a, factors.last)
    if how.low > _BYTES[0]:
        vector.vs("max", a, a, how.low)
    if how.high < _BYTES[-1]:
        vector.vs("min", a, a, how.high)


def _add_exactly(vector: Vector, how: SumQuantisation, a: Value, b: Value) -> None:
    """The steps of ONNX."""
    for data, zero, scale in ((a, how.a_zero, how.a_scale), (b, how.b_zero, how.b_scale)):
        if zero:
            vector.vs("sub", data, data, zero)
        vector.vs("mul", data, data, scale)
    vector.vv("add", a, a, b)
    vector.vs("div", a, a, how.y_scale)
    round_and_shift(vector, a, how.y_zero)


def _sum(vector: SliceVector, operands: list[Operand], call: Call) -> Value:
    a, b = (vector.writable(operand) for operand in operands)
    add_bytes(vector, sum_quantisation(call), a, b)
    return a


define(Pointwise("Int8Sum", _sum, temporaries=2, wide=True, of_bytes=True, alone=True))
lowering("Int8Sum", order=Order.FOLLOW, types=("int8",), engines=(Engine.VECTOR,), stage=True)(lower_single)
