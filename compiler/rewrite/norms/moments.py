"""Layer normalizations over any axes, with scale and shift, from separately computed moments.

JAX writes the variance as the mean of squares minus the square of the mean. It multiplies 1 / sqrt(variance)
by the scale before the data. TensorFlow adds shift - mean * scale / sqrt(variance). The sum of squares, which
FP16 cannot hold, is then inside one operator, which computes in FP32.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from compiler.graph import Node
from compiler.operators.expansion.builder import Builder
from compiler.rewrite.engine import Replacement, Rewrite, RewrittenGraph, replacement

from .parts import Reduced, along, broadcasts, centred, inverse_root, mean_of, root, shown, variance_of


class Spread(NamedTuple):
    """``scale`` / sqrt(variance + ``epsilon``) of a reduced value; without a scale it is 1."""

    reduced: Reduced
    epsilon: float
    scale: str | None = None


def _spread(graph: RewrittenGraph, name: str) -> Spread | None:
    """Read a factor of a normalization as a scale over the root of a variance."""
    inner = shown(graph, name)
    found = _inverse(graph, inverse_root(graph, inner))
    if found is not None:
        return found if broadcasts(graph, name, found.reduced) else None
    node = graph.producer(inner, "Mul")
    for factor, scale in (node.inputs, node.inputs[::-1]) if node is not None else ():
        found = _inverse(graph, inverse_root(graph, shown(graph, factor)))
        if found is None or graph.array(scale) is None or not broadcasts(graph, factor, found.reduced):
            continue
        return found._replace(scale=scale) if inner == name else None
    return None


def _inverse(graph: RewrittenGraph, under: str | None) -> Spread | None:
    """Return the variance and epsilon under a root."""
    node = graph.producer(shown(graph, under), "Add") if under is not None else None
    for variance, epsilon in (node.inputs, node.inputs[::-1]) if node is not None else ():
        number, found = graph.number(epsilon), variance_of(graph, variance)
        if number is not None and number >= 0 and found is not None:
            return Spread(found, number)
    return None


def _centred_product(graph: RewrittenGraph, node: Node) -> Replacement | None:
    """(x - mean) / sqrt(variance + epsilon), or this with the root multiplied by a scale first."""
    if node.op == "Div":
        spread = _inverse(graph, root(graph, shown(graph, node.inputs[1])))
        if spread is None or not broadcasts(graph, node.inputs[1], spread.reduced):
            return None
        pairs = [(node.inputs[0], spread)]
    else:
        both = (node.inputs, node.inputs[::-1])
        pairs = [(x, spread) for x, other in both if (spread := _spread(graph, other)) is not None]
    for x, spread in pairs:
        if centred(graph, x) == spread.reduced and graph.shape(x) == graph.shape(node.outputs[0]):
            return _normalized(graph, node, spread, None)
    return None


def _shifted_product(graph: RewrittenGraph, node: Node) -> Replacement | None:
    """x * s + (shift - mean * s), where s is scale / sqrt(variance + epsilon)."""
    for product, rest in (node.inputs, node.inputs[::-1]):
        one, less = graph.producer(product, "Mul"), graph.producer(rest, "Sub")
        other = graph.producer(less.inputs[1], "Mul") if less is not None else None
        if one is None or less is None or other is None or graph.array(less.inputs[0]) is None:
            continue
        for x, factor in (one.inputs, one.inputs[::-1]):
            spread = _spread(graph, factor)
            if spread is None or spread.reduced[0] != x or factor not in other.inputs:
                continue
            mean = other.inputs[other.inputs[0] == factor]
            if mean_of(graph, mean) == spread.reduced and broadcasts(graph, mean, spread.reduced):
                return _normalized(graph, node, spread, less.inputs[0])
    return None


def _normalized(graph: RewrittenGraph, node: Node, spread: Spread, shift: str | None) -> Replacement | None:
    """Make a LayerNormalization with the axes last.

    None for a scale or shift that varies along other axes.
    """
    x, axes = spread.reduced
    shape = graph.shape(x)
    if not axes:
        return None
    build = graph.builder(node)
    inner = tuple(shape[axis] for axis in axes)
    given = []
    for name in (spread.scale, shift):
        array = graph.array(name) if name is not None else None
        vector = along(array, shape, axes) if array is not None else np.ones(inner)
        if vector is None:
            return None
        given.append(build.constant(vector, build.dtype(x)))
    order = (*(axis for axis in range(len(shape)) if axis not in axes), *axes)
    first = len(order) - len(axes)
    moved = _permuted(build, x, order)
    operands = given if shift is not None else given[:1]
    result = build("LayerNormalization", moved, *operands, axis=first, epsilon=spread.epsilon)
    return replacement(build, _permuted(build, result, tuple(int(at) for at in np.argsort(order))))


def _permuted(build: Builder, name: str, order: tuple[int, ...]) -> str:
    """Permute the axes, unless they are in this order already."""
    return name if order == tuple(range(len(order))) else build("Transpose", name, perm=order)


def _shift_after_transpose(graph: RewrittenGraph, node: Node) -> Replacement | None:
    """A constant that is added after the transpose of normalized axes becomes the shift."""
    for x, addend in (node.inputs, node.inputs[::-1]):
        back = graph.sole_producer(x, "Transpose")
        inner = graph.sole_producer(back.inputs[0], "LayerNormalization") if back is not None else None
        array, shape = graph.array(addend), graph.shape(x)
        if back is None or inner is None or len(inner.inputs) > 2 or array is None:
            continue
        perm = graph.call(back).integers("perm") or tuple(range(len(shape)))[::-1]
        first = graph.call(inner).integer("axis") % len(shape)
        axes = tuple(perm.index(axis) for axis in range(first, len(shape)))
        vector = along(array, shape, axes) if shape == graph.shape(node.outputs[0]) else None
        if vector is None:
            continue
        build = graph.builder(node)
        shift = build.constant(vector, build.dtype(x))
        result = build("LayerNormalization", *inner.inputs, shift, **dict(inner.attrs))
        return replacement(build, build("Transpose", result, perm=perm))
    return None


REWRITES = (
    Rewrite("normalization-of-moments", ("Mul", "Div"), _centred_product),
    Rewrite("shifted-normalization-of-moments", ("Add",), _shifted_product),
    Rewrite("normalization-shift-after-transpose", ("Add",), _shift_after_transpose),
)
