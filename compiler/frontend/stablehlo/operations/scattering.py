"""Writing by indices: scatters of every form, and updates of slices whose place is computed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

from compiler.frontend.onnx.partial import Unsupported
from compiler.frontend.stablehlo.attributes import lists
from compiler.frontend.stablehlo.site import Rewriter, Site, Value, inverse

from .bodies import SECOND, kind_of
from .gathering import stacked
from .positions import along, as_index, clamped, counted, flat_positions, index_parts, within, zeros

_REDUCTIONS = {SECOND: "none", "add": "add", "multiply": "mul", "maximum": "max", "minimum": "min"}


@dataclass(frozen=True)
class ScatterAxes:
    """The axes of a scatter by their roles, with the names of the StableHLO specification.

    ``sizes`` are the extents of a written slice, ``window`` its axes in the updates.
    """

    window: tuple[int, ...]
    inserted: tuple[int, ...]
    batching: tuple[int, ...]
    indices_batching: tuple[int, ...]
    mapped: tuple[int, ...]
    sizes: tuple[int, ...]


def _axes(site: Site, x: Value, updates: Value) -> tuple[ScatterAxes, int]:
    """Return the axes, and the one along which an index has its numbers."""
    found = lists(site.attributes.get("scatter_dimension_numbers"))
    window = found.get("update_window_dims", ())
    inserted, batching = found.get("inserted_window_dims", ()), found.get("input_batching_dims", ())
    kept = [axis for axis in range(x.rank) if axis not in (*inserted, *batching)]
    if len(kept) != len(window) or any(not 0 <= axis < updates.rank for axis in window):
        raise Unsupported(f"update_window_dims {list(window)} do not place {len(kept)} axes of a slice")
    extents = dict(zip(kept, (updates.shape[axis] for axis in window), strict=True))
    axes = ScatterAxes(
        window=window,
        inserted=inserted,
        batching=batching,
        indices_batching=found.get("scatter_indices_batching_dims", ()),
        mapped=found.get("scatter_dims_to_operand_dims", ()),
        sizes=tuple(extents.get(axis, 1) for axis in range(x.rank)),
    )
    return axes, found.get("index_vector_dim", (0,))[0]


def _scatter(site: Site) -> Value:
    """Add a ScatterND of whole slices, replace one slice at a known place, or scatter single elements."""
    if len(site.operands) != 3:
        raise Unsupported(f"scatters into {len(site.operands) // 2} operands together; supported is one")
    x, indices, updates = site.operands
    kind = kind_of(site.region())
    if kind not in _REDUCTIONS:
        raise Unsupported(f"its body is {kind}; supported are {', '.join(_REDUCTIONS)}")
    axes, vector_axis = _axes(site, x, updates)
    parts = index_parts(site, indices, vector_axis, len(axes.mapped))
    batch_axes = [axis for axis in range(updates.rank) if axis not in axes.window]
    updates = site.transpose(updates, *batch_axes, *axes.window)
    whole = all(axes.sizes[at] == x.shape[at] for at in range(x.rank) if at not in axes.inserted)
    if not batch_axes and kind == SECOND and (places := _known_places(site, x, axes, parts)):
        return written(site, x, site.reshape(updates, *axes.sizes), places)
    if whole and not axes.batching and axes.mapped and set(axes.inserted) == set(axes.mapped):
        return _rows(site, x, axes, parts, updates, _REDUCTIONS[kind])
    return _elements(site, x, axes, parts, updates, _REDUCTIONS[kind])


def _known_places(site: Site, x: Value, axes: ScatterAxes, parts: Sequence[Value]) -> list[int] | None:
    """Return the beginning of the only slice, if it is known and the slice is inside."""
    begins = [0] * x.rank
    for axis, index in zip(axes.mapped, parts, strict=True):
        known = site.known(index)
        if known is None or not 0 <= int(known) <= x.shape[axis] - axes.sizes[axis]:
            return None
        begins[axis] = int(known)
    return begins


def _inside(site: Site, x: Value, axes: ScatterAxes, parts: Sequence[Value]) -> Value | None:
    """Return truth values of slices inside the operand.

    None if all slices are known to be inside. Slices outside are not written.
    """
    pairs = zip(parts, axes.mapped, strict=True)
    tests = [within(site, index, x.shape[axis] - axes.sizes[axis]) for index, axis in pairs]
    if not tests:
        return None
    inside = reduce(lambda a, b: site.pointwise("And", a, b), tests)
    known = site.known(inside)
    return None if known is not None and bool(known.all()) else inside


def _rows(
    site: Site, x: Value, axes: ScatterAxes, parts: Sequence[Value], updates: Value, reduction: str
) -> Value:
    """Scatter whole slices; those outside go into a row after the last one, which is cut off."""
    rest = [axis for axis in range(x.rank) if axis not in axes.mapped]
    order = [*axes.mapped, *rest]
    rows = site.transpose(x, *order)
    inside = _inside(site, x, axes, parts)
    if inside is not None:
        ends = [rows.shape[0]] + [0] * (len(parts) - 1)
        chosen = zip(parts, ends, strict=True)
        parts = [site.pointwise("Where", inside, index, site.number(end, index)) for index, end in chosen]
    made = _scattered(site, rows, stacked(site, parts), updates, reduction, inside is not None)
    return site.transpose(made, *inverse(order))


def _scattered(
    site: Site, rows: Value, places: Value, updates: Value, reduction: str, with_spare_row: bool
) -> Value:
    """Add a ScatterND, with a temporary spare row if one is needed."""
    if not with_spare_row:
        return site.node("ScatterND", rows, places, updates, reduction=reduction)
    none = [0] * rows.rank
    longer = site.pad(rows, none, [1, *none[1:]], site.number(0, rows))
    made = site.node("ScatterND", longer, places, updates, reduction=reduction)
    return site.slice(made, none, rows.shape)


def _elements(
    site: Site, x: Value, axes: ScatterAxes, parts: Sequence[Value], updates: Value, reduction: str
) -> Value:
    """Scatter every element by its place in the flattened operand."""
    batch = updates.shape[: updates.rank - len(axes.window)]
    begins = [zeros(site, batch)] * x.rank
    for axis, index in zip(axes.mapped, parts, strict=True):
        begins[axis] = index
    for axis, source in zip(axes.batching, axes.indices_batching, strict=True):
        begins[axis] = along(site, source, batch)
    places = flat_positions(site, x.shape, begins, axes.sizes)
    inside, size = _inside(site, x, axes, parts), math.prod(x.shape)
    if inside is not None:
        shown = site.reshape(inside, *batch, *(1,) * x.rank)
        places = site.pointwise("Where", shown, places, site.number(size, places))
    count = math.prod(updates.shape)
    flat = site.reshape(places, count, 1), site.reshape(updates, count)
    made = _scattered(site, site.reshape(x, size), *flat, reduction, inside is not None)
    return site.reshape(made, *x.shape)


# --- one slice -------------------------------------------------------------------------------


def written(site: Site, x: Value, update: Value, begins: Sequence[int]) -> Value:
    """Replace a slice at a known place by concatenating the update with the parts around it."""
    cut = [axis for axis in range(x.rank) if update.shape[axis] != x.shape[axis]]
    if not cut:
        return update
    axis, starts = cut[0], [0] * x.rank
    begin, end = begins[axis], begins[axis] + update.shape[axis]
    bounds = [(0, begin), (begin, end), (end, x.shape[axis])]
    parts = []
    for low, high in bounds:
        starts[axis], ends = low, [*x.shape[:axis], high, *x.shape[axis + 1 :]]
        parts.append(site.slice(x, starts, ends))
    parts[1] = written(site, parts[1], update, begins)
    return site.concat(parts, axis)


def _dynamic_update_slice(site: Site) -> Value:
    """Concatenate a slice at a known place with the rest; scatter one at a computed place."""
    x, update, starts = site.operand(0), site.operand(1), site.operands[2:]
    if len(starts) != x.rank or update.rank != x.rank:
        raise Unsupported(f"needs a start and an extent for each of {x.rank} axes")
    rooms = [extent - size for extent, size in zip(x.shape, update.shape, strict=True)]
    begins = [clamped(site, as_index(site, at), room) for at, room in zip(starts, rooms, strict=True)]
    known = [site.known(begin) for begin in begins]
    if all(place is not None for place in known):
        return written(site, x, update, [int(np.asarray(place)) for place in known])
    moved = [axis for axis, room in enumerate(rooms) if room]
    if not moved:
        return update
    order = [*moved, *(axis for axis in range(x.rank) if axis not in moved)]
    shape = tuple(update.shape[axis] for axis in moved)
    lines = []
    for at, axis in enumerate(moved):
        line = counted(site, begins[axis], update.shape[axis])
        wide = site.reshape(line, *(1,) * at, shape[at], *(1,) * (len(shape) - 1 - at))
        lines.append(Value(wide.name, shape))
    rows = site.transpose(x, *order)
    made = site.node("ScatterND", rows, stacked(site, lines), site.transpose(update, *order))
    return site.transpose(made, *inverse(order))


REWRITES: dict[str, Rewriter] = {
    "stablehlo.scatter": _scatter,
    "stablehlo.dynamic_update_slice": _dynamic_update_slice,
}
"""Rewriters by operation, as in ``elementwise``."""
