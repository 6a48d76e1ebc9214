"""Operators on sequences of known or computed length: ReverseSequence, TensorScatter."""

from __future__ import annotations

import numpy as np

from compiler.graph import Box
from compiler.operators.boxes.forms import beside_axis
from compiler.operators.elements.casting import CAST_NUMBERS
from compiler.operators.expansion.builder import Builder
from compiler.operators.expansion.composite import composite
from compiler.operators.expansion.parts import broadcast, permuted, reshaped
from compiler.operators.record import Attribute, Call, Input, Output, rule
from compiler.operators.types import ANY, INT64, axis_from_front, rank_within


def _to_front(rank: int, *axes: int) -> list[int]:
    """Return the permutation of axes that brings some to the front."""
    return [*axes, *(axis for axis in range(rank) if axis not in axes)]


def _inverse(order: list[int]) -> list[int]:
    """Return the inverse of a permutation."""
    return [int(at) for at in np.argsort(order)]


def _reverse_sequence(build: Builder, call: Call) -> tuple[str, ...]:
    order = _to_front(call.tensor(0).rank, call.integer("batch_axis"), call.integer("time_axis"))
    x = permuted(build, call.name(0), *order)
    batch, steps = build.shape(x)[:2]
    lengths, time = reshaped(build, call.name(1), batch, 1), build.constant(np.arange(steps)[None], "int64")
    mirrored = build("Sub", build("Sub", lengths, build.constant(np.array(1), "int64")), time)
    index = build("Where", build("Less", time, lengths), mirrored, time)
    picked = build("GatherND", x, reshaped(build, index, batch, steps, 1), batch_dims=1)
    return (permuted(build, picked, *_inverse(order)),)


@rule
def batch_and_time(call: Call) -> str | None:
    """batch_axis and time_axis must be 0 and 1 or 1 and 0, and sequence_lens have one length per batch"""
    batch, time = call.integer("batch_axis"), call.integer("time_axis")
    if {batch, time} != {0, 1}:
        return f"batch_axis {batch}, time_axis {time}"
    fits = call.shape(1) == (call.shape(0)[batch],)
    return None if fits else f"sequence_lens {list(call.shape(1))} for {list(call.shape(0))}"


@rule
def lengths_within_time(call: Call) -> str | None:
    """Known lengths must lie in 0 to the size of time_axis"""
    lengths, steps = call.value_ints(1), call.shape(0)[call.integer("time_axis")]
    return None if lengths is None or all(0 <= n <= steps for n in lengths) else f"{list(lengths)} of {steps}"


composite(
    name="ReverseSequence",
    since=10,
    summary="Every sequence of a batch reversed up to its length",
    inputs=(Input("input", ANY), Input("sequence_lens", INT64)),
    outputs=(Output("Y", ANY),),
    expansion=_reverse_sequence,
    attributes=(Attribute("batch_axis", "int", 1), Attribute("time_axis", "int", 0)),
    rules=(rank_within("input", 2, None, "[time, batch, ...]"), batch_and_time, lengths_within_time),
)


def _tensor_scatter(build: Builder, call: Call) -> tuple[str, ...]:
    """Write rows of update at consecutive positions of each batch, starting at write_indices.

    An index names a place on every axis up to the one that grows, so that the cache keeps its order.
    """
    axis = axis_from_front(call.integer("axis"), call.tensor(0).rank)
    leading, count = call.shape(1)[:axis], call.shape(1)[axis]
    steps = build.constant(np.arange(count)[None], "int64")
    places = broadcast(build, steps, (leading[0], count))
    if call.has(2):
        first = build("Cast", call.name(2), to=CAST_NUMBERS["int64"])
        places = build("Add", reshaped(build, first, leading[0], 1), steps)
    if call.string("mode") == "circular":
        places = build("Mod", places, build.constant(np.array(call.shape(0)[axis]), "int64"))
    places = reshaped(build, places, leading[0], *(1 for _ in leading[1:]), count, 1)
    grid = np.moveaxis(np.indices((*leading, count)), 0, -1)[..., :axis]
    index = build(
        "Concat", build.constant(grid, "int64"), broadcast(build, places, (*leading, count, 1)), axis=axis + 1
    )
    return (build("ScatterND", call.name(0), index, call.name(1)),)


@rule
def cache_takes_update(call: Call) -> str | None:
    """axis must not be the batch, update no longer than past_cache along it and equal along the others, and
    write_indices one number per batch"""
    rank, axis = call.tensor(0).rank, call.integer("axis")
    cache, update = call.shape(0), call.shape(1)
    found = f"past_cache {list(cache)}, update {list(update)}, axis {axis}"
    if not -rank <= axis < rank or axis_from_front(axis, rank) == 0 or len(update) != rank:
        return found
    if call.has(2) and call.shape(2) != cache[:1]:
        return f"write_indices {list(call.shape(2))} for {list(cache)}"
    at = axis_from_front(axis, rank)
    fits = 1 <= update[at] <= cache[at] and cache[:at] == update[:at] and cache[at + 1 :] == update[at + 1 :]
    return None if fits else found


def _needs_of_tensor_scatter(call: Call, number: int, box: Box) -> tuple[Box | None, ...]:
    """Return the boxes: any place along the axis may be overwritten; along the other axes places agree."""
    axis = axis_from_front(call.integer("axis"), call.tensor(0).rank)
    update = box.along(axis, 0, call.shape(1)[axis])
    return box, update, Box(box.intervals[:1]) if call.has(2) else None


composite(
    name="TensorScatter",
    since=24,
    summary="A cache with consecutive places of each batch overwritten",
    inputs=(Input("past_cache", ANY), Input("update", ANY), Input("write_indices", INT64, optional=True)),
    outputs=(Output("present_cache", ANY),),
    expansion=_tensor_scatter,
    attributes=(
        Attribute("axis", "int", -2),
        Attribute("mode", "string", "linear", allowed=("linear", "circular")),
    ),
    rules=(rank_within("past_cache", 2, None, "[batch, ...]"), cache_takes_update),
    needs=_needs_of_tensor_scatter,
    uniform=beside_axis,
)
