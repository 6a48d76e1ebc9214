"""Rotary position embedding: the operator Rotary, which rewrites insert into the graph, and RotaryEmbedding.

Pairs of features are rotated by an angle that depends on the position: y = x cos + turned(x) sin. turned(x)
has every feature in its partner's place, and one of the two negated. The partner of a feature (the one in the
other half, or the neighbour) is an attribute.
"""

from __future__ import annotations

import numpy as np

from compiler.graph import Array, Box, Shape
from compiler.operators.boxes.forms import broadcast_from
from compiler.operators.expansion.builder import Builder
from compiler.operators.expansion.composite import composite
from compiler.operators.expansion.parts import permuted, reshaped, sliced
from compiler.operators.record import Attribute, Call, Input, Operator, Output, Types, register, rule
from compiler.operators.types import FLOAT, broadcast_shapes, rank_within

from .strided import StridedView, view_of


def halves(size: int) -> tuple[int, ...]:
    """Return the attribute ``turn`` if partners are in the two halves of ``size`` features."""
    half = size // 2
    return (*range(-half - 1, -size - 1, -1), *range(1, half + 1))


def neighbours(size: int) -> tuple[int, ...]:
    """Return the attribute ``turn`` if partners are neighbours."""
    return tuple(at for first in range(1, size, 2) for at in (-first - 1, first))


def features(call: Call) -> StridedView:
    """Return the view of the rows [..., features] in the operand."""
    return view_of(call, 0, "view")


@rule
def view_is_inside(call: Call) -> str | None:
    """The view must have two axes or more, features side by side, and lie within the operand"""
    seen = features(call)
    inside = min(seen.offset, *seen.strides) >= 0 and seen.last < call.tensor(0).size
    fits = len(seen.shape) > 1 and seen.strides[-1] == 1 and inside
    return None if fits else f"{list(seen.numbers)} of {list(call.shape(0))}"


@rule
def turn_names_features(call: Call) -> str | None:
    """turn must have, for every feature, the number of a feature, counted from 1, negative if its value is
    negated"""
    turn, size = call.integers("turn") or (), features(call).shape[-1]
    fits = len(turn) == size and all(1 <= abs(at) <= size for at in turn)
    return None if fits else f"{list(turn)} with {size} features"


@rule
def tables_broadcast(call: Call) -> str | None:
    """cos and sin must have a value for every feature, and broadcast to the shape of x"""
    shape = features(call).shape
    for index in (1, 2):
        table = call.shape(index)
        if table[-1:] != shape[-1:] or broadcast_shapes(table, shape) != shape:
            return f"{list(table)} with {list(shape)}"
    return None


def _shapes(call: Call) -> tuple[Shape, ...]:
    return (features(call).shape,)


def _of_rows(call: Call, axis: int) -> bool:
    """Return True along all axes but the last one, unless attributes say which columns are the features."""
    return axis < call.tensor(0).rank - 1 and not call.attrs.get("view")


def _rotary(call: Call, x: Array, cosine: Array, sine: Array) -> tuple[Array, ...]:
    rows = features(call).of(x)
    turn = np.array(call.integers("turn"))
    return (rows * cosine + rows[..., np.abs(turn) - 1] * np.sign(turn) * sine,)


def _needs(call: Call, number: int, box: Box) -> tuple[Box, ...]:
    """Return the boxes of the features and their partners."""
    (begin, end), turn = box.intervals[-1], call.integers("turn") or ()
    places = [*range(begin, end), *(abs(at) - 1 for at in turn[begin:end])]
    both = box.along(len(box.intervals) - 1, min(places), max(places) + 1)
    tables = (broadcast_from(call.shape(index), box) for index in (1, 2))
    return (features(call).part(call.shape(0), both), *tables)


register(
    Operator(
        name="Rotary",
        since=1,
        summary="x cos + turned(x) sin over the last axis",
        inputs=(Input("X", FLOAT), Input("cos", FLOAT), Input("sin", FLOAT)),
        outputs=(Output("Y", FLOAT),),
        attributes=(Attribute("turn", "ints", ()), Attribute("view", "ints", ())),
        rules=(view_is_inside, turn_names_features, tables_broadcast),
        shapes=_shapes,
        reference=_rotary,
        needs=_needs,
        internal=True,
        uniform=_of_rows,
    )
)


def _rotary_embedding(build: Builder, call: Call) -> tuple[str, ...]:
    """Expand RotaryEmbedding to Rotary, on x as [B, H, S, D]."""
    x, flat = call.name(0), call.tensor(0).rank == 3
    if flat:
        batch, length, hidden = call.shape(0)
        heads = call.integer("num_heads")
        x = permuted(build, reshaped(build, x, batch, length, heads, hidden // heads), 0, 2, 1, 3)
    batch, heads, length, size = build.shape(x)
    turned = call.integer("rotary_embedding_dim") or size
    caches = [call.name(1), call.name(2)]
    if call.has(3):
        caches = [build("Gather", cache, call.name(3), axis=0) for cache in caches]
    interleaved = bool(call.integer("interleaved"))
    tables = [_spread_over_features(build, cache, (batch, length, turned), interleaved) for cache in caches]
    head = x if turned == size else sliced(build, x, 3, 0, turned)
    result = build("Rotary", head, *tables, turn=neighbours(turned) if interleaved else halves(turned))
    if turned < size:
        result = build("Concat", result, sliced(build, x, 3, turned, size), axis=3)
    if flat:
        result = reshaped(build, permuted(build, result, 0, 2, 1, 3), *call.shape(0))
    return (result,)


def _spread_over_features(build: Builder, cache: str, sizes: tuple[int, int, int], interleaved: bool) -> str:
    """Spread a table [B, S, D / 2] with one value for each pair to [B, 1, S, D]."""
    batch, length, turned = sizes
    if not interleaved:
        half = reshaped(build, cache, batch, 1, length, turned // 2)
        return build("Concat", half, half, axis=3)
    single = reshaped(build, cache, batch, length, turned // 2, 1)
    return reshaped(build, build("Concat", single, single, axis=3), batch, 1, length, turned)


@rule
def heads_given(call: Call) -> str | None:
    """num_heads must be given for X of rank 3"""
    return "num_heads absent" if call.tensor(0).rank == 3 and not call.attrs.get("num_heads") else None


composite(
    name="RotaryEmbedding",
    since=23,
    summary="Pairs of features turned by angles that depend on the position",
    inputs=(
        Input("X", FLOAT),
        Input("cos_cache", FLOAT),
        Input("sin_cache", FLOAT),
        Input("position_ids", Types("M", ("int64",)), optional=True),
    ),
    outputs=(Output("Y", FLOAT),),
    expansion=_rotary_embedding,
    attributes=(
        Attribute("interleaved", "int", 0, allowed=(0, 1)),
        Attribute("num_heads", "int"),
        Attribute("rotary_embedding_dim", "int", 0),
    ),
    rules=(rank_within("X", 3, 4, "[B, S, H D] or [B, H, S, D]"), heads_given),
    uniform=_of_rows,
)
