"""Attention as one operator, which rewrites insert into the graph.

Its matrices may be strided views, since heads are often columns of one wider matrix.
"""

from __future__ import annotations

import numpy as np

from compiler.graph import Array, Box, Shape
from compiler.operators.boxes.forms import broadcast_from
from compiler.operators.record import Attribute, Call, Input, Operator, Output, register, rule
from compiler.operators.types import FLOAT, broadcast_shapes

from .strided import StridedView, view_of

HIDES = -1e4
"""The largest number in a constant mask that hides a key."""
VIEWS = ("view_q", "view_k", "view_v")
"""Attributes that hold the views of Q, K and V; empty: the operand itself has the axes of the matrices."""


def matrices(call: Call, index: int) -> StridedView:
    """Return the view of the matrices Q, K or V [..., rows, channels] in their operand."""
    return view_of(call, index, VIEWS[index])


def result_order(call: Call) -> tuple[int, ...]:
    """Return, for each axis of the output, its axis in the product [..., M, E]."""
    return call.integers("perm") or tuple(range(len(matrices(call, 0).shape)))


@rule
def views_are_inside(call: Call) -> str | None:
    """The views must have two axes or more, channels side by side, and lie within their operands"""
    for index, name in enumerate(VIEWS):
        seen, size = matrices(call, index), call.tensor(index).size
        inside = min(seen.offset, *seen.strides) >= 0 and seen.last < size
        if len(seen.shape) < 2 or seen.strides[-1] != 1 or not inside:
            return f"{name} {list(seen.numbers)} of {list(call.shape(index))}"
    return None


@rule
def result_keeps_rows(call: Call) -> str | None:
    """perm must be a permutation that leaves the last axis in its place"""
    order, rank = result_order(call), len(matrices(call, 0).shape)
    return None if sorted(order) == list(range(rank)) and order[-1] == rank - 1 else f"perm {list(order)}"


@rule
def matrices_fit(call: Call) -> str | None:
    """Q [..., M, D], K [..., N, D] and V [..., N, E] must agree in D, N and the leading axes"""
    q, k, v = (matrices(call, index).shape for index in range(3))
    if q[:-2] == k[:-2] == v[:-2] and q[-1] == k[-1] and k[-2] == v[-2]:
        return None
    return f"{list(q)}, {list(k)}, {list(v)}"


@rule
def mask_broadcasts(call: Call) -> str | None:
    """The mask must broadcast to the scores [..., M, N]"""
    scores = (*matrices(call, 0).shape[:-1], matrices(call, 1).shape[-2])
    if not call.has(3) or broadcast_shapes(call.shape(3), scores) == scores:
        return None
    return f"{list(call.shape(3))} with {list(scores)}"


def _shapes(call: Call) -> tuple[Shape, ...]:
    result = (*matrices(call, 0).shape[:-1], matrices(call, 2).shape[-1])
    return (tuple(result[axis] for axis in result_order(call)),)


def _attention(call: Call, *operands: Array | None) -> tuple[Array, ...]:
    q, k, v = (matrices(call, index).of(x) for index, x in enumerate(operands[:3]) if x is not None)
    mask = operands[3] if len(operands) > 3 else None
    scores = np.matmul(q, np.swapaxes(k, -1, -2)) * call.number("scale")
    cap = call.number("softcap")
    if cap:
        scores = cap * np.tanh(scores / cap)
    if mask is not None:
        scores = scores + mask
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights = weights / weights.sum(-1, keepdims=True)
    if call.integer("zero_rows"):
        weights = np.where(scores.max(-1, keepdims=True) > -np.inf, weights, 0.0)
    result = np.matmul(weights, v)
    return (np.transpose(result, result_order(call)),)


def _needs(call: Call, number: int, box: Box) -> tuple[Box | None, ...]:
    """Return the boxes of operands: all keys of the heads of the wanted rows."""
    places = sorted(zip(result_order(call), box.intervals, strict=True))
    *heads, rows, columns = (interval for _, interval in places)
    q, k, v = (matrices(call, index) for index in range(3))
    keys, channels = ((0, size) for size in k.shape[-2:])
    views = zip((q, k, v), ((rows, channels), (keys, channels), (keys, columns)), strict=True)
    boxes = [view.part(call.shape(at), Box((*heads, *own))) for at, (view, own) in enumerate(views)]
    scores = Box((*heads, rows, keys))
    return (*boxes, broadcast_from(call.shape(3), scores) if call.has(3) else None)


register(
    Operator(
        name="FusedAttention",
        since=1,
        summary="softmax(cap(Q K' scale) + mask) V over the last two axes",
        inputs=(Input("Q", FLOAT), Input("K", FLOAT), Input("V", FLOAT), Input("mask", FLOAT, optional=True)),
        outputs=(Output("Y", FLOAT),),
        attributes=(
            Attribute("scale", "float", 1.0, factor=True),
            *(Attribute(name, "ints", ()) for name in VIEWS),
            Attribute("perm", "ints", ()),
            Attribute("softcap", "float", 0.0),  # cap(s) = softcap tanh(s / softcap); 0: scores as they are
            Attribute("zero_rows", "int", 0, allowed=(0, 1)),  # a row whose keys are all hidden is 0
        ),
        rules=(views_are_inside, result_keeps_rows, matrices_fit, mask_broadcasts),
        shapes=_shapes,
        reference=_attention,
        needs=_needs,
        internal=True,
    )
)
