"""The axes of a reduction, and the shape of its result."""

from __future__ import annotations

from compiler.graph import Box, Shape
from compiler.operators.record import Call, rule
from compiler.operators.types import axis_from_front


def _given_axes(call: Call) -> tuple[int, ...]:
    """Return the axes from the attribute (of older operator sets) or the operand; empty if absent."""
    return call.integers("axes") or call.value_ints(1) or ()


def reduced_axes(call: Call) -> tuple[int, ...]:
    """Return the axes to reduce, ascending, counted from the front."""
    given, rank = _given_axes(call), call.tensor(0).rank
    if given:
        return tuple(sorted(axis_from_front(axis, rank) for axis in given))
    return () if call.attrs.get("noop_with_empty_axes") else tuple(range(rank))


@rule
def axes_valid(call: Call) -> str | None:
    """axes must lie in [-r, r-1], r being the rank of data, and must not repeat"""
    given, rank = _given_axes(call), call.tensor(0).rank
    distinct = {axis_from_front(axis, rank) for axis in given}
    if len(distinct) == len(given) and all(0 <= axis < rank for axis in distinct):
        return None
    return f"axes {list(given)} with r = {rank}"


@rule
def axes_is_vector(call: Call) -> str | None:
    """The operand axes must have rank 1"""
    return None if not call.has(1) or call.tensor(1).rank == 1 else f"shape {list(call.shape(1))}"


@rule
def something_to_average(call: Call) -> str | None:
    """The reduced axes must not be empty: no elements have no mean"""
    empty = [axis for axis in reduced_axes(call) if call.shape(0)[axis] == 0]
    return f"shape {list(call.shape(0))} over axis {empty[0]}" if empty else None


def reduced_shapes(call: Call) -> tuple[Shape, ...]:
    """Return the shape of the only output."""
    axes, keep = reduced_axes(call), call.integer("keepdims")
    sizes = enumerate(call.shape(0))
    return (tuple(1 if axis in axes else size for axis, size in sizes if keep or axis not in axes),)


def reduction_needs(call: Call, number: int, box: Box) -> tuple[Box, ...]:
    """Return the boxes with all elements of the reduced axes."""
    axes, kept = reduced_axes(call), iter(box.intervals)
    intervals = []
    for axis, size in enumerate(call.shape(0)):
        own = next(kept) if call.integer("keepdims") or axis not in axes else (0, 0)
        intervals.append((0, size) if axis in axes else own)
    return (Box(tuple(intervals)),)
