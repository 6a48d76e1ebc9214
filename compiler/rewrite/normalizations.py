"""Normalizations written in simpler operators: LayerNormalization, RMSNormalization, Softmax."""

from __future__ import annotations

import numpy as np

from compiler.graph import Array, AttrValue, Node
from compiler.operators.norms.composite_norm import MOST_CHANNELS
from compiler.operators.reductions.reduce import reduced_axes
from compiler.operators.types import broadcast_shapes

from .affine import per_channel
from .engine import Replacement, Rewrite, Rewriting, made


def _reduction(g: Rewriting, name: str, *ops: str) -> tuple[str, tuple[int, ...]] | None:
    """Operand and axes of a reduction that keeps them."""
    node = g.maker(name, *ops)
    if node is None or not g.call(node).integer("keepdims"):
        return None
    return node.inputs[0], reduced_axes(g.call(node))


def _last_axes(g: Rewriting, x: str, axes: tuple[int, ...]) -> bool:
    rank = len(g.shape(x))
    return bool(axes) and axes == tuple(range(axes[0], rank))


def _square(g: Rewriting, name: str) -> str | None:
    """x, if the value is x * x or x**2."""
    node = g.maker(name, "Pow", "Mul")
    if node is None:
        return None
    squared = node.inputs[0] == node.inputs[1] if node.op == "Mul" else g.is_number(node.inputs[1], 2.0, 0.0)
    return node.inputs[0] if squared else None


def _root(g: Rewriting, name: str) -> str | None:
    """v, if the value is the square root of v."""
    node = g.maker(name, "Sqrt", "Pow")
    if node is None:
        return None
    return node.inputs[0] if node.op == "Sqrt" or g.is_number(node.inputs[1], 0.5, 0.0) else None


def _inverse_root(g: Rewriting, name: str) -> str | None:
    """v, if the value is 1 / sqrt(v)."""
    node = g.maker(name, "Reciprocal", "Pow", "Div")
    if node is None:
        return None
    if node.op == "Pow":
        return node.inputs[0] if g.is_number(node.inputs[1], -0.5, 0.0) else None
    if node.op == "Reciprocal":
        return _root(g, node.inputs[0])
    return _root(g, node.inputs[1]) if g.is_number(node.inputs[0], 1.0, 0.0) else None


def _over_root(g: Rewriting, node: Node) -> tuple[str, str] | None:
    """(x, v), if a node is x / sqrt(v)."""
    if node.op == "Div":
        under = _root(g, node.inputs[1])
        return (node.inputs[0], under) if under is not None else None
    for x, other in (node.inputs, node.inputs[::-1]):
        under = _inverse_root(g, other)
        if under is not None:
            return x, under
    return None


def _mean_square(g: Rewriting, name: str) -> tuple[str, tuple[int, ...], float] | None:
    """(x, axes, epsilon), if the value is the mean of x * x over axes plus a number."""
    node = g.maker(name, "Add")
    found = g.with_number(node) if node is not None else None
    mean = _reduction(g, found[0], "ReduceMean") if found is not None else None
    x = _square(g, mean[0]) if mean is not None else None
    if found is None or mean is None or x is None or found[1] < 0:
        return None
    return x, mean[1], found[1]


def _centred(g: Rewriting, name: str, axes: tuple[int, ...]) -> str | None:
    """x, if the value is x less its mean over axes."""
    node = g.maker(name, "Sub")
    mean = _reduction(g, node.inputs[1], "ReduceMean") if node is not None else None
    return node.inputs[0] if node is not None and mean == (node.inputs[0], axes) else None


def _normalization(g: Rewriting, node: Node) -> Replacement | None:
    """(x - mean) / sqrt(variance + epsilon), and the same without the mean."""
    quotient = _over_root(g, node)
    spread = _mean_square(g, quotient[1]) if quotient is not None else None
    if quotient is None or spread is None:
        return None
    top, (squared, axes, epsilon) = quotient[0], spread
    x = _centred(g, squared, axes)
    if x is not None and (top == squared or _centred(g, top, axes) == x):
        op = "LayerNormalization"
    elif top == squared:
        x, op = squared, "RMSNormalization"
    else:
        return None
    if not _last_axes(g, x, axes):
        return None
    b = g.builder(node)
    ones = b.constant(np.ones(g.shape(x)[axes[0] :]), b.dtype(x))
    return made(b, b(op, x, ones, axis=axes[0], epsilon=epsilon))


