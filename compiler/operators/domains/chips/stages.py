"""What stages of a pipeline send each other: groups are pairs of chips, the sender first.

A pair exchanges one tensor after another. What is sent, and what is received, depends on the one before, so
that both have the same order. What a part of the batch begins with depends on the end of the one before, so
that a part is computed after another.
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


@rule
def shape_has_elements(call: Call) -> str | None:
    """shape must have elements"""
    shape = call.integers("shape") or ()
    return None if np.prod(shape) > 0 else f"shape {list(shape)}"


def _of_sent(call: Call) -> tuple[Shape, ...]:
    return ((1,),)


def _sent(call: Call, x: Array, after: Array | None = None) -> tuple[Array, ...]:
    return (np.zeros(1),)


def _of_received(call: Call) -> tuple[Shape, ...]:
    return (tuple(call.integers("shape") or ()),)


def _received(call: Call, *after: Array | None) -> tuple[Array, ...]:
    return (np.zeros(call.integers("shape") or ()),)


@rule
def part_is_inside(call: Call) -> str | None:
    """begin and end must lie on the first axis, in this order"""
    begin, end, shape = call.integer("begin"), call.integer("end"), call.shape(0)
    return None if shape and begin < end <= shape[0] else f"{begin} to {end} of {list(shape)}"


def _of_taken(call: Call) -> tuple[Shape, ...]:
    return ((call.integer("end") - call.integer("begin"), *call.shape(0)[1:]),)


def _taken(call: Call, x: Array, after: Array | None = None) -> tuple[Array, ...]:
    return (x[call.integer("begin") : call.integer("end")],)


register(
    Operator(
        name=SEND,
        since=1,
        summary="A tensor goes to the other chip of a pair; the result says only when",
        inputs=(Input("x", FLOAT), Input("after", FLOAT, optional=True)),
        outputs=(Output("sent", FLOAT),),
        attributes=_PAIRS,
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
