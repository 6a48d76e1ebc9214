"""Attention: softmax(cap(Q K' scale) + mask) V; the scale may be a factor of the scores or of Q and K.

Masks are added to the scores, or a Where replaces some scores by a very low number. A Where after the softmax
may set the rows whose keys are all hidden to 0.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial, reduce

import numpy as np

from compiler.graph import Array, AttrValue, Node
from compiler.operators.expansion.builder import Builder
from compiler.operators.shapes.movement import permutation
from compiler.operators.types import broadcast_shapes

from .engine import Replacement, Rewrite, RewrittenGraph, can_be_compiled, replacement

_LOW = -1e4
"""Scores that are lower than others of their row by this much have no weight."""
_LOWEST = -1e9
"""A score is lost to rounding when this is added: fully masked rows get equal weights, as with a Where."""


@dataclass(frozen=True)
class _Choice:
    """A Where between the scores, operand ``which`` (1 or 2), and a low number."""

    node: Node
    which: int


@dataclass(frozen=True)
class _Scores:
    """Q times the transposed K, times ``scale``, bounded by ``cap`` unless that is 0, plus ``masks``."""

    product: Node
    scale: float
    cap: float = 0.0
    masks: tuple[str | _Choice, ...] = ()


def _scaled(graph: RewrittenGraph, name: str) -> tuple[str, float]:
    """Split a value into x and a factor, if each step to x has one use; otherwise return the value and 1."""
    scale = 1.0
    while (node := graph.sole_producer(name, "Mul", "Div")) is not None:
        if node.op == "Mul":
            found = graph.with_number(node)
        else:
            divisor = graph.number(node.inputs[1])
            same = graph.shape(node.inputs[0]) == graph.shape(name)
            found = (node.inputs[0], 1.0 / divisor) if divisor and same else None
        if found is None:
            break
        name, scale = found[0], scale * found[1]
    return name, scale


def _choice(graph: RewrittenGraph, name: str) -> _Choice | None:
    """Return the Where that computes a value, if its low number may be added to the scores instead."""
    node = graph.sole_producer(name, "Where")
    if node is None:
        return None
    for which in (1, 2):
        least = graph.number(node.inputs[3 - which])
        if least is None or graph.shape(node.inputs[which]) != graph.shape(name):
            continue
        taken = graph.array(node.inputs[0])
        if least <= _LOWEST or (least <= _LOW and taken is not None and _in_every_row(taken, which)):
            return _Choice(node, which)
    return None


def _in_every_row(condition: Array, which: int) -> bool:
    """Return True if every row selects some element of operand ``which``."""
    return bool(np.all(np.any(condition == (which == 1), axis=-1))) if condition.ndim else False


def _as_addend(build: Builder, choice: _Choice) -> str:
    """Return the mask to add: 0 where the scores are selected, else the low number."""
    operands = list(choice.node.inputs)
    operands[choice.which] = build.like(choice.node.outputs[0], 0.0)
    return build("Where", *operands)


def _product(graph: RewrittenGraph, name: str) -> _Scores | None:
    """Return scores without masks: a product, which may be scaled and bounded by a Tanh."""
    inner, scale = _scaled(graph, name)
    product = graph.sole_producer(inner, "MatMul")
    if product is not None:
        return _Scores(product, scale)
    tanh = graph.sole_producer(inner, "Tanh")
    inner, factor = _scaled(graph, tanh.inputs[0]) if tanh is not None and scale > 0 else ("", 0.0)
    product = graph.sole_producer(inner, "MatMul")
    return _Scores(product, factor * scale, scale) if product is not None else None


def _scores(graph: RewrittenGraph, name: str) -> _Scores | None:
    """Return the scores that are the operand of the softmax."""
    found = _product(graph, name)
    if found is not None:
        return found
    choice = _choice(graph, name)
    if choice is not None:
        return _masked(graph, choice.node.inputs[choice.which], choice)
    total = graph.sole_producer(name, "Add")
    for x, other in (total.inputs, total.inputs[::-1]) if total is not None else ():
        found = _masked(graph, x, other) if graph.shape(x) == graph.shape(name) else None
        if found is not None:
            return found
    return None


def _masked(graph: RewrittenGraph, name: str, mask: str | _Choice) -> _Scores | None:
    """Return scores with one more mask."""
    found = _scores(graph, name)
    return replace(found, masks=(*found.masks, mask)) if found is not None else None


@dataclass(frozen=True)
class _Weights:
    """A softmax. ``zeros``: rows without any key are 0.

    Such a softmax names these rows with ``mask``, which must then be the only mask.
    """

    softmax: Node
    zeros: bool = False
    mask: str | None = None


def _weights(graph: RewrittenGraph, name: str) -> _Weights | None:
    """Return the softmax that makes a value, with or without a Where that sets some rows to 0."""
    softmax = graph.sole_producer(name, "Softmax")
    if softmax is not None:
        return _Weights(softmax)
    choice = graph.sole_producer(name, "Where")
    if choice is None or graph.number(choice.inputs[1]) != 0:
        return None
    condition, _, weights = choice.inputs
    undefined, equal = graph.producer(condition, "IsNaN"), graph.producer(condition, "Equal")
    if undefined is not None and undefined.inputs[0] == weights:
        softmax = graph.sole_producer(weights, "Softmax", uses=2)
        return _Weights(softmax, zeros=True) if softmax is not None else None
    softmax = graph.sole_producer(weights, "Softmax")
    if softmax is None or equal is None:
        return None
    for x, other in (equal.inputs, equal.inputs[::-1]):
        largest = graph.producer(x, "ReduceMax")
        if largest is not None and graph.number(other) == -np.inf:
            mask = largest.inputs[0]
            if graph.shape(mask)[-1] > 1 and graph.shape(x) == (*graph.shape(mask)[:-1], 1):
                return _Weights(softmax, zeros=True, mask=mask)
    return None


def _keys(graph: RewrittenGraph, name: str, rank: int) -> tuple[str, tuple[int, ...], float]:
    """Return K as (x, perm, scale) from the transposed K, which is scale times x with its axes permuted."""
    inner, scale = _scaled(graph, name)
    order = tuple(range(rank))
    node = graph.producer(inner, "Transpose")
    if node is not None:
        inner, order = node.inputs[0], permutation(graph.call(node))
    inner, before = _scaled(graph, inner)
    return inner, (*order[:-2], order[-1], order[-2]), scale * before


def _attention(graph: RewrittenGraph, node: Node) -> Replacement | None:
    weights, rank = _weights(graph, node.inputs[0]), len(graph.shape(node.inputs[0]))
    if weights is None or rank < 2 or graph.call(weights.softmax).integer("axis") not in (-1, rank - 1):
        return None
    scores = _scores(graph, weights.softmax.inputs[0])
    if scores is None or (weights.mask is not None and scores.masks != (weights.mask,)):
        return None
    q, *others = (graph.shape(name) for name in (*scores.product.inputs, node.inputs[1]))
    outer = q[:-2]
    if len(q) != rank or any(len(x) != rank or broadcast_shapes(x[:-2], outer) != outer for x in others):
        return None
    whole = graph.shape(weights.softmax.inputs[0])
    masks = [graph.shape(mask) for mask in scores.masks if isinstance(mask, str)]
    if any(broadcast_shapes(mask, whole) != whole for mask in masks):
        return None
    return _made(graph, node, scores, weights.zeros)


def _for_all(build: Builder, value: str, outer: tuple[int, ...]) -> str:
    """Expand K or V to all heads that share it."""
    shape = build.shape(value)
    return value if shape[:-2] == outer else build("Expand", value, build.ints(*outer, *shape[-2:]))


def _made(graph: RewrittenGraph, node: Node, scores: _Scores, zeros: bool) -> Replacement | None:
    q, factor = _scaled(graph, scores.product.inputs[0])
    rank = len(graph.shape(q))
    k, perm, other = _keys(graph, scores.product.inputs[1], rank)
    build = graph.builder(node)
    if perm != tuple(range(rank)):
        k = build("Transpose", k, perm=perm)
    outer = graph.shape(q)[:-2]
    operands = [q, *(_for_all(build, x, outer) for x in (k, node.inputs[1]))]
    attrs: dict[str, AttrValue] = {"scale": scores.scale * factor * other}
    if scores.cap:
        attrs["softcap"] = scores.cap
    if scores.masks:
        masks = [mask if isinstance(mask, str) else _as_addend(build, mask) for mask in scores.masks]
        operands.append(reduce(partial(build, "Add"), masks))
        if zeros and not _seen_by_all(graph.array(operands[3])):
            if graph.shape(operands[3])[-1:] != graph.shape(k)[-2:-1]:
                return None
            attrs["zero_rows"] = 1
    result = build("FusedAttention", *operands, **attrs)
    return replacement(build, result) if can_be_compiled(build) else None


def _seen_by_all(mask: Array | None) -> bool:
    """Return True if a mask is known, and leaves some key in every row."""
    return mask is not None and bool(np.all(mask.max(axis=-1) > -np.inf))


REWRITES = (Rewrite("attention", ("MatMul",), _attention),)
