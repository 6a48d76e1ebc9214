"""Running sums and products along an axis."""

from __future__ import annotations

import math

import numpy as np

from compiler.graph import FLOATS, Array, Box, Shape
from compiler.operators.expansion.builder import Builder
from compiler.operators.expansion.composite import composite
from compiler.operators.expansion.parts import sliced
from compiler.operators.record import (
    Attribute,
    Call,
    Expansion,
    Input,
    Operator,
    Output,
    Types,
    register,
    rule,
)
from compiler.operators.types import FLOAT, INDEX, axis_from_front, axis_of

_LONGEST_LANE = 1 << 15
"""Number of elements up to which a single tile with its lanes is faster than steps on all tiles."""


def _summed_in_lanes(shape: Shape, axis: int) -> bool:
    """Return True unless there is a single long lane."""
    return shape[axis] <= _LONGEST_LANE or math.prod(shape) > shape[axis]


def _running_sum(call: Call, x: Array) -> tuple[Array, ...]:
    axis, reverse = axis_of(call), call.integer("reverse")
    x = np.flip(x, axis) if reverse else x
    sums = np.cumsum(x, axis)
    if call.integer("exclusive"):
        sums = np.roll(sums, 1, axis)
        sums[(slice(None),) * axis + (0,)] = 0
    return (np.ascontiguousarray(np.flip(sums, axis) if reverse else sums),)


def _needs_of_sum(call: Call, number: int, box: Box) -> tuple[Box, ...]:
    """Return the elements up to the end of the box, or from its begin."""
    axis, intervals = axis_of(call), list(box.intervals)
    first, end = intervals[axis]
    intervals[axis] = (first, call.shape(0)[axis]) if call.integer("reverse") else (0, end)
    return (Box(tuple(intervals)),)


register(
    Operator(
        name="RunningSum",
        since=1,
        summary="Sum of the elements so far along an axis, in FP32",
        inputs=(Input("X", FLOAT),),
        outputs=(Output("Y", FLOAT),),
        attributes=(
            Attribute("axis", "int", -1),
            Attribute("exclusive", "int", 0),
            Attribute("reverse", "int", 0),
        ),
        shapes=lambda call: (call.shape(0),),
        reference=_running_sum,
        needs=_needs_of_sum,
        internal=True,
    )
)


def _running(op: str, neutral: int) -> Expansion:
    def expansion(build: Builder, call: Call) -> tuple[str, ...]:
        """Expand by doubling: after n steps each element is combined with the 2**n - 1 elements before it."""
        x, rank = call.name(0), call.tensor(0).rank
        axis = axis_from_front((call.value_ints(1) or (0,))[0], rank)
        size, reverse = call.shape(0)[axis], bool(call.integer("reverse"))
        if reverse:
            x = _reversed(build, x, axis)
        if call.integer("exclusive"):
            x = _moved(build, x, axis, 1, neutral)
        shift = 1
        while shift < size:
            x = build(op, x, _moved(build, x, axis, shift, neutral))
            shift *= 2
        return (_reversed(build, x, axis) if reverse else x,)

    return expansion


_sum_by_doubling = _running("Add", 0)


def _sum(build: Builder, call: Call) -> tuple[str, ...] | None:
    axis = axis_from_front((call.value_ints(1) or (0,))[0], call.tensor(0).rank)
    if not call.tensor(0).is_float or not _summed_in_lanes(call.shape(0), axis):
        return _sum_by_doubling(build, call)
    flags = {name: call.integer(name) for name in ("exclusive", "reverse")}
    return (build("RunningSum", call.name(0), axis=axis, **flags),)


def _reversed(build: Builder, value: str, axis: int) -> str:
    size = build.shape(value)[axis]
    return sliced(build, value, axis, size - 1, -size - 1, -1)


def _moved(build: Builder, value: str, axis: int, shift: int, fill: int) -> str:
    """Shift every element by ``shift`` positions; the first positions hold ``fill``."""
    shape = list(build.shape(value))
    size, shape[axis] = shape[axis], shift
    start = build.constant(np.full(shape, fill), build.dtype(value))
    return build("Concat", start, sliced(build, value, axis, 0, size - shift), axis=axis)


@rule
def cumulated_axis_in_range(call: Call) -> str | None:
    """axis must be one number in [-r, r-1], r being the rank of x"""
    axes, rank = call.value_ints(1) or (), call.tensor(0).rank
    return None if len(axes) == 1 and -rank <= axes[0] < rank else f"axis {list(axes)} with r = {rank}"


_ADDED = Types("T", (*FLOATS, "int32", "uint32", "int64"))


def _register(name: str, since: int, summary: str, expansion: Expansion) -> None:
    composite(
        name=name,
        since=since,
        summary=summary,
        inputs=(Input("x", _ADDED), Input("axis", INDEX.named("T2"), constant=True)),
        outputs=(Output("y", _ADDED),),
        expansion=expansion,
        attributes=(
            Attribute("exclusive", "int", 0, allowed=(0, 1)),
            Attribute("reverse", "int", 0, allowed=(0, 1)),
        ),
        rules=(cumulated_axis_in_range,),
    )


_register("CumSum", 11, "Sum of the elements so far along an axis", _sum)
_register("CumProd", 26, "Product of the elements so far along an axis", _running("Mul", 1))
