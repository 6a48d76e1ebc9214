"""Rules for the parts of operands, shared by several families of operators."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from compiler.graph import Array, Box, Shape
from compiler.operators.record import Call
from compiler.operators.types import axis_of


def broadcast_from(shape: Shape, box: Box) -> Box:
    """Return the part of an operand that is broadcast to a box, aligned at the last axis."""
    first = len(box.intervals) - len(shape)
    own = zip(shape, box.intervals[first:], strict=True)
    return Box(tuple((0, 1) if size == 1 else interval for size, interval in own))


def elementwise(call: Call, number: int, box: Box) -> tuple[Box | None, ...]:
    """Return the elements at the same places of every operand, broadcast to the results' shape."""
    return tuple(None if item is None else broadcast_from(item.shape, box) for item in call.inputs)


def of_first_operand(call: Call, number: int, box: Box) -> tuple[Box | None, ...]:
    """Return the elements at the same places of the first operand only."""
    return (broadcast_from(call.shape(0), box),)


def whole_along(box: Box, shape: Shape, axes: Collection[int]) -> Box:
    """Return the box extended to all elements of a shape along some axes."""
    axes_of_box = enumerate(zip(box.intervals, shape, strict=True))
    return Box(tuple((0, size) if axis in axes else own for axis, (own, size) in axes_of_box))


def span_of(chosen: Array | None, size: int) -> tuple[int, int]:
    """Return the interval that holds the chosen elements of an axis; the whole axis if they are not known.

    Negative indices count from the end.
    """
    if chosen is None or not chosen.size:
        return 0, size
    places = np.where(chosen < 0, chosen + size, chosen)
    return int(places.min()), int(places.max()) + 1


# --- along which axes operators do the same everywhere (:data:`compiler.operators.record.Uniform`) -------


def everywhere(call: Call, axis: int) -> bool:
    """Return True: along every axis."""
    return True


def of_batch(call: Call, axis: int) -> bool:
    """Return the first axis, for an operator whose attributes describe the other axes."""
    return axis == 0


def of_channels(call: Call, axis: int) -> bool:
    """Return True for the first two axes, batch and channels."""
    return axis < 2


def beside_axis(call: Call, axis: int) -> bool:
    """Return True for all axes except the one in the attribute ``axis``."""
    return axis != axis_of(call)