def _within(g: Rewriting, name: str, node: Node) -> bool:
    """Whether a parameter varies only along the normalized axes of a normalization."""
    shape = g.shape(node.outputs[0])
    axis = g.call(node).integer("axis") % len(shape)
    return broadcast_shapes(g.shape(name), shape[axis:]) == shape[axis:]


def _scaled(g: Rewriting, node: Node) -> Replacement | None:
    """A factor behind a normalization without shift becomes its scale."""
    for x, factor in (node.inputs, node.inputs[::-1]):
        inner = g.sole(x, "LayerNormalization", "RMSNormalization")
        if inner is None or len(inner.inputs) > 2 or not _within(g, factor, inner):
            continue
        b = g.builder(node)
        given, other = g.array(inner.inputs[1]), g.array(factor)
        axis = g.call(inner).integer("axis") % len(g.shape(x))
        if given is None:
            continue
        if other is not None:
            product = np.asarray(given, np.float64) * np.asarray(other, np.float64)
            scale = b.constant(product, b.dtype(inner.inputs[1]))
        elif np.all(np.asarray(given, np.float64) == 1.0) and g.shape(factor) == g.shape(x)[axis:]:
            scale = factor
        else:
            continue
        return made(b, b(inner.op, inner.inputs[0], scale, **dict(inner.attrs)))
    return None


def _shifted(g: Rewriting, node: Node) -> Replacement | None:
    """An addend behind a LayerNormalization without shift becomes its shift."""
    for x, addend in (node.inputs, node.inputs[::-1]):
        inner = g.sole(x, "LayerNormalization")
        if inner is None or len(inner.inputs) > 2 or not _within(g, addend, inner):
            continue
        b = g.builder(node)
        given = g.array(addend)
        axis = g.call(inner).integer("axis") % len(g.shape(x))
        shape = g.shape(x)[axis:]
        if given is not None:
            addend = b.constant(np.broadcast_to(given, shape), b.dtype(x))
        elif g.shape(addend) != shape:
            continue
        return made(b, b("LayerNormalization", *inner.inputs, addend, **dict(inner.attrs)))
    return None


def _softmax(g: Rewriting, node: Node) -> Replacement | None:
    """exp(x - max) / sum, along one axis; with or without the largest element taken away."""
    exponential = g.sole(node.inputs[0], "Exp", uses=2)
    total = g.sole(node.inputs[1], "ReduceSum")
    if exponential is None or total is None or total.inputs[0] != node.inputs[0]:
        return None
    found = _reduction(g, node.inputs[1], "ReduceSum")
    if found is None or len(found[1]) != 1:
        return None
    x = exponential.inputs[0]
    less = g.sole(x, "Sub")
    largest = _reduction(g, less.inputs[1], "ReduceMax") if less is not None else None
    if less is not None and largest == (less.inputs[0], found[1]):
        x = less.inputs[0]
    b = g.builder(node)
    return made(b, b("Softmax", x, axis=found[1][0]))


