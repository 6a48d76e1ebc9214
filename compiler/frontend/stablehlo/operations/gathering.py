"""Reading by indices: gathers of every form, and slices whose place is computed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from compiler.frontend.onnx.partial import Unsupported
from compiler.frontend.stablehlo.attributes import lists
from compiler.frontend.stablehlo.site import Rewriter, Site, Value, inverse

from .positions import along, as_index, clamped, counted, flat_positions, index_parts, zeros


@dataclass(frozen=True)
class GatherAxes:
    """The axes of a gather by their roles, with the names of the StableHLO specification.

    ``sizes`` are the extents of the slices; ``batch`` are the axes of the result that come from the indices,
    in their order.
    """

    offset: tuple[int, ...]
    collapsed: tuple[int, ...]
    batching: tuple[int, ...]
    indices_batching: tuple[int, ...]
    mapped: tuple[int, ...]
    sizes: tuple[int, ...]
    batch: tuple[int, ...]


def _axes(site: Site) -> tuple[GatherAxes, int]:
    """Return the axes, and the one along which an index has its numbers."""
    found = lists(site.attributes.get("dimension_numbers"))
    offset = found.get("offset_dims", ())
    axes = GatherAxes(
        offset=offset,
        collapsed=found.get("collapsed_slice_dims", ()),
        batching=found.get("operand_batching_dims", ()),
        indices_batching=found.get("start_indices_batching_dims", ()),
        mapped=found.get("start_index_map", ()),
        sizes=site.integers("slice_sizes"),
        batch=tuple(axis for axis in range(len(site.shape)) if axis not in offset),
    )
    x = site.operand(0)
    named = (*axes.collapsed, *axes.batching, *axes.mapped)
    if len(axes.sizes) != x.rank or any(not 0 <= axis < x.rank for axis in named):
        raise Unsupported(f"its slices and axes do not fit an operand {list(x.shape)}")
    return axes, found.get("index_vector_dim", (0,))[0]


def _gather(site: Site) -> Value:
    """Add a Gather along one axis, a GatherElements, a GatherND, or else a gather by computed places."""
    axes, vector_axis = _axes(site)
    x = site.operand(0)
    parts = index_parts(site, site.operand(1), vector_axis, len(axes.mapped))
    numbers = zip(parts, axes.mapped, strict=True)
    starts = [clamped(site, index, x.shape[axis] - axes.sizes[axis]) for index, axis in numbers]
    single = {axis for axis in range(x.rank) if axes.sizes[axis] == 1 and axis not in axes.batching}
    whole = all(axes.sizes[axis] == x.shape[axis] for axis in range(x.rank) if axis not in axes.mapped)
    if whole and not axes.batching and starts and single.issuperset(axes.mapped):
        return _rows(site, x, axes, starts)
    if len(starts) == 1 and len(axes.batching) == x.rank - 1 and len(axes.batch) == x.rank:
        return _elements(site, x, axes, starts[0])
    return _scattered_elements(site, x, axes, starts)


def _rows(site: Site, x: Value, axes: GatherAxes, starts: Sequence[Value]) -> Value:
    """Gather whole slices: Gather for one indexed axis, GatherND for several."""
    rest = [axis for axis in range(x.rank) if axis not in axes.mapped]
    count = starts[0].rank
    if len(starts) == 1:
        (axis,) = axes.mapped
        made = site.node("Gather", x, starts[0], axis=axis)
        front = [*range(axis, axis + count), *range(axis), *range(axis + count, made.rank)]
    else:
        moved = site.transpose(x, *axes.mapped, *rest)
        made = site.node("GatherND", moved, stacked(site, starts))
        front = list(range(made.rank))
    return _in_order(site, made, front, axes, rest)


def _in_order(site: Site, made: Value, front: Sequence[int], axes: GatherAxes, rest: Sequence[int]) -> Value:
    """Order the axes of a gather's result: ``front`` come from the indices, then ``rest`` from a slice."""
    kept = [axis for axis in range(len(axes.sizes)) if axis not in (*axes.collapsed, *axes.batching)]
    if len(kept) != len(axes.offset):
        raise Unsupported(f"offset_dims {list(axes.offset)} do not place {len(kept)} axes of a slice")
    sources = dict(zip(axes.batch, front, strict=False))
    offsets = dict(zip(kept, axes.offset, strict=True))
    sources |= {
        offsets[axis]: at for axis, at in zip(rest, front[len(axes.batch) :], strict=True) if axis in offsets
    }
    order = [sources[axis] for axis in sorted(sources)]
    dropped = [at for at in range(made.rank) if at not in order]  # collapsed axes, of one element
    shape = [made.shape[at] for at in range(made.rank) if at not in dropped]
    ranks = {at: place for place, at in enumerate(sorted(order))}
    made = site.transpose(site.reshape(made, *shape), *(ranks[at] for at in order))
    return site.reshape(made, *site.shape)


def stacked(site: Site, parts: Sequence[Value]) -> Value:
    """Stack the numbers of an index along a new last axis, as int64."""
    wide = [site.reshape(site.cast(part, "int64"), *part.shape, 1) for part in parts]
    return site.concat(wide, wide[0].rank - 1)


def _elements(site: Site, x: Value, axes: GatherAxes, index: Value) -> Value:
    """Gather one element from each line along an axis, as take_along_axis does: GatherElements."""
    (axis,) = axes.mapped
    batching = dict(zip(axes.batching, axes.indices_batching, strict=True))
    (free,) = [at for at in range(index.rank) if at not in axes.indices_batching]
    order = [batching.get(at, free) for at in range(x.rank)]
    made = site.node("GatherElements", x, site.transpose(index, *order), axis=axis)
    return site.reshape(site.transpose(made, *inverse(order)), *site.shape)


def _scattered_elements(site: Site, x: Value, axes: GatherAxes, starts: Sequence[Value]) -> Value:
    """Gather every element by its place in the flattened operand."""
    batch = tuple(site.shape[axis] for axis in axes.batch)
    begins = [zeros(site, batch)] * x.rank
    for axis, start in zip(axes.mapped, starts, strict=True):
        begins[axis] = start
    for axis, source in zip(axes.batching, axes.indices_batching, strict=True):
        begins[axis] = along(site, source, batch)
    places = flat_positions(site, x.shape, begins, axes.sizes)
    made = site.node("Gather", site.reshape(x, math.prod(x.shape)), places, axis=0)
    return _in_order(site, made, range(made.rank), axes, range(x.rank))


def _dynamic_slice(site: Site) -> Value:
    """Slice the axes with known places, and gather along the others."""
    x, sizes = site.operand(0), site.integers("slice_sizes")
    if len(site.operands) != 1 + x.rank or len(sizes) != x.rank:
        raise Unsupported(f"needs a start and a size for each of {x.rank} axes")
    starts, ends = [0] * x.rank, list(x.shape)
    computed: dict[int, Value] = {}
    for axis, size in enumerate(sizes):
        start = clamped(site, as_index(site, site.operand(1 + axis)), x.shape[axis] - size)
        known = site.known(start)
        if size == x.shape[axis]:
            continue
        if known is None:
            computed[axis] = start
        else:
            starts[axis], ends[axis] = int(known), int(known) + size
    made = site.slice(x, starts, ends)
    for axis, start in computed.items():
        made = site.node("Gather", made, counted(site, start, sizes[axis]), axis=axis)
    return made


REWRITES: dict[str, Rewriter] = {"stablehlo.gather": _gather, "stablehlo.dynamic_slice": _dynamic_slice}
"""Rewriters by operation, as in ``elementwise``."""
