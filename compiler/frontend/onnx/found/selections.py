"""Nodes that find places: NonZero, Compress, TopK, Unique."""

from __future__ import annotations

import math

import numpy as np

from compiler.frontend.onnx.model import plain
from compiler.frontend.onnx.partial import Unsupported

from .site import FoundSite


def non_zero(site: FoundSite) -> None:
    """Find the places of true elements, unravelled into an index for each axis."""
    name = site.operand(0)
    shape = site.graph.tensor(name).shape or (1,)
    places, count, _ = site.true_elements(name)
    strides = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
    row = site.place("Unsqueeze", places, site.ints(0))
    if len(shape) > 1:
        row = site.place("Div", row, site.graph.constant(np.array(strides).reshape(-1, 1)))
        row = site.place("Mod", row, site.graph.constant(np.array(shape).reshape(-1, 1)))
    site.finish([row], [{1: count}], places=True)


def compress(site: FoundSite) -> None:
    """Select slices of the data at the places where the condition is true."""
    data, condition = site.operand(0), site.operand(1)
    axis = plain(site.node, "axis", 0)
    if not any(item.name == "axis" for item in site.node.attribute):
        if site.counts(data):
            raise site.refuse(data, min(site.counts(data)), "Compress without an axis needs all sizes")
        data = site.place("Reshape", data, site.ints(-1))
    shape = site.graph.tensor(data).shape
    assert isinstance(axis, int)
    if not -len(shape) <= axis < len(shape) or site.graph.tensor(condition).rank != 1:
        raise Unsupported(
            f"axis {axis} of {list(shape)}, condition {list(site.graph.tensor(condition).shape)}"
        )
    axis, length = axis % len(shape), site.graph.tensor(condition).shape[0]
    if length > shape[axis]:
        raise Unsupported(f"its condition has {length} elements; axis {axis} has {shape[axis]}")
    others = dict(site.counts(data))
    known = site.graph.value(condition)
    if known is not None and axis not in others:
        indices = site.graph.constant(np.flatnonzero(known))
        site.finish([site.place("Gather", data, indices, axis=axis)], [others])
        return
    own = others.pop(axis, None)
    if own is not None:  # elements after the end of the data are not chosen
        inside = site.place("Less", site.graph.constant(np.arange(length)), own)
        found = site.true_places(site.place("And", site.truths(condition), inside))
    else:
        found = site.true_elements(condition)
    places, count, _ = found
    site.finish([site.place("Gather", data, places, axis=axis)], [{**others, axis: count}])


def top_k(site: FoundSite) -> None:
    """Select the first k of all elements in order; a computed k is limited by the room."""
    data, axis = site.operand(0), plain(site.node, "axis", -1)
    shape, largest = site.graph.tensor(data).shape, plain(site.node, "largest", 1)
    assert isinstance(axis, int) and isinstance(largest, int)
    if not -len(shape) <= axis < len(shape):
        raise Unsupported(f"axis must lie in [-r, r-1]; found {axis} with r = {len(shape)}")
    axis %= len(shape)
    counts, known = dict(site.counts(data)), site.graph.value(site.operand(1))
    most, k = shape[axis], site.scalar(site.operand(1))
    own = counts.pop(axis, None)
    if known is not None and not 1 <= int(known.reshape(-1)[0]) <= most:
        raise Unsupported(f"K must be 1 to the size of the axis; found {int(known.reshape(-1)[0])} of {most}")
    what = f" is the k of node '{site.node.name}'; its axis has "
    k = site.internal("Bounded", k, *([] if own is None else [own]), most=most, what=what)
    room, k = site.bound(most if known is None else int(known.reshape(-1)[0]), k)
    ranked = site.filled(data, -math.inf if largest else math.inf, [axis]) if own is not None else data
    attrs = {"axis": axis, "largest": largest, "count": room}
    if any(math.prod(shape[:axis]) == 0 or size == 0 for size in shape):
        raise Unsupported(f"its operand '{data}' {list(shape)} has no elements")
    indices = site.internal("TopIndices", ranked, k, **attrs)
    site.graph.places.add(indices)
    if known is None:
        counts[axis] = k
    values = site.place("GatherElements", data, indices, axis=axis)
    site.finish([values, indices], [counts, counts])


