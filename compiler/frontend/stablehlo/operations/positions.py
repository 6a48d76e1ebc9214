"""Indices of gathers and scatters: their parts, bounds, and positions in a flattened tensor."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from compiler.frontend.onnx.partial import Unsupported
from compiler.frontend.stablehlo.site import Site, Value
from compiler.graph import Shape


def index_parts(site: Site, indices: Value, vector_axis: int, count: int) -> list[Value]:
    """Return the numbers of an index, each for all indices: the axis that holds them is removed."""
    if not 0 <= vector_axis <= indices.rank:
        raise Unsupported(f"index_vector_dim {vector_axis} is not an axis of {list(indices.shape)}")
    if vector_axis == indices.rank:
        indices = site.reshape(indices, *indices.shape, 1)
    if indices.shape[vector_axis] != count:
        raise Unsupported(f"indices have {indices.shape[vector_axis]} numbers; {count} axes are indexed")
    indices = as_index(site, indices)
    shape = tuple(extent for axis, extent in enumerate(indices.shape) if axis != vector_axis)
    return [site.reshape(part(site, indices, vector_axis, at), *shape) for at in range(count)]


def as_index(site: Site, value: Value) -> Value:
    """Convert integers to a type that operators take as indices."""
    return value if site.type_of(value) in ("int32", "int64") else site.cast(value, "int32")


def part(site: Site, value: Value, axis: int, at: int) -> Value:
    """Return one element along an axis, which stays."""
    starts, ends = [0] * value.rank, list(value.shape)
    starts[axis], ends[axis] = at, at + 1
    return site.slice(value, starts, ends)


def clamped(site: Site, index: Value, most: int) -> Value:
    """Limit indices to 0 to ``most``, as StableHLO does for indices outside the tensor."""
    known = site.known(index)
    if known is not None:
        return site.constant(np.clip(known, 0, most).astype(known.dtype))
    return site.pointwise("Clip", index, site.number(0, index), site.number(most, index))


def within(site: Site, index: Value, most: int) -> Value:
    """Return truth values: True for indices in 0 to ``most``."""
    above = site.pointwise("GreaterOrEqual", index, site.number(0, index))
    return site.pointwise("And", above, site.pointwise("LessOrEqual", index, site.number(most, index)))


def counted(site: Site, index: Value, extent: int) -> Value:
    """Return the ``extent`` positions that begin at each index, along a new last axis."""
    line = site.cast(site.constant(np.arange(extent, dtype=np.int32)), site.type_of(index))
    return site.pointwise("Add", site.reshape(index, *index.shape, 1), line)


def flat_positions(site: Site, shape: Shape, starts: Sequence[Value], sizes: Sequence[int]) -> Value:
    """Return the positions, in the flattened tensor of ``shape``, of the elements of slices.

    ``starts``: the beginning of the slices along each axis, values of one shape. ``sizes``: the extents of
    the slices. The axes of the result are those of the starts, then those of a slice.
    """
    batch = starts[0].shape
    where: Value | None = None
    for axis, (start, size) in enumerate(zip(starts, sizes, strict=True)):
        step = math.prod(shape[axis + 1 :])
        inside = (1,) * axis + (size,) + (1,) * (len(shape) - 1 - axis)
        line = site.constant(np.arange(size, dtype=np.int64).reshape(inside))
        begin = site.reshape(site.cast(start, "int64"), *batch, *(1,) * len(shape))
        term = site.pointwise("Mul", site.pointwise("Add", begin, line), site.number(step, begin))
        where = term if where is None else site.pointwise("Add", where, term)
    if where is None:
        raise Unsupported("indexes a scalar")
    return Value(where.name, (*batch, *sizes))


def zeros(site: Site, shape: Shape) -> Value:
    """Return indices 0 of a shape."""
    return Value(site.constant(np.array(0, np.int64)).name, shape)


def along(site: Site, axis: int, shape: Shape) -> Value:
    """Return, for each element of a shape, its position along an axis."""
    line = np.arange(shape[axis], dtype=np.int64).reshape(-1, *(1,) * (len(shape) - 1 - axis))
    return Value(site.constant(line).name, shape)
