"""Attention: softmax(Q K' scale + mask) V; the scale may be at the scores or at Q and K."""

from __future__ import annotations

from dataclasses import dataclass

from compiler.graph import Node
from compiler.operators.movement import permutation
from compiler.operators.types import broadcast_shapes
from compiler.rewrite.engine import Replacement, Rewrite, Rewriting, can_be_compiled, made


@dataclass(frozen=True)
class _Scores:
    """A product of Q and the transposed K, times ``scale``, plus ``mask``."""

    product: Node
    scale: float
    mask: str | None


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


def _scores(g: Rewriting, name: str) -> _Scores | None:
    """What the operand of the softmax is made of."""
    mask = None
    total = g.sole(name, "Add")
    if total is not None:
        for x, other in (total.inputs, total.inputs[::-1]):
            if g.sole(_scaled(g, x)[0], "MatMul") is not None and g.shape(x) == g.shape(name):
                name, mask = x, other
                break
        else:
            return None
    inner, scale = _scaled(g, name)
    product = g.sole(inner, "MatMul")
    return _Scores(product, scale, mask) if product is not None else None


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
    operands = [q, k, node.inputs[1], *([] if scores.mask is None else [scores.mask])]
    result = b("FusedAttention", *operands, scale=scores.scale * factor * other)
    return made(b, result) if can_be_compiled(b) else None


REWRITES = (Rewrite("attention", ("MatMul",), _attention),)
