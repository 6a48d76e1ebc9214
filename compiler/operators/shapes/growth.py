"""Append: writes rows into a cache with room for more, after the rows that it has.

A state that grows from run to run is kept so (``compiler/evaluation/sizes/growth.py``).
"""

from __future__ import annotations

from compiler.graph import Array, Box, Shape
from compiler.operators.record import Attribute, Call, Input, Operator, Output, register, rule
from compiler.operators.types import ANY, axis_from_front, axis_in_range

APPEND = "Append"


@rule
def rows_have_room(call: Call) -> str | None:
    """rows must have the extents of the cache along all axes but one, and fit there after position at"""
    cache, rows = call.shape(0), call.shape(1)
    axis, at = axis_from_front(call.integer("axis"), len(cache)), call.integer("at")
    fits = len(rows) == len(cache) and cache[:axis] == rows[:axis] and cache[axis + 1 :] == rows[axis + 1 :]
    return None if fits and at + rows[axis] <= cache[axis] else f"{list(rows)} at {at} of {list(cache)}"


def _shape(call: Call) -> tuple[Shape, ...]:
    return (call.shape(0),)


def _append(call: Call, cache: Array, rows: Array) -> tuple[Array, ...]:
    axis, at = axis_from_front(call.integer("axis"), cache.ndim), call.integer("at")
    found = cache.copy()
    found[(*(slice(None),) * axis, slice(at, at + rows.shape[axis]))] = rows
    return (found,)


def _needs(call: Call, number: int, box: Box) -> tuple[Box, ...]:
    """Return the boxes: along the axis any place may be written; along the other axes the places agree."""
    axis = axis_from_front(call.integer("axis"), call.tensor(0).rank)
    return box, box.along(axis, 0, call.shape(1)[axis])


register(
    Operator(
        name=APPEND,
        since=1,
        summary="A cache with rows written from place at of an axis on",
        inputs=(Input("cache", ANY), Input("rows", ANY)),
        outputs=(Output("present", ANY),),
        attributes=(
            Attribute("axis", "int", required=True),
            Attribute("at", "int", required=True, minimum=0),
        ),
        rules=(axis_in_range, rows_have_room),
        shapes=_shape,
        reference=_append,
        moves=True,
        needs=_needs,
        internal=True,
    )
)
