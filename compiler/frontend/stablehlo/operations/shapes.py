"""Operations that make, move and cut elements: constants, broadcasts, transposes, slices, margins."""

from __future__ import annotations

import math

import numpy as np

from compiler.frontend.onnx.partial import Unsupported, hold
from compiler.frontend.stablehlo.attributes import dense, numpy_type
from compiler.frontend.stablehlo.site import Rewriter, Site, Value
from compiler.graph import Array


def _constant(site: Site) -> Value:
    """Add a constant; one of equal elements is held as one number."""
    array = dense(site.attributes.get("value"))
    if array.size and _is_splat(array):
        return Value(site.constant(array.reshape(-1)[0].reshape(())).name, array.shape)
    return site.constant(array)


def _is_splat(array: Array) -> bool:
    """Return True if all elements have the same bits."""
    size = array.dtype.itemsize
    cells = np.ascontiguousarray(array).reshape(-1).view(np.uint8).reshape(-1, size)
    return bool((cells == cells[0]).all())


def _iota(site: Site) -> Value:
    axis, shape, dtype = site.integer("iota_dimension"), site.shape, numpy_type(site.dtype)
    if not 0 <= axis < len(shape):
        raise Unsupported(f"iota_dimension {axis} is not an axis of {list(shape)}")
    hold(site.graph.budget, shape[axis] * dtype.itemsize, 8 * shape[axis])
    counted = np.arange(shape[axis]).astype(dtype)
    line = site.constant(counted.reshape(-1, *(1,) * (len(shape) - 1 - axis)))
    return Value(line.name, shape)


def _broadcast_in_dim(site: Site) -> Value:
    x, shape = site.operand(0), site.shape
    axes = site.integers("broadcast_dimensions")
    if len(axes) != x.rank or len(set(axes)) != len(axes) or any(not 0 <= at < len(shape) for at in axes):
        raise Unsupported(f"broadcast_dimensions {list(axes)} do not place {x.rank} axes in {len(shape)}")
    order = sorted(range(x.rank), key=axes.__getitem__)
    moved = site.transpose(x, *order)
    extents = [1] * len(shape)
    for axis, held, extent in zip(sorted(axes), site.short(moved), moved.shape, strict=True):
        if extent not in (1, shape[axis]):
            raise Unsupported(f"an axis of {extent} elements cannot be repeated to {shape[axis]}")
        extents[axis] = held
    while extents and extents[0] == 1:
        del extents[0]
    return Value(site.held_as(moved, *extents).name, shape)


def _reshape(site: Site) -> Value:
    x = site.operand(0)
    if math.prod(x.shape) != math.prod(site.shape):
        raise Unsupported(f"{list(x.shape)} and {list(site.shape)} have different numbers of elements")
    return site.reshape(x, *site.shape)


def _transpose(site: Site) -> Value:
    return site.transpose(site.operand(0), *site.integers("permutation"))


def _reverse(site: Site) -> Value:
    return site.mirror(site.operand(0), site.integers("dimensions"))


def _slice(site: Site) -> Value:
    bounds = [site.integers(name) for name in ("start_indices", "limit_indices", "strides")]
    if any(len(numbers) != site.operand(0).rank for numbers in bounds):
        raise Unsupported(f"needs bounds for {site.operand(0).rank} axes")
    return site.slice(site.operand(0), *bounds)


def _concatenate(site: Site) -> Value:
    return site.concat(site.operands, site.integer("dimension"))


def _pad(site: Site) -> Value:
    x, fill = site.operand(0), site.operand(1)
    low, high, interior = (site.integers(f"{name}") for name in _PADDINGS)
    if any(gap < 0 for gap in interior):
        raise Unsupported(f"interior_padding must not be negative; found {list(interior)}")
    return site.pad(site.spread(x, interior, fill), low, high, fill)


_PADDINGS = ("edge_padding_low", "edge_padding_high", "interior_padding")

REWRITES: dict[str, Rewriter] = {
    "stablehlo.constant": _constant,
    "stablehlo.iota": _iota,
    "stablehlo.broadcast_in_dim": _broadcast_in_dim,
    "stablehlo.reshape": _reshape,
    "stablehlo.transpose": _transpose,
    "stablehlo.reverse": _reverse,
    "stablehlo.slice": _slice,
    "stablehlo.concatenate": _concatenate,
    "stablehlo.pad": _pad,
}
"""Rewriters by operation, as in ``elementwise``."""
