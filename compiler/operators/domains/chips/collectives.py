"""All-reduce, all-gather, reduce-scatter and broadcast over groups of chips."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from compiler.graph import Array, Shape
from compiler.operators.record import Attribute, Call, Input, Operator, Output, Rule, Types, register, rule
from compiler.operators.types import ANY, FLOAT, axis_from_front, same_shape

ALL_REDUCE, ALL_GATHER = "chips.AllReduce", "chips.AllGather"
REDUCE_SCATTER, BROADCAST = "chips.ReduceScatter", "chips.Broadcast"
PART = "chips.Part"
"""Not an exchange: every chip takes a part of a tensor that all chips have."""
SEND, RECEIVE = "chips.Send", "chips.Receive"
"""A transfer between stages of a pipeline: the sending and the receiving side."""
TAKE = "chips.Take"
"""Not an exchange: a stage takes the next part of an input."""
COLLECTIVES = (ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, BROADCAST, SEND, RECEIVE)
"""Operators in which chips exchange something."""
RING, DUAL, DIRECT, TREE, DOUBLING = "ring", "dual", "direct", "tree", "doubling"
"""Algorithms of an exchange.

A ring; two rings in opposite directions at once; from each member to each; a tree whose levels share the
tensor; pairs of members that exchange whole sums.
"""
WAYS = (RING, DUAL, DIRECT, TREE, DOUBLING)
"""Algorithms of an all-reduce; other exchanges have all but the last."""

_GROUPS = (
    Attribute("chips", "ints", required=True, minimum=0),
    Attribute("members", "int", required=True, minimum=2),
)
"""Numbers of the chips, one group of ``members`` after another, each in the order of its ring."""
_WAY = Attribute("way", "string", default=RING, allowed=WAYS)
_WAY_OF_PARTS = Attribute("way", "string", default=RING, allowed=WAYS[:-1])
_AXIS = Attribute("axis", "int", required=True)


def groups_of(call: Call) -> list[tuple[int, ...]]:
    """Return the groups of chips, each in the order of its ring."""
    chips, members = call.integers("chips") or (), call.integer("members")
    return [chips[at : at + members] for at in range(0, len(chips), members)]


def way_of(call: Call) -> str:
    """Return the algorithm by which the groups exchange."""
    return str(call.attrs.get("way", RING))


@rule
def groups_are_whole(call: Call) -> str | None:
    """chips must be different, and their number a multiple of members"""
    chips, members = call.integers("chips") or (), call.integer("members")
    right = chips and len(chips) % members == 0 and len(set(chips)) == len(chips)
    return None if right else f"chips {list(chips)} in groups of {members}"


@rule
def axis_is_there(call: Call) -> str | None:
    """axis must be one of the operand"""
    axis, rank = call.integer("axis"), len(call.shape(0))
    return None if -rank <= axis < rank else f"axis {axis} of {rank}"


@rule
def doubles(call: Call) -> str | None:
    """with way doubling the members must be a power of two"""
    members = call.integer("members")
    return None if way_of(call) != DOUBLING or members & (members - 1) == 0 else f"{members} members"


@rule
def axis_is_divided(call: Call) -> str | None:
    """members must divide the axis"""
    extent, members = call.shape(0)[axis_from(call)], call.integer("members")
    return None if extent % members == 0 else f"{extent} by {members}"


def axis_from(call: Call) -> int:
    """Return the number of the axis, counted from 0."""
    return axis_from_front(call.integer("axis"), len(call.shape(0)))


def _gathered(call: Call) -> tuple[Shape, ...]:
    shape = list(call.shape(0))
    shape[axis_from(call)] *= call.integer("members")
    return (tuple(shape),)


def _scattered(call: Call) -> tuple[Shape, ...]:
    shape = list(call.shape(0))
    shape[axis_from(call)] //= call.integer("members")
    return (tuple(shape),)


def _reduce(call: Call, x: Array) -> tuple[Array, ...]:
    return (np.asarray(x * call.integer("members")),)


def _gather(call: Call, x: Array) -> tuple[Array, ...]:
    return (np.concatenate([x] * call.integer("members"), axis_from(call)),)


def _scatter(call: Call, x: Array) -> tuple[Array, ...]:
    members, axis = call.integer("members"), axis_from(call)
    return (np.split(x * members, members, axis)[0],)


def _part(call: Call, x: Array) -> tuple[Array, ...]:
    return (np.split(x, call.integer("members"), axis_from(call))[0],)


def _broadcast(call: Call, x: Array) -> tuple[Array, ...]:
    return (x,)


def _collective(
    name: str,
    summary: str,
    shapes: Callable[[Call], tuple[Shape, ...]],
    reference: Callable[..., tuple[Array, ...]],
    attributes: tuple[Attribute, ...] = (),
    rules: tuple[Rule, ...] = (),
    types: Types = FLOAT,
) -> None:
    register(
        Operator(
            name=name,
            since=1,
            summary=summary,
            inputs=(Input("x", types),),
            outputs=(Output("y", types),),
            attributes=(*_GROUPS, *attributes),
            rules=(groups_are_whole, *rules),
            shapes=shapes,
            reference=reference,
            internal=True,
            at_run=True,
        )
    )


_collective(
    ALL_REDUCE, "Every chip of a group gets the sums over the group", same_shape, _reduce, (_WAY,), (doubles,)
)
_collective(
    ALL_GATHER,
    "Every chip of a group gets the tensors of all, along an axis in the order of the ring",
    _gathered,
    _gather,
    (_WAY_OF_PARTS, _AXIS),
    (axis_is_there,),
)
_collective(
    REDUCE_SCATTER,
    "Every chip of a group gets its part, along an axis in the order of the ring, of the sums over the group",
    _scattered,
    _scatter,
    (_WAY_OF_PARTS, _AXIS),
    (axis_is_there, axis_is_divided),
)
_collective(BROADCAST, "Every chip of a group gets the tensor of its first one", same_shape, _broadcast)
_collective(
    PART,
    "Every chip of a group takes its part of a tensor that all have, along an axis in the order of the ring",
    _scattered,
    _part,
    (_AXIS,),
    (axis_is_there, axis_is_divided),
    ANY,
)
