"""Transfers between the stages of a pipeline: groups are pairs of chips, the sender first.

A tensor goes into an *inbox*: space for it in the DDR of the receiver, which takes it from there. Each
transfer depends on the one before, so that both sides have the same order. The first operators of a part of
the batch depend on the end of the part before. So parts are computed one after another.

A tensor that is sent in the *background* is copied while the sender computes the next part of the batch. Then
the result of Send is the tensor itself, in the same memory. An operator that has to wait for the end of the
copy has it as an operand, and no other value gets that memory before.
"""

from __future__ import annotations

import numpy as np

from compiler.graph import Array, Shape
from compiler.operators.record import Attribute, Call, Input, Operator, Output, register, rule
from compiler.operators.types import ANY, FLOAT

from .collectives import RECEIVE, SEND, TAKE, groups_are_whole

_PAIRS = (
    Attribute("chips", "ints", required=True, minimum=0),
    Attribute("members", "int", default=2, allowed=(2,)),
)
_INBOX = Attribute("inbox", "int", required=True, minimum=0)
"""The number of the inbox of the receiver."""
CHANNELS = 3
"""Channels of a tile on which it sends; each has one copy on its way at a time."""


def _flag(name: str) -> Attribute:
    return Attribute(name, "int", default=0, allowed=(0, 1))


@rule
def shape_has_elements(call: Call) -> str | None:
    """shape must have elements"""
    shape = call.integers("shape") or ()
    return None if np.prod(shape) > 0 else f"shape {list(shape)}"


def in_background(call: Call) -> bool:
    """Return True if a tensor is still being copied when the operator ends."""
    return bool(call.integer("background"))


def _of_sent(call: Call) -> tuple[Shape, ...]:
    return (call.shape(0) if in_background(call) else (1,),)


def _sent(call: Call, x: Array, *after: Array | None) -> tuple[Array, ...]:
    return (x if in_background(call) else np.zeros(1),)


def _of_received(call: Call) -> tuple[Shape, ...]:
    return (tuple(call.integers("shape") or ()),)


def _received(call: Call, *after: Array | None) -> tuple[Array, ...]:
    return (np.zeros(call.integers("shape") or ()),)


@rule
def part_is_inside(call: Call) -> str | None:
    """begin and end must lie on the first axis, in this order"""
    begin, end, shape = call.integer("begin"), call.integer("end"), call.shape(0)
    return None if shape and begin < end <= shape[0] else f"{begin} to {end} of {list(shape)}"


def taken_ranges(call: Call) -> list[range]:
    """Return the ranges of the operand that Take copies, by axis."""
    return [range(call.integer("begin"), call.integer("end")), *map(range, call.shape(0)[1:])]


def _of_taken(call: Call) -> tuple[Shape, ...]:
    return (tuple(map(len, taken_ranges(call))),)


def _taken(call: Call, x: Array, after: Array | None = None) -> tuple[Array, ...]:
    return (x[call.integer("begin") : call.integer("end")],)


register(
    Operator(
        name=SEND,
        since=1,
        summary="A tensor goes to the other chip of a pair; the result says when, or is it on its way",
        inputs=(
            Input("x", FLOAT),
            Input("after", FLOAT, optional=True),
            Input("before", FLOAT, optional=True),
        ),
        outputs=(Output("sent", FLOAT),),
        attributes=(
            *_PAIRS,
            _INBOX,
            Attribute("channel", "int", default=0, allowed=tuple(range(CHANNELS))),
            _flag("full"),  # the inbox may have a tensor that the receiver has not copied yet
            _flag("background"),
        ),
        rules=(groups_are_whole,),
        shapes=_of_sent,
        reference=_sent,
        internal=True,
    )
)
register(
    Operator(
        name=RECEIVE,
        since=1,
        summary="A tensor comes from the other chip of a pair",
        inputs=(Input("before", FLOAT, optional=True), Input("after", FLOAT, optional=True)),
        outputs=(Output("y", FLOAT),),
        attributes=(
            *_PAIRS,
            _INBOX,
            _flag("again"),  # the sender waits until the inbox is empty
            Attribute("shape", "ints", required=True, minimum=1),
            Attribute("dtype", "string", default="float32", allowed=("float32", "float16", "bfloat16")),
        ),
        rules=(groups_are_whole, shape_has_elements),
        shapes=_of_received,
        dtypes=lambda call: (call.string("dtype"),),
        reference=_received,
        internal=True,
    )
)
register(
    Operator(
        name=TAKE,
        since=1,
        summary="Some rows of a tensor, from begin to end of its first axis",
        inputs=(Input("x", ANY), Input("after", FLOAT, optional=True)),
        outputs=(Output("y", ANY),),
        attributes=(
            Attribute("begin", "int", required=True, minimum=0),
            Attribute("end", "int", required=True, minimum=1),
        ),
        rules=(part_is_inside,),
        shapes=_of_taken,
        reference=_taken,
        internal=True,
    )
)
