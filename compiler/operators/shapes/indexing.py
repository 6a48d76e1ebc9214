"""Gather and scatter: elements and slices at indices that may be computed."""

from __future__ import annotations

import numpy as np

from compiler.graph import Array, Box, Shape
from compiler.operators.boxes.forms import beside_axis, everywhere, span_of
from compiler.operators.record import Attribute, Call, Input, Operator, Output, register, rule
from compiler.operators.types import ANY, INDEX, INT64, axis_in_range, axis_of, same_shape

_AXIS = Attribute("axis", "int", 0)


@rule
def known_indices_in_range(call: Call) -> str | None:
    """Indices that are known when compiling must lie in [-s, s-1], s being the size of data along axis"""
    known, size = call.value_ints(1) or (), call.shape(0)[axis_of(call)]
    wrong = next((index for index in known if not -size <= index < size), None)
    return None if wrong is None else f"index {wrong} with s = {size}"


def _gather_shapes(call: Call) -> tuple[Shape, ...]:
    axis, data = axis_of(call), call.shape(0)
    return ((*data[:axis], *call.shape(1), *data[axis + 1 :]),)


def _gather(call: Call, x: Array, indices: Array) -> tuple[Array, ...]:
    return (np.take(x, indices, axis=axis_of(call)),)


def _needs_of_gather(call: Call, number: int, box: Box) -> tuple[Box, ...]:
    axis, rank, known = axis_of(call), call.tensor(1).rank, call.values[1]
    rows = Box(box.intervals[axis : axis + rank])
    span = span_of(None if known is None else known[rows.slices], call.shape(0)[axis])
    return Box((*box.intervals[:axis], span, *box.intervals[axis + rank :])), rows


def _of_data(call: Call, axis: int) -> bool:
    """Return True along the axes of data and of computed indices; known indices count from the end of a whole
    axis."""
    first, rank = axis_of(call), call.tensor(1).rank
    return call.values[1] is None or not first <= axis < first + rank


register(
    Operator(
        name="Gather",
        since=1,
        summary="Slices along an axis, chosen by indices",
        inputs=(Input("data", ANY), Input("indices", INDEX)),
        outputs=(Output("output", ANY),),
        attributes=(_AXIS,),
        rules=(axis_in_range, known_indices_in_range),
        shapes=_gather_shapes,
        reference=_gather,
        moves=True,
        needs=_needs_of_gather,
        uniform=_of_data,
    )
)


@rule
def indices_have_the_rank(call: Call) -> str | None:
    """indices must have the rank of data and be no larger along the other axes"""
    axis, data, indices = axis_of(call), call.shape(0), call.shape(1)
    others = zip(indices, data, strict=False)
    fits = len(data) == len(indices) and all(i <= d for a, (i, d) in enumerate(others) if a != axis)
    return None if fits else f"{list(indices)} with data {list(data)}"


def _index_shape(call: Call) -> tuple[Shape, ...]:
    return (call.shape(1),)


def _places(call: Call, indices: Array) -> tuple[Array, ...]:
    """Return index arrays of the elements that a GatherElements or ScatterElements names."""
    axis = axis_of(call)
    grid: list[Array] = list(np.indices(indices.shape))
    grid[axis] = np.where(indices < 0, indices + call.shape(0)[axis], indices)
    return tuple(grid)


def _gather_elements(call: Call, x: Array, indices: Array) -> tuple[Array, ...]:
    return (x[_places(call, indices)],)


def _needs_of_gather_elements(call: Call, number: int, box: Box) -> tuple[Box, ...]:
    axis, known = axis_of(call), call.values[1]
    span = span_of(None if known is None else known[box.slices], call.shape(0)[axis])
    return box.along(axis, *span), box


register(
    Operator(
        name="GatherElements",
        since=11,
        summary="Elements along an axis, each chosen by an index of its own",
        inputs=(Input("data", ANY), Input("indices", INDEX)),
        outputs=(Output("output", ANY),),
        attributes=(_AXIS,),
        rules=(axis_in_range, indices_have_the_rank, known_indices_in_range),
        shapes=_index_shape,
        reference=_gather_elements,
        moves=True,
        needs=_needs_of_gather_elements,
        uniform=everywhere,
    )
)


@rule
def index_rows_fit(call: Call) -> str | None:
    """The last axis of indices must be 1 to r - batch_dims, and the first batch_dims axes those of data"""
    batch, data, indices = call.attrs.get("batch_dims", 0), call.shape(0), call.shape(1)
    assert isinstance(batch, int)
    fits = len(indices) > batch and data[:batch] == indices[:batch] and 1 <= indices[-1] <= len(data) - batch
    return None if fits else f"{list(indices)} with data {list(data)}, batch_dims {batch}"


@rule
def known_index_rows_in_range(call: Call) -> str | None:
    """Indices that are known when compiling must lie in [-s, s-1], s being the size of their axis"""
    indices = call.values[1]
    if indices is None:
        return None
    batch = call.attrs.get("batch_dims", 0)
    assert isinstance(batch, int)
    sizes = np.array(call.shape(0)[batch : batch + indices.shape[-1]])
    rows = indices.reshape(-1, len(sizes))
    wrong = np.argwhere((rows < -sizes) | (rows >= sizes))
    if not wrong.size:
        return None
    row, at = (int(number) for number in wrong[0])
    return f"index {rows[row, at]} with s = {sizes[at]} in row {row}: {rows[row].tolist()}"


