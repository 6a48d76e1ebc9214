"""Sequences of known or computed length: ReverseSequence, TensorScatter."""

from __future__ import annotations

import numpy as np

from compiler.operators.elements.casting import CAST_NUMBERS
from compiler.operators.expansion import Builder
from compiler.operators.parts import broadcast, permuted, reshaped
from compiler.operators.record import Attribute, Call, Input, Output, rule
from compiler.operators.types import ANY, INT64, normalized, rank_within

from .composite_shapes import _operator, name_of


def _fronted(rank: int, *axes: int) -> list[int]:
    """The order of axes in which these come first."""
    return [*axes, *(axis for axis in range(rank) if axis not in axes)]


def _back(order: list[int]) -> list[int]:
    """The order that undoes an order."""
    return [int(at) for at in np.argsort(order)]


def _reverse_sequence(b: Builder, call: Call) -> tuple[str, ...]:
    order = _fronted(call.tensor(0).rank, call.integer("batch_axis"), call.integer("time_axis"))
    x = permuted(b, name_of(call, 0), *order)
    batch, steps = b.shape(x)[:2]
    lengths, time = reshaped(b, name_of(call, 1), batch, 1), b.constant(np.arange(steps)[None], "int64")
    mirrored = b("Sub", b("Sub", lengths, b.constant(np.array(1), "int64")), time)
    index = b("Where", b("Less", time, lengths), mirrored, time)
    made = b("GatherND", x, reshaped(b, index, batch, steps, 1), batch_dims=1)
    return (permuted(b, made, *_back(order)),)


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


_operator(
    "ReverseSequence",
    10,
    "Every sequence of a batch turned round up to its length",
    (Input("input", ANY), Input("sequence_lens", INT64)),
    (Output("Y", ANY),),
    _reverse_sequence,
    (Attribute("batch_axis", "int", 1), Attribute("time_axis", "int", 0)),
    (rank_within("input", 2, None, "[time, batch, ...]"), batch_and_time, lengths_within_time),
)


def _tensor_scatter(b: Builder, call: Call) -> tuple[str, ...]:
    """Rows of update at consecutive places of each batch, from write_indices on."""
    rank = call.tensor(0).rank
    order = _fronted(rank, 0, normalized(call.integer("axis"), rank))
    cache, update = (permuted(b, name_of(call, at), *order) for at in (0, 1))
    batch, count = b.shape(update)[:2]
    steps = b.constant(np.arange(count)[None], "int64")
    places = broadcast(b, steps, (batch, count))
    if call.has(2):
        places = b("Add", reshaped(b, b("Cast", name_of(call, 2), to=CAST_NUMBERS["int64"]), batch, 1), steps)
    if call.string("mode") == "circular":
        places = b("Mod", places, b.constant(np.array(b.shape(cache)[1]), "int64"))
    images = broadcast(b, b.constant(np.arange(batch).reshape(batch, 1, 1), "int64"), (batch, count, 1))
    index = b("Concat", images, reshaped(b, places, batch, count, 1), axis=2)
    return (permuted(b, b("ScatterND", cache, index, update), *_back(order)),)


@rule
def cache_takes_update(call: Call) -> str | None:
    """axis must not be the batch, update no longer than past_cache along it and equal along the others, and
    write_indices one number per batch"""
    rank, axis = call.tensor(0).rank, call.integer("axis")
    cache, update = call.shape(0), call.shape(1)
    found = f"past_cache {list(cache)}, update {list(update)}, axis {axis}"
    if not -rank <= axis < rank or normalized(axis, rank) == 0 or len(update) != rank:
        return found
    if call.has(2) and call.shape(2) != cache[:1]:
        return f"write_indices {list(call.shape(2))} for {list(cache)}"
    at = normalized(axis, rank)
    fits = 1 <= update[at] <= cache[at] and cache[:at] == update[:at] and cache[at + 1 :] == update[at + 1 :]
    return None if fits else found


_operator(
    "TensorScatter",
    24,
    "A cache with consecutive places of each batch overwritten",
    (Input("past_cache", ANY), Input("update", ANY), Input("write_indices", INT64, optional=True)),
    (Output("present_cache", ANY),),
    _tensor_scatter,
    (Attribute("axis", "int", -2), Attribute("mode", "string", "linear", allowed=("linear", "circular"))),
    (rank_within("past_cache", 2, None, "[batch, ...]"), cache_takes_update),
)
