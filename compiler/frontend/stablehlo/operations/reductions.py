"""Reductions over axes, over windows, and the places of the largest elements."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from compiler.frontend.onnx.partial import Unsupported
from compiler.frontend.stablehlo.attributes import numpy_type
from compiler.frontend.stablehlo.site import Rewriter, Site, Value, inverse

from .bodies import SECOND, extremum_of, kind_of


@dataclass(frozen=True)
class Monoid:
    """A reduction's operator over axes, its operator of two operands, and its neutral element."""

    over_axes: str
    of_two: str
    neutral: Callable[[np.dtype[Any]], float]


def _lowest(dtype: np.dtype[Any]) -> float:
    return -math.inf if dtype.kind not in "iu" else int(np.iinfo(dtype).min)


def _highest(dtype: np.dtype[Any]) -> float:
    return math.inf if dtype.kind not in "iu" else int(np.iinfo(dtype).max)


MONOIDS = {
    "add": Monoid("ReduceSum", "Add", lambda _: 0),
    "multiply": Monoid("ReduceProd", "Mul", lambda _: 1),
    "maximum": Monoid("ReduceMax", "Max", _lowest),
    "minimum": Monoid("ReduceMin", "Min", _highest),
    "or": Monoid("ReduceMax", "Or", lambda _: 0),
    "and": Monoid("ReduceMin", "And", lambda _: 1),
}
_OF_TRUTH = {"add": "or", "maximum": "or", "multiply": "and", "minimum": "and"}


def _kind(site: Site, x: Value) -> str:
    """Return the kind of a reduction; on truth values it is ``and`` or ``or``."""
    kind = kind_of(site.region())
    if kind == SECOND:
        raise Unsupported("its body returns its second operand, which is not a reduction")
    if site.type_of(x) == "bool":
        return _OF_TRUTH.get(kind, kind)
    if kind in ("and", "or"):
        raise Unsupported(f"reduces {site.type_of(x)} bit by bit; supported are truth values")
    return kind


def _is_neutral(site: Site, monoid: Monoid, start: Value, dtype: str) -> bool:
    known = site.known(start)
    return known is not None and bool(np.all(known == monoid.neutral(numpy_type(dtype))))


def _reduce(site: Site) -> list[Value]:
    axes = site.integers("dimensions")
    if len(site.operands) == 4:
        return _extremum(site, axes)
    if len(site.operands) != 2:
        found = len(site.operands) // 2
        raise Unsupported(f"reduces {found} operands together; supported are one, or values with indices")
    x, start = site.operands
    monoid = MONOIDS[_kind(site, x)]
    made = _over_axes(site, monoid.over_axes, x, axes)
    if _is_neutral(site, monoid, start, site.type_of(x)):
        return [made]
    return [site.pointwise(monoid.of_two, made, start)]


def _over_axes(site: Site, op: str, x: Value, axes: Sequence[int]) -> Value:
    """Reduce axes and drop them by a reshape, which a broadcast that follows undoes."""
    if not axes:
        return x
    held = [x.order.index(axis) for axis in axes] if x.order else list(axes)
    numbers = site.constant(np.array(held, np.int64))
    (made,) = site.nodes(op, [x.name if x.order else site.full(x), numbers.name], keepdims=1)
    kept = Value(
        made.name, tuple(1 if axis in axes else extent for axis, extent in enumerate(x.shape)), x.order
    )
    return site.reshape(kept, *(extent for axis, extent in enumerate(x.shape) if axis not in axes))


def counts_along(site: Site, value: Value, axis: int) -> bool:
    """Return True if a value is known to be 0, 1, 2, ... along an axis."""
    known = site.known(value)
    if known is None:
        return False
    line = np.arange(value.shape[axis]).reshape(-1, *(1,) * (value.rank - 1 - axis))
    return bool(np.array_equal(known, np.broadcast_to(line, value.shape)))


def _extremum(site: Site, axes: Sequence[int]) -> list[Value]:
    """Return the largest or smallest elements along an axis, and their places."""
    x, places = site.operand(0), site.operand(1)
    if len(axes) != 1 or not counts_along(site, places, axes[0]):
        raise Unsupported("reduces values with indices that do not count along the one axis reduced")
    op, axis = extremum_of(site.region()), axes[0]
    kind = "maximum" if op == "ArgMax" else "minimum"
    if not _is_neutral(site, MONOIDS[kind], site.operand(2), site.type_of(x)):
        raise Unsupported("starts from a value that can win against elements")
    best = _over_axes(site, MONOIDS[kind].over_axes, x, axes)
    where = site.node(op, x, axis=axis, keepdims=0)
    return [best, site.cast(where, site.results[1][0])]