def _grouped(g: Rewriting, node: Node) -> Replacement | None:
    """An InstanceNormalization of groups of channels, which are one channel each for as long."""
    inner = g.sole(node.inputs[0], "InstanceNormalization")
    before = g.sole(inner.inputs[0], "Reshape") if inner is not None else None
    if inner is None or before is None:
        return None
    x, shape, groups = before.inputs[0], g.shape(node.outputs[0]), g.shape(inner.inputs[0])[:2]
    scale, shift = g.array(inner.inputs[1]), g.array(inner.inputs[2])
    if scale is None or shift is None or g.shape(x) != shape or len(shape) < 3 or shape[1] > MOST_CHANNELS:
        return None
    if groups[0] != shape[0] or shape[1] % groups[1]:
        return None
    return _groups(
        g,
        node,
        x,
        scale.repeat(shape[1] // groups[1]),
        shift.repeat(shape[1] // groups[1]),
        groups=groups[1],
        epsilon=g.call(inner).number("epsilon"),
    )


def _groups(g: Rewriting, node: Node, x: str, scale: Array, shift: Array, **attrs: AttrValue) -> Replacement:
    b = g.builder(node)
    vectors = (b.constant(np.asarray(array, np.float64), b.dtype(x)) for array in (scale, shift))
    return made(b, b("NormalizedGroups", x, *vectors, **attrs))


def _grouped_affine(g: Rewriting, node: Node) -> Replacement | None:
    """A factor or an addend for each channel behind normalized groups is part of their scale and shift."""
    for x, other in (node.inputs, node.inputs[::-1]):
        inner, array = g.sole(x, "NormalizedGroups"), g.array(other)
        if inner is None or array is None or g.shape(x) != g.shape(node.outputs[0]):
            continue
        shape = g.shape(x)
        numbers = per_channel(array, len(shape), 1, shape[1])
        given = [g.array(name) for name in inner.inputs[1:]]
        if numbers is None or not np.isfinite(numbers).all() or any(one is None for one in given):
            continue
        scale, shift = (np.asarray(one, np.float64) for one in given)
        if node.op == "Mul":
            scale, shift = scale * numbers, shift * numbers
        else:
            shift = shift + numbers
        return _groups(g, node, inner.inputs[0], scale, shift, **dict(inner.attrs))
    return None


_FINITE = ("MatMul", "Gemm", "Tanh", "Sigmoid")
_FINITE_OF_FINITE = (
    *("Add", "Sub", "Mul", "Neg", "Min", "Max", "Where", "Cast", "Concat"),
    *("Reshape", "Transpose", "Unsqueeze", "Squeeze", "Expand", "Slice", "Gather", "GatherND"),
)


def _is_finite(g: Rewriting, name: str) -> bool:
    """Whether a value has no infinities unless an operand of the graph has some, or a sum overflows."""
    array = g.array(name)
    if array is not None:
        return bool(np.isfinite(array).all())
    if g.maker(name, *_FINITE) is not None:
        return True
    node = g.maker(name, "Div", *_FINITE_OF_FINITE)
    if node is None:
        return False
    if node.op == "Div":
        return bool(g.number(node.inputs[1])) and _is_finite(g, node.inputs[0])
    return all(_is_finite(g, item) for item in node.inputs if g.tensor(item).is_float)


def _rows_have_weights(g: Rewriting, name: str) -> bool:
    """Whether every row of scores has a finite one: no constant mask takes all of them away."""
    node = g.maker(name, "Add")
    for x, mask in (node.inputs, node.inputs[::-1]) if node is not None else ():
        array = g.array(mask)
        if array is not None and array.ndim and _is_finite(g, x):
            return bool(np.isfinite(np.asarray(array, np.float64)).any(axis=-1).all())
    return _is_finite(g, name)


def _guarded(g: Rewriting, node: Node) -> Replacement | None:
    """Zeros in the place of the NaN of a softmax over rows without weights, where there are no such rows."""
    condition = g.sole(node.inputs[0], "IsNaN")
    softmax = g.sole(node.inputs[2], "Softmax", uses=2)
    if condition is None or softmax is None or condition.inputs[0] != node.inputs[2]:
        return None
    last = g.call(softmax).integer("axis") in (-1, len(g.shape(node.inputs[2])) - 1)
    if not last or g.number(node.inputs[1]) != 0.0 or not _rows_have_weights(g, softmax.inputs[0]):
        return None
    return Replacement((), node.inputs[2]) if g.shape(node.inputs[2]) == g.shape(node.outputs[0]) else None


REWRITES = (
    Rewrite("softmax", ("Div",), _softmax),
    Rewrite("guarded-softmax", ("Where",), _guarded),
    Rewrite("normalization-of-groups", ("Reshape",), _grouped),
    Rewrite("affine-normalization-of-groups", ("Mul", "Add"), _grouped_affine),
    Rewrite("normalization", ("Div", "Mul"), _normalization),
    Rewrite("normalization-scale", ("Mul",), _scaled),
    Rewrite("normalization-shift", ("Add",), _shifted),
)
