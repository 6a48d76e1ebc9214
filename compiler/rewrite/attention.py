"""Attention: softmax(Q K' scale + mask) V; the scale may be a factor of the scores or of Q and K.

The mask is added to the scores, or a Where replaces some scores by a very low number.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial, reduce

import numpy as np

from compiler.graph import Array, Node
from compiler.operators.expansion.builder import Builder
from compiler.operators.shapes.movement import permutation
from compiler.operators.types import broadcast_shapes

from .engine import Replacement, Rewrite, RewrittenGraph, can_be_compiled, replacement

_LOW = -1e4
"""Scores this far below the others of their row have no weight."""
_LOWEST = -1e9
"""A score added to this is lost to rounding: fully masked rows get equal weights, as with a Where."""


@dataclass(frozen=True)
class _Scores:
    """Q times the transposed K, times ``scale``, plus ``masks``; or, with ``choice``, selected by a Where."""

    product: Node
    scale: float
    masks: tuple[str, ...] = ()
    choice: _Choice | None = None


@dataclass(frozen=True)
class _Choice:
    """A Where between the scores, operand ``which`` (1 or 2), and a low number."""

    node: Node
    which: int


def _scaled(graph: RewrittenGraph, name: str) -> tuple[str, float]:
    """x and a number, if the value, which has one use, is their product; else the value and 1."""
    node = graph.sole_producer(name, "Mul", "Div")
    if node is None:
        return name, 1.0
    if node.op == "Div":
        divisor = graph.number(node.inputs[1])
        fits = divisor and graph.shape(node.inputs[0]) == graph.shape(name)
        return (node.inputs[0], 1.0 / divisor) if fits and divisor else (name, 1.0)
    found = graph.with_number(node)
    return found if found is not None else (name, 1.0)


def _choice(graph: RewrittenGraph, name: str) -> _Choice | None:
    """The Where that a value is, if its low number may be added to the scores instead."""
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
    """Whether every row takes some element of operand ``which``."""
    return bool(np.all(np.any(condition == (which == 1), axis=-1))) if condition.ndim else False


def _as_addend(build: Builder, choice: _Choice) -> str:
    """The mask to add: 0 where the scores are selected, else the low number."""
    operands = list(choice.node.inputs)
    operands[choice.which] = build.like(choice.node.outputs[0], 0.0)
    return build("Where", *operands)


def _without_masks(graph: RewrittenGraph, name: str) -> tuple[str, tuple[str, ...]] | None:
    """A product, which may be scaled, and the values that are added to it."""
    if graph.sole_producer(_scaled(graph, name)[0], "MatMul") is not None:
        return name, ()
    total = graph.sole_producer(name, "Add")
    for x, other in (total.inputs, total.inputs[::-1]) if total is not None else ():
        found = _without_masks(graph, x) if graph.shape(x) == graph.shape(name) else None
        if found is not None:
            return found[0], (*found[1], other)
    return None


def _scores(graph: RewrittenGraph, name: str) -> _Scores | None:
    """The scores that are the operand of the softmax."""
    choice = _choice(graph, name)
    if choice is not None:
        found: tuple[str, tuple[str, ...]] | None = (choice.node.inputs[choice.which], ())
    else:
        found = _without_masks(graph, name)
    inner, scale = _scaled(graph, found[0]) if found is not None else ("", 1.0)
    product = graph.sole_producer(inner, "MatMul")
    return _Scores(product, scale, found[1], choice) if found is not None and product is not None else None


def _keys(graph: RewrittenGraph, name: str, rank: int) -> tuple[str, tuple[int, ...], float]:
    """K as (x, perm, scale): scale times x with its axes permuted, given the transposed K."""
    inner, scale = _scaled(graph, name)
    order = tuple(range(rank))
    node = graph.producer(inner, "Transpose")
    if node is not None:
        inner, order = node.inputs[0], permutation(graph.call(node))
    inner, before = _scaled(graph, inner)
    return inner, (*order[:-2], order[-1], order[-2]), scale * before


def _attention(graph: RewrittenGraph, node: Node) -> Replacement | None:
    softmax = graph.sole_producer(node.inputs[0], "Softmax")
    rank = len(graph.shape(node.inputs[0]))
    if softmax is None or rank < 2 or graph.call(softmax).integer("axis") not in (-1, rank - 1):
        return None
    scores = _scores(graph, softmax.inputs[0])
    if scores is None:
        return None
    q, *others = (graph.shape(name) for name in (*scores.product.inputs, node.inputs[1]))
    outer = q[:-2]
    if len(q) != rank or any(len(x) != rank or broadcast_shapes(x[:-2], outer) != outer for x in others):
        return None
    whole = graph.shape(softmax.inputs[0])
    if any(broadcast_shapes(graph.shape(mask), whole) != whole for mask in scores.masks):
        return None
    return _made(graph, node, scores, rank)


def _for_all(build: Builder, value: str, outer: tuple[int, ...]) -> str:
    """K or V repeated for the heads that share it."""
    shape = build.shape(value)
    return value if shape[:-2] == outer else build("Expand", value, build.ints(*outer, *shape[-2:]))


def _made(graph: RewrittenGraph, node: Node, scores: _Scores, rank: int) -> Replacement | None:
    q, factor = _scaled(graph, scores.product.inputs[0])
    k, perm, other = _keys(graph, scores.product.inputs[1], rank)
    build = graph.builder(node)
    if perm != tuple(range(rank)):
        k = build("Transpose", k, perm=perm)
    outer = graph.shape(q)[:-2]
    operands = [q, *(_for_all(build, x, outer) for x in (k, node.inputs[1]))]
    if scores.choice is not None:
        operands.append(_as_addend(build, scores.choice))
    elif scores.masks:
        operands.append(reduce(partial(build, "Add"), scores.masks))
    result = build("FusedAttention", *operands, scale=scores.scale * factor * other)
    return replacement(build, result) if can_be_compiled(build) else None


REWRITES = (Rewrite("attention", ("MatMul",), _attention),)
