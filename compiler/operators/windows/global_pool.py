"""GlobalAveragePool and GlobalMaxPool.

GlobalMaxPool is a ReduceMax; after a convolution it is a pool on channel-blocked data.
"""

from __future__ import annotations

from compiler.graph import Array, Box, Shape
from compiler.operators.boxes.forms import everywhere, whole_along
from compiler.operators.expansion.builder import Builder
from compiler.operators.expansion.composite import composite
from compiler.operators.record import Call, Input, Law, Operator, Output, register, rule
from compiler.operators.types import FLOAT, rank_within


@rule
def image_not_empty(call: Call) -> str | None:
    """The spatial axes must not be empty"""
    return f"shape {list(call.shape(0))}" if 0 in call.shape(0)[2:] else None


def _global_shapes(call: Call) -> tuple[Shape, ...]:
    shape = call.shape(0)
    return ((*shape[:2], *(1,) * len(shape[2:])),)


def _needs_of_global(call: Call, number: int, box: Box) -> tuple[Box, ...]:
    return (whole_along(box, call.shape(0), range(2, call.tensor(0).rank)),)


def _global_average_pool(call: Call, x: Array) -> tuple[Array, ...]:
    return (x.mean(axis=tuple(range(2, x.ndim)), keepdims=True),)


register(
    Operator(
        name="GlobalAveragePool",
        since=1,
        summary="Average over all spatial axes of [N, C, ...]",
        inputs=(Input("X", FLOAT),),
        outputs=(Output("Y", FLOAT),),
        rules=(rank_within("X", 3, None, "batch, channels, space"), image_not_empty),
        shapes=_global_shapes,
        reference=_global_average_pool,
        needs=_needs_of_global,
        laws=Law.HOMOGENEOUS,
        uniform=everywhere,
    )
)


def _largest(call: Call, x: Array) -> tuple[Array, ...]:
    return (x.max(axis=tuple(range(2, x.ndim)), keepdims=True),)


register(
    Operator(
        name="LargestPosition",
        since=1,
        summary="The largest of all positions of each channel, in the order of the engines",
        inputs=(Input("X", FLOAT),),
        outputs=(Output("Y", FLOAT),),
        rules=(rank_within("X", 3, None, "batch, channels, space"), image_not_empty),
        shapes=_global_shapes,
        reference=_largest,
        needs=_needs_of_global,
        internal=True,
    )
)


def _global_max(build: Builder, call: Call) -> tuple[str, ...]:
    return (build("ReduceMax", call.name(0), axes=tuple(range(2, call.tensor(0).rank))),)


composite(
    name="GlobalMaxPool",
    since=1,
    summary="The largest of all positions of each channel",
    inputs=(Input("X", FLOAT),),
    outputs=(Output("Y", FLOAT),),
    expansion=_global_max,
    rules=(rank_within("X", 3, None, "[N, C, ...]"),),
    uniform=everywhere,
)
