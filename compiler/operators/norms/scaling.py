"""Division by a norm: over an axis, or over neighbouring channels."""

from __future__ import annotations

import numpy as np

from compiler.operators.boxes.forms import beside_axis
from compiler.operators.expansion.builder import Builder
from compiler.operators.expansion.composite import composite
from compiler.operators.expansion.parts import swapped
from compiler.operators.record import Attribute, Call, Input, Output, rule
from compiler.operators.types import FLOAT, axis_in_range, rank_within


def _lp_normalization(build: Builder, call: Call) -> tuple[str, ...]:
    x, axes = call.name(0), (call.integer("axis"),)
    op = "ReduceL1" if call.integer("p") == 1 else "ReduceL2"
    norm = build(op, x, axes=axes)
    is_zero = build("Equal", norm, build.like(norm, 0))
    return (build("Where", is_zero, build.like(x, 0), build("Div", x, norm)),)


composite(
    name="LpNormalization",
    since=1,
    summary="The operand divided by its L1 or L2 norm along an axis; 0 where that is 0",
    inputs=(Input("input", FLOAT),),
    outputs=(Output("output", FLOAT),),
    expansion=_lp_normalization,
    attributes=(Attribute("axis", "int", -1), Attribute("p", "int", 2, allowed=(1, 2))),
    rules=(axis_in_range,),
    uniform=beside_axis,
)


@rule
def channels_are_few(call: Call) -> str | None:
    """There must be at most 8192 channels: which ones are neighbours is a matrix"""
    return None if call.shape(0)[1] <= 8192 else f"X {list(call.shape(0))}"


def _lrn(build: Builder, call: Call) -> tuple[str, ...]:
    """Expand LRN: the sum of squares over neighbouring channels is a product with a band matrix."""
    x, shape, size = call.name(0), call.shape(0), call.integer("size")
    channels = np.arange(shape[1])
    distance = channels[:, None] - channels[None, :]
    band = (-((size - 1) // 2) <= distance) & (distance <= size - 1 - (size - 1) // 2)
    squares = swapped(build, build("Mul", x, x), 1)
    factor = call.number("alpha") / size
    total = swapped(build, build("MatMul", squares, build.constant(band * factor, build.dtype(x))), 1)
    base = build("Add", total, build.like(x, call.number("bias")))
    power = build("FloatPow", base, build.like(x, call.number("beta")))
    return (build("Div", x, power),)


composite(
    name="LRN",
    since=1,
    summary="The operand divided by a power of the sum of squares over neighbouring channels",
    inputs=(Input("X", FLOAT),),
    outputs=(Output("Y", FLOAT),),
    expansion=_lrn,
    attributes=(
        Attribute("alpha", "float", 1e-4),
        Attribute("beta", "float", 0.75),
        Attribute("bias", "float", 1.0),
        Attribute("size", "int", required=True, minimum=1),
    ),
    rules=(rank_within("X", 3, None, "[N, C, ...]"), channels_are_few),
)