# --- windows -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class WindowAxes:
    """Extent of the window, stride, dilation and margins of each axis that windows move along."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]


def _reduce_window(site: Site) -> Value:
    if len(site.operands) != 2:
        raise Unsupported("reduces windows of several operands together; supported is one")
    x, start = site.operands
    kind = _kind(site, x)
    monoid, dtype = MONOIDS[kind], site.type_of(x)
    if not _is_neutral(site, monoid, start, dtype):
        raise Unsupported(f"starts from other than {monoid.neutral(numpy_type(dtype))}")
    ones = (1,) * x.rank
    window = site.integers("window_dimensions")
    strides, dilations = site.integers("window_strides", ones), site.integers("window_dilations", ones)
    pads = site.integers("padding", (0,) * 2 * x.rank)
    gaps = [gap - 1 for gap in site.integers("base_dilations", ones)]
    x = site.spread(x, gaps, start)
    lines = list(zip(window, strides, dilations, pads[::2], pads[1::2], strict=True))
    moved = [axis for axis, line in enumerate(lines) if line[:2] != (1, 1) or line[3:] != (0, 0)]
    if not moved:
        return x
    cumulated = _cumulated(site, x, kind, [(axis, *lines[axis]) for axis in moved])
    if cumulated is not None:
        return cumulated
    return _pooled(site, kind, x, moved, WindowAxes(*zip(*(lines[axis] for axis in moved), strict=True)))


def _cumulated(site: Site, x: Value, kind: str, lines: list[tuple[int, ...]]) -> Value | None:
    """Return sums or products of all elements up to each one, or from each one; None for other windows."""
    axis, window, stride, _, before, after = lines[0]
    extent = x.shape[axis]
    sides = {(extent - 1, 0): 0, (0, extent - 1): 1}
    whole = len(lines) == 1 and (window, stride) == (extent, 1) and (before, after) in sides
    if not whole or kind not in ("add", "multiply"):
        return None
    op = "CumSum" if kind == "add" else "CumProd"
    return site.node(op, x, site.constant(np.array(axis, np.int64)), reverse=sides[before, after])


def _pooled(site: Site, kind: str, x: Value, moved: Sequence[int], at: WindowAxes) -> Value:
    """Reduce windows by a pool: the axes that they move along come last, preceded by one of channels."""
    if len(moved) > 3 or kind == "multiply":
        found = f"{kind} over windows along {len(moved)} axes"
        raise Unsupported(f"{found}; supported are add, maximum and minimum along 3 or fewer")
    rest = [axis for axis in range(x.rank) if axis not in moved]
    order = [*rest, *moved]
    extents = [x.shape[axis] for axis in rest]
    channels = extents[-1] if extents else 1
    image = [x.shape[axis] for axis in moved]
    folded = site.reshape(site.transpose(x, *order), math.prod(extents[:-1]), channels, *image)
    made = _pool(site, kind, folded, at)
    made = site.reshape(made, *extents, *made.shape[2:])
    return site.transposed_later(made, *inverse(order))


def _pool(site: Site, kind: str, x: Value, at: WindowAxes) -> Value:
    if site.type_of(x) == "bool":
        largest = _pool(site, "maximum" if kind == "or" else "minimum", site.cast(x, "float32"), at)
        return site.cast(largest, "bool")
    if kind == "minimum":
        return site.pointwise("Neg", _pool(site, "maximum", site.pointwise("Neg", x), at))
    reach = [(extent - 1) * step for extent, step in zip(at.kernel, at.dilations, strict=True)]
    before, after = at.before, at.after
    if any(not 0 <= margin <= far for margin, far in zip((*before, *after), reach * 2, strict=True)):
        fill = site.number(MONOIDS[kind].neutral(numpy_type(site.type_of(x))), x)
        x = site.pad(x, (0, 0, *before), (0, 0, *after), fill)
        before = after = (0,) * len(before)
    shape = {"kernel_shape": at.kernel, "strides": at.strides, "dilations": at.dilations}
    if kind == "maximum":
        return site.node("MaxPool", x, pads=(*before, *after), **shape)
    mean = site.node("AveragePool", x, pads=(*before, *after), count_include_pad=1, **shape)
    return site.pointwise("Mul", mean, site.number(math.prod(at.kernel), x))


REWRITES: dict[str, Rewriter] = {"stablehlo.reduce": _reduce, "stablehlo.reduce_window": _reduce_window}
"""Rewriters by operation, as in ``elementwise``; a list has a value for each result."""
