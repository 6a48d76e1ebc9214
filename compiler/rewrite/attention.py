"""Attention: softmax(Q K' scale + mask) V; the scale may be at the scores or at Q and K.

The mask is added to the scores, or a Where puts a very low number in the place of some.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from compiler.graph import Array, Node
from compiler.operators.expansion import Builder
from compiler.operators.movement import permutation
from compiler.operators.types import broadcast_shapes
from compiler.rewrite.engine import Replacement, Rewrite, Rewriting, can_be_compiled, made

_LOW = -1e4
"""What is this far below the other scores of its row has no weight."""
_LOWEST = -1e9
"""Scores added to this vanish, so that rows of which nothing is taken get equal weights, as with a Where."""


@dataclass(frozen=True)
class _Scores:
    """A product of Q and the transposed K, times ``scale``, plus ``mask``, or where ``choice`` takes them."""

    product: Node
    scale: float
    mask: str | None = None
    choice: _Choice | None = None


@dataclass(frozen=True)
class _Choice:
    """A Where that takes operand ``which`` (1 or 2), or a low number."""

    node: Node
    which: int


def _scaled(g: Rewriting, name: str) -> tuple[str, float]:
    """x and the number by which it is multiplied in a value that nobody else reads."""
    node = g.sole(name, "Mul", "Div")
    if node is None:
        return name, 1.0
    if node.op == "Div":
        divisor = g.number(node.inputs[1])
        fits = divisor and g.shape(node.inputs[0]) == g.shape(name)
        return (node.inputs[0], 1.0 / divisor) if fits and divisor else (name, 1.0)
    found = g.with_number(node)
    return found if found is not None else (name, 1.0)


def _choice(g: Rewriting, name: str) -> _Choice | None:
    """The Where that a value is, if the other operand is low enough to be an addend as well."""
    node = g.sole(name, "Where")
    if node is None:
        return None
    for which in (1, 2):
        least = g.number(node.inputs[3 - which])
        if least is None or g.shape(node.inputs[which]) != g.shape(name):
            continue
        taken = g.array(node.inputs[0])
        if least <= _LOWEST or (least <= _LOW and taken is not None and _in_every_row(taken, which)):
            return _Choice(node, which)
    return None


def _in_every_row(condition: Array, which: int) -> bool:
    """Whether every row takes some element of operand ``which``."""
    return bool(np.all(np.any(condition == (which == 1), axis=-1))) if condition.ndim else False


def _as_addend(b: Builder, choice: _Choice) -> str:
    """0 where the scores are taken, else the number."""
    operands = list(choice.node.inputs)
    operands[choice.which] = b.like(choice.node.outputs[0], 0.0)
    return b("Where", *operands)


def _scores(g: Rewriting, name: str) -> _Scores | None:
    """What the operand of the softmax is made of."""
    mask, choice = None, _choice(g, name)
    if choice is not None:
        name = choice.node.inputs[choice.which]
    total = g.sole(name, "Add") if choice is None else None
    if total is not None:
        for x, other in (total.inputs, total.inputs[::-1]):
            if g.sole(_scaled(g, x)[0], "MatMul") is not None and g.shape(x) == g.shape(name):
                name, mask = x, other
                break
        else:
            return None
    inner, scale = _scaled(g, name)
    product = g.sole(inner, "MatMul")
    return _Scores(product, scale, mask, choice) if product is not None else None


def _keys(g: Rewriting, name: str, rank: int) -> tuple[str, tuple[int, ...], float]:
    """K as (x, perm, scale): the transposed K is x with its axes permuted, the last two once more."""
    inner, scale = _scaled(g, name)
    order = tuple(range(rank))
    node = g.maker(inner, "Transpose")
    if node is not None:
        inner, order = node.inputs[0], permutation(g.call(node))
    inner, before = _scaled(g, inner)
    return inner, (*order[:-2], order[-1], order[-2]), scale * before


def _attention(g: Rewriting, node: Node) -> Replacement | None:
    softmax = g.sole(node.inputs[0], "Softmax")
    rank = len(g.shape(node.inputs[0]))
    if softmax is None or rank < 2 or g.call(softmax).integer("axis") not in (-1, rank - 1):
        return None
    scores = _scores(g, softmax.inputs[0])
    if scores is None:
        return None
    shapes = [g.shape(name) for name in (*scores.product.inputs, node.inputs[1])]
    if any(len(shape) != rank or shape[:-2] != shapes[0][:-2] for shape in shapes):
        return None
    whole = g.shape(softmax.inputs[0])
    if scores.mask is not None and broadcast_shapes(g.shape(scores.mask), whole) != whole:
        return None
    return _made(g, node, scores, rank)


def _made(g: Rewriting, node: Node, scores: _Scores, rank: int) -> Replacement | None:
    q, factor = _scaled(g, scores.product.inputs[0])
    k, perm, other = _keys(g, scores.product.inputs[1], rank)
    b = g.builder(node)
    if perm != tuple(range(rank)):
        k = b("Transpose", k, perm=perm)
    operands = [q, k, node.inputs[1]]
    if scores.choice is not None:
        operands.append(_as_addend(b, scores.choice))
    elif scores.mask is not None:
        operands.append(scores.mask)
    result = b("FusedAttention", *operands, scale=scores.scale * factor * other)
    return made(b, result) if can_be_compiled(b) else None


REWRITES = (Rewrite("attention", ("MatMul",), _attention),)
