"""Rotary position embedding as one operator, which graphs get when the compiler recognizes it.

Pairs of features are turned by an angle that depends on the position: y = x cos + turned(x) sin, where
turned moves every feature to its partner's place and negates one of the two. Which is whose partner (the
other half of the features, or the neighbour) is an attribute.
"""

from __future__ import annotations

import numpy as np

from compiler.graph import Array, Shape
from compiler.operators.record import Attribute, Call, Input, Operator, Output, register, rule
from compiler.operators.types import FLOAT, broadcast_shapes

from .attention import Strided, compact


def halves(size: int) -> tuple[int, ...]:
    """``turn`` where the partners are the two halves."""
    half = size // 2
    return (*range(-half - 1, -size - 1, -1), *range(1, half + 1))


def neighbours(size: int) -> tuple[int, ...]:
    """``turn`` where the partners are neighbours."""
    return tuple(at for first in range(1, size, 2) for at in (-first - 1, first))


def features(call: Call) -> Strided:
    """Where the rows x [..., features] are in the operand."""
    numbers = call.integers("view")
    if not numbers:
        return compact(call.shape(0))
    rank = len(numbers) // 2
    return Strided(numbers[0], numbers[1 : rank + 1], numbers[rank + 1 :])


@rule
def view_is_inside(call: Call) -> str | None:
    """The view must have two axes or more, features side by side, and lie within the operand"""
    seen = features(call)
    inside = min(seen.offset, *seen.strides) >= 0 and seen.last < call.tensor(0).size
    fits = len(seen.shape) > 1 and seen.strides[-1] == 1 and inside
    return None if fits else f"{list(seen.numbers)} of {list(call.shape(0))}"


@rule
def turn_names_features(call: Call) -> str | None:
    """turn must have for every feature the number of another, from 1 on, negative where that is negated"""
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


def _rotary(call: Call, x: Array, cosine: Array, sine: Array) -> tuple[Array, ...]:
    seen, flat = features(call), np.ascontiguousarray(x).reshape(-1)
    strides = [step * flat.itemsize for step in seen.strides]
    rows = np.lib.stride_tricks.as_strided(flat[seen.offset :], seen.shape, strides, writeable=False)
    turn = np.array(call.integers("turn"))
    return (rows * cosine + rows[..., np.abs(turn) - 1] * np.sign(turn) * sine,)


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
        internal=True,
    )
)
