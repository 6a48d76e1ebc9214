"""Upsampling by whole factors: every position several times, or with zeros after it."""

from __future__ import annotations

import numpy as np

from compiler.graph import Array, Box, Shape
from compiler.operators.record import Attribute, Call, Input, Operator, Output, register
from compiler.operators.types import FLOAT, rank_within

MOST_TIMES = 64
"""Largest factor, which one instruction applies."""


def _shape(call: Call) -> tuple[Shape, ...]:
    batch, channels, *image = call.shape(0)
    return ((batch, channels, *(size * often for size, often in zip(image, _times(call), strict=True))),)


def _times(call: Call) -> tuple[int, ...]:
    return call.integers("times") or ()


def _repeated(call: Call, x: Array) -> tuple[Array, ...]:
    for axis, often in enumerate(_times(call), 2):
        x = np.repeat(x, often, axis)
    return (x,)


def _with_zeros(call: Call, x: Array) -> tuple[Array, ...]:
    (shape,) = _shape(call)
    made = np.zeros(shape, x.dtype)
    made[:, :, *(slice(None, None, often) for often in _times(call))] = x
    return (made,)


def _needs(call: Call, number: int, box: Box) -> tuple[Box, ...]:
    axes = zip(box.intervals[2:], _times(call), strict=True)
    image = ((begin // often, -(-end // often)) for (begin, end), often in axes)
    return (Box((*box.intervals[:2], *image)),)


for _name, _summary, _reference in (
    ("Repeat", "Every position of an image several times along each spatial axis", _repeated),
    ("InsertZeros", "Every position of an image with zeros after it along each spatial axis", _with_zeros),
):
    register(
        Operator(
            name=_name,
            since=1,
            summary=_summary,
            inputs=(Input("X", FLOAT),),
            outputs=(Output("Y", FLOAT),),
            attributes=(Attribute("times", "ints", required=True),),
            rules=(rank_within("X", 3, 4, "[N, C, L] or [N, C, H, W]"),),
            shapes=_shape,
            reference=_reference,
            needs=_needs,
            moves=True,
            internal=True,
        )
    )
