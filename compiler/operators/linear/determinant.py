"""Determinants."""

from __future__ import annotations

import math

import numpy as np

from compiler.graph import FLOATS
from compiler.operators.expansion.builder import Builder
from compiler.operators.expansion.composite import composite
from compiler.operators.expansion.parts import reshaped, sliced
from compiler.operators.record import Call, Input, Output, Types, rule
from compiler.operators.types import rank_within

MOST_ROWS = 64
"""The most rows. Each is a written-out step of the elimination, so more would be too much code."""


def _det(build: Builder, call: Call) -> tuple[str, ...]:
    """Expand by Gaussian elimination, with the largest element of the column as pivot."""
    *batch, rows, _ = call.shape(0)
    x = reshaped(build, call.name(0), math.prod(batch), rows, rows)
    result = build.constant(np.ones((math.prod(batch), 1, 1)), build.dtype(x))
    for size in range(rows, 1, -1):
        column = sliced(build, x, 2, 0, 1)
        pivot_index = build("TopIndices", build("Abs", column), axis=1, count=1)
        is_first = build("Equal", pivot_index, build.constant(np.array(0), "int64"))
        is_pivot = build("Equal", build.constant(np.arange(size).reshape(size, 1), "int64"), pivot_index)
        pivot_row = build("ReduceSum", build("Where", is_pivot, x, build.like(x, 0)), axes=(1,))
        pivot = sliced(build, pivot_row, 2, 0, 1)
        result = build("Mul", result, build("Where", is_first, pivot, build("Neg", pivot)))
        rest = sliced(build, build("Where", is_pivot, sliced(build, x, 1, 0, 1), x), 1, 1, size)
        divisor = build("Where", build("Equal", pivot, build.like(pivot, 0)), build.like(pivot, 1), pivot)
        factors = build("Div", sliced(build, rest, 2, 0, 1), divisor)
        below = sliced(build, rest, 2, 1, size)
        x = build("Sub", below, build("Mul", factors, sliced(build, pivot_row, 2, 1, size)))
    return (reshaped(build, build("Mul", result, x), *batch),)


@rule
def square_matrices(call: Call) -> str | None:
    """The last two axes must be equal, 1 to 64"""
    shape = call.shape(0)
    return None if shape[-1] == shape[-2] and 1 <= shape[-1] <= MOST_ROWS else f"shape {list(shape)}"


composite(
    name="Det",
    since=11,
    summary="Determinants of square matrices",
    inputs=(Input("X", Types("T", FLOATS)),),
    outputs=(Output("Y", Types("T", FLOATS)),),
    expansion=_det,
    rules=(rank_within("X", 2, None, "matrices"), square_matrices),
    precise=True,
)