def _gather_nd_shapes(call: Call) -> tuple[Shape, ...]:
    depth = call.integer("batch_dims") + call.shape(1)[-1]
    return ((*call.shape(1)[:-1], *call.shape(0)[depth:]),)


def _gather_nd(call: Call, x: Array, indices: Array) -> tuple[Array, ...]:
    batch = call.integer("batch_dims")
    rows = np.indices(indices.shape[:-1])[:batch]
    return (x[(*rows, *np.moveaxis(indices, -1, 0))],)


def _needs_of_gather_nd(call: Call, number: int, box: Box) -> tuple[Box, ...]:
    batch, known = call.integer("batch_dims"), call.values[1]
    rank, depth = call.tensor(1).rank - 1, call.shape(1)[-1]
    rows = Box((*box.intervals[:rank], (0, depth)))
    chosen = None if known is None else np.moveaxis(known[rows.slices], -1, 0)
    sizes = enumerate(call.shape(0)[batch : batch + depth])
    spans = (span_of(None if chosen is None else chosen[at], size) for at, size in sizes)
    return Box((*box.intervals[:batch], *spans, *box.intervals[rank:])), rows


register(
    Operator(
        name="GatherND",
        since=11,
        summary="Slices of data, each chosen by a row of indices",
        inputs=(Input("data", ANY), Input("indices", INT64)),
        outputs=(Output("output", ANY),),
        attributes=(Attribute("batch_dims", "int", 0, minimum=0, since=12),),
        rules=(index_rows_fit, known_index_rows_in_range),
        shapes=_gather_nd_shapes,
        reference=_gather_nd,
        moves=True,
        needs=_needs_of_gather_nd,
    )
)


_REDUCTION = Attribute("reduction", "string", "none", allowed=("none", "add", "mul", "max", "min"), since=16)
_UFUNCS = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


def _scattered(call: Call, x: Array, places: tuple[Array, ...], updates: Array) -> tuple[Array, ...]:
    result, reduction = x.copy(), call.string("reduction")
    if reduction == "none":
        result[places] = updates
    else:
        _UFUNCS[reduction].at(result, places, updates)
    return (result,)


def _scatter_elements(call: Call, x: Array, indices: Array, updates: Array) -> tuple[Array, ...]:
    return _scattered(call, x, _places(call, indices), updates)


def _scatter_nd(call: Call, x: Array, indices: Array, updates: Array) -> tuple[Array, ...]:
    return _scattered(call, x, tuple(np.moveaxis(indices, -1, 0)), updates)


def _needs_of_scatter_elements(call: Call, number: int, box: Box) -> tuple[Box, ...]:
    """Return the boxes: any index along the axis may name a place in the box."""
    axis = axis_of(call)
    rows = box.along(axis, 0, call.shape(1)[axis])
    return box, rows, rows


def _needs_of_scatter_nd(call: Call, number: int, box: Box) -> tuple[Box, ...]:
    """Return the boxes: any row of indices may name a place in the box; slices are cut to the box."""
    rows, depth = call.shape(1)[:-1], call.shape(1)[-1]
    return box, Box.whole(call.shape(1)), Box((*Box.whole(rows).intervals, *box.intervals[depth:]))


@rule
def updates_match_indices(call: Call) -> str | None:
    """updates must have the shape of indices"""
    return None if call.shape(2) == call.shape(1) else f"{list(call.shape(2))} and {list(call.shape(1))}"


@rule
def updates_are_slices(call: Call) -> str | None:
    """updates must have one slice of data per row of indices"""
    wanted = (*call.shape(1)[:-1], *call.shape(0)[call.shape(1)[-1] :])
    return None if call.shape(2) == wanted else f"{list(call.shape(2))}, needed {list(wanted)}"


register(
    Operator(
        name="ScatterElements",
        since=11,
        summary="data with elements along an axis replaced, each at an index of its own",
        inputs=(Input("data", ANY), Input("indices", INDEX), Input("updates", ANY)),
        outputs=(Output("output", ANY),),
        attributes=(_AXIS, _REDUCTION),
        rules=(axis_in_range, indices_have_the_rank, known_indices_in_range, updates_match_indices),
        shapes=same_shape,
        reference=_scatter_elements,
        needs=_needs_of_scatter_elements,
        uniform=beside_axis,
    )
)


def _of_slices(call: Call, axis: int) -> bool:
    """Return True along the axes of a slice, before which indices say its place."""
    return axis >= call.shape(1)[-1]


register(
    Operator(
        name="ScatterND",
        since=11,
        summary="data with slices replaced, each at the place that a row of indices names",
        inputs=(Input("data", ANY), Input("indices", INT64), Input("updates", ANY)),
        outputs=(Output("output", ANY),),
        attributes=(_REDUCTION,),
        rules=(index_rows_fit, known_index_rows_in_range, updates_are_slices),
        shapes=same_shape,
        reference=_scatter_nd,
        needs=_needs_of_scatter_nd,
        uniform=_of_slices,
    )
)
