"""Attention as one operator, which graphs get when the compiler recognizes it."""

from __future__ import annotations

import numpy as np

from compiler.graph import Array, Shape
from compiler.operators.record import Attribute, Call, Input, Operator, Output, register, rule
from compiler.operators.types import FLOAT, broadcast_shapes, rank_within


@rule
def matrices_fit(call: Call) -> str | None:
    """Q [..., M, D], K [..., N, D] and V [..., N, E] must agree in D, N and the leading axes"""
    q, k, v = (call.shape(index) for index in range(3))
    if q[:-2] == k[:-2] == v[:-2] and q[-1] == k[-1] and k[-2] == v[-2]:
        return None
    return f"{list(q)}, {list(k)}, {list(v)}"


@rule
def mask_broadcasts(call: Call) -> str | None:
    """The mask must broadcast to the scores [..., M, N]"""
    scores = (*call.shape(0)[:-1], call.shape(1)[-2])
    if not call.has(3) or broadcast_shapes(call.shape(3), scores) == scores:
        return None
    return f"{list(call.shape(3))} with {list(scores)}"


def _shapes(call: Call) -> tuple[Shape, ...]:
    return ((*call.shape(0)[:-1], call.shape(2)[-1]),)


def _attention(call: Call, q: Array, k: Array, v: Array, mask: Array | None = None) -> tuple[Array, ...]:
    scores = np.matmul(q, np.swapaxes(k, -1, -2)) * call.number("scale")
    if mask is not None:
        scores = scores + mask
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return (np.matmul(weights / weights.sum(-1, keepdims=True), v),)


register(
    Operator(
        name="FusedAttention",
        since=1,
        summary="softmax(Q K' scale + mask) V over the last two axes",
        inputs=(
            Input("Q", FLOAT),
            Input("K", FLOAT),
            Input("V", FLOAT),
            Input("mask", FLOAT, optional=True),
        ),
        outputs=(Output("Y", FLOAT),),
        attributes=(Attribute("scale", "float", 1.0),),
        rules=(rank_within("Q", 2, None, "matrices"), matrices_fit, mask_broadcasts),
        shapes=_shapes,
        reference=_attention,
        internal=True,
    )
)