def unique(site: FoundSite) -> None:
    """Sort the rows; a group of equal rows begins where a row differs from the one before."""
    name = site.operand(0)
    if site.counts(name):
        raise site.refuse(name, min(site.counts(name)), "Unique needs all elements")
    data, axis, rows = _rows(site, name)
    order = site.internal("RowOrder", rows)
    begins = _begins(site, rows, order)
    begin, count, counts = site.true_places(begins)
    size, room = site.graph.tensor(order).size, site.graph.tensor(begin).size
    ranks = site.internal("TrueRanks", begins, counts)
    number = site.graph.constant(np.arange(room))
    first = site.place("Gather", order, begin, axis=0)
    inverse = site.place("ScatterElements", site.graph.constant(np.zeros(size, np.int64)), order, ranks)
    last = site.place("Less", site.graph.constant(np.arange(1, room + 1)), count)
    end = site.graph.constant(np.array([size]))
    after = site.place("Concat", site.place("Slice", begin, site.ints(1), site.ints(room)), end, axis=0)
    repeated = site.place("Sub", site.place("Where", last, after, end), begin)
    if not plain(site.node, "sorted", 1):
        key = site.place("Where", site.place("Less", number, count), first, end)
        again = site.internal("RowOrder", site.place("Reshape", key, site.ints(-1, 1)))
        first, repeated = (site.place("Gather", each, again, axis=0) for each in (first, repeated))
        zeros = site.graph.constant(np.zeros(room, np.int64))
        inverse = site.place("Gather", site.place("ScatterElements", zeros, again, number), inverse, axis=0)
    site.graph.places |= {first, inverse}
    results = [site.place("Gather", data, first, axis=axis), first, inverse, repeated]
    extents = [{axis: count}, {0: count}, {}, {0: count}]
    wanted = len(site.node.output)
    site.finish(results[:wanted], extents[:wanted])


def _rows(site: FoundSite, name: str) -> tuple[str, int, str]:
    """Return the data of a Unique, the axis along which slices are compared, and a matrix whose rows are
    these slices."""
    if not any(item.name == "axis" for item in site.node.attribute):
        data = site.place("Reshape", name, site.ints(-1))
        return data, 0, site.place("Reshape", data, site.ints(-1, 1))
    axis, shape = plain(site.node, "axis", 0), site.graph.tensor(name).shape
    assert isinstance(axis, int)
    if not -len(shape) <= axis < len(shape):
        raise Unsupported(f"axis must lie in [-r, r-1]; found {axis} with r = {len(shape)}")
    axis %= len(shape)
    rows = name
    if axis:
        order = [axis, *(at for at in range(len(shape)) if at != axis)]
        rows = site.place("Transpose", name, perm=order)
    return name, axis, site.place("Reshape", rows, site.ints(shape[axis], -1))


def _begins(site: FoundSite, rows: str, order: str) -> str:
    """Return truth values: True where a row of the sorted rows is the first of its kind."""
    count = site.graph.tensor(order).size
    first = site.graph.constant(np.ones(1, np.bool_))
    if count == 1:
        return site.place("And", first, site.place("Equal", order, order))
    ordered = site.place("Gather", rows, order, axis=0)
    if site.graph.tensor(rows).dtype == "bool":
        ordered = site.place("Cast", ordered, to=6)
    zero, axis = site.ints(0), site.ints(0)
    after = site.place("Slice", ordered, site.ints(1), site.ints(count), axis)
    before = site.place("Slice", ordered, zero, site.ints(count - 1), axis)
    differ = site.place("Cast", site.place("Not", site.place("Equal", after, before)), to=1)
    any_differs = site.place("Cast", site.place("ReduceMax", differ, site.ints(1), keepdims=0), to=9)
    return site.place("Concat", first, any_differs, axis=0)
