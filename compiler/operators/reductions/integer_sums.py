"""Sums of integers along axes of dynamic length.

ReduceSum adds integers by halves, which needs different nodes for each length. Here the kernel core adds them
one after another. This serves masks that grow along with a state and are summed
(``compiler/evaluation/sizes/growth.py``).
"""

from __future__ import annotations

import numpy as np

from compiler.graph import Array, Box, Shape
from compiler.operators.expansion.builder import Builder
from compiler.operators.expansion.parts import reshaped
from compiler.operators.record import Attribute, Call, Input, Operator, Output, register
from compiler.operators.types import INDEX, axis_in_range, axis_of

from .axes import reduced_axes, reduced_shapes

INTEGER_SUM = "IntegerSum"


def _shape(call: Call) -> tuple[Shape, ...]:
    shape = list(call.shape(0))
    shape[axis_of(call)] = 1
    return (tuple(shape),)


def _sum(call: Call, x: Array) -> tuple[Array, ...]:
    return (np.sum(x, axis_of(call), dtype=x.dtype, keepdims=True),)


def _needs(call: Call, number: int, box: Box) -> tuple[Box, ...]:
    axis = axis_of(call)
    return (box.along(axis, 0, call.shape(0)[axis]),)


register(
    Operator(
        name=INTEGER_SUM,
        since=1,
        summary="Sum of integers along an axis of any length, which keeps one element",
        inputs=(Input("X", INDEX),),
        outputs=(Output("sum", INDEX),),
        attributes=(Attribute("axis", "int", required=True),),
        rules=(axis_in_range,),
        shapes=_shape,
        reference=_sum,
        needs=_needs,
        internal=True,
    )
)


def sum_of_any_length(build: Builder, call: Call) -> tuple[str, ...]:
    """Expand ReduceSum of integers to the same nodes for all lengths."""
    x, axes = call.name(0), reduced_axes(call)
    for axis in axes:
        x = build(INTEGER_SUM, x, axis=axis)
    return (x if call.integer("keepdims") or not axes else reshaped(build, x, *reduced_shapes(call)[0]),)
