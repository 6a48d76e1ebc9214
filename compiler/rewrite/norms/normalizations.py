"""Normalizations written in simpler operators: of layers, of groups, by the root mean square; Softmax."""

from __future__ import annotations

import math

import numpy as np

from compiler.graph import Array, AttrValue, Node
from compiler.operators.norms.groups import MOST_CHANNELS
from compiler.operators.reductions.axes import reduced_axes
from compiler.operators.types import broadcast_shapes
from compiler.rewrite.affine import per_channel
from compiler.rewrite.engine import Replacement, Rewrite, RewrittenGraph, replacement

from .parts import along, broadcasts, inverse_root, root, shown, square


def _reduction(graph: RewrittenGraph, name: str, *ops: str) -> tuple[str, tuple[int, ...]] | None:
    """Return the operand and axes of a reduction with keepdims."""
    node = graph.producer(name, *ops)
    if node is None or not graph.call(node).integer("keepdims"):
        return None
    return node.inputs[0], reduced_axes(graph.call(node))


def _last_axes(graph: RewrittenGraph, name: str, axes: tuple[int, ...]) -> bool:
    rank = len(graph.shape(name))
    return bool(axes) and axes == tuple(range(axes[0], rank))


def _over_root(graph: RewrittenGraph, node: Node) -> tuple[str, str] | None:
    """Return (x, v), if a node is x / sqrt(v)."""
    if node.op == "Div":
        under = root(graph, node.inputs[1])
        return (node.inputs[0], under) if under is not None else None
    for x, other in (node.inputs, node.inputs[::-1]):
        under = inverse_root(graph, other)
        if under is not None:
            return x, under
    return None


def _mean_square(graph: RewrittenGraph, name: str) -> tuple[str, tuple[int, ...], float] | None:
    """Return (x, axes, epsilon), if the value is the mean of x * x over axes plus a number."""
    node = graph.producer(name, "Add")
    found = graph.with_number(node) if node is not None else None
    mean = _reduction(graph, found[0], "ReduceMean") if found is not None else None
    x = square(graph, mean[0]) if mean is not None else None
    if found is None or mean is None or x is None or found[1] < 0:
        return None
    return x, mean[1], found[1]


def _centred(graph: RewrittenGraph, name: str, axes: tuple[int, ...]) -> str | None:
    """Return x, if the value is x minus its mean over axes."""
    node = graph.producer(name, "Sub")
    mean = _reduction(graph, node.inputs[1], "ReduceMean") if node is not None else None
    return node.inputs[0] if node is not None and mean == (node.inputs[0], axes) else None


def _normalization(graph: RewrittenGraph, node: Node) -> Replacement | None:
    """(x - mean) / sqrt(variance + epsilon), with or without the mean."""
    quotient = _over_root(graph, node)
    spread = _mean_square(graph, quotient[1]) if quotient is not None else None
    if quotient is None or spread is None:
        return None
    top, (squared, axes, epsilon) = quotient[0], spread
    x = _centred(graph, squared, axes)
    if x is not None and (top == squared or _centred(graph, top, axes) == x):
        op = "LayerNormalization"
    elif top == squared:
        x, op = squared, "RMSNormalization"
    else:
        return None
    if not _last_axes(graph, x, axes):
        return None
    build = graph.builder(node)
    ones = build.constant(np.ones(graph.shape(x)[axes[0] :]), build.dtype(x))
    return replacement(build, build(op, x, ones, axis=axes[0], epsilon=epsilon))


def _within(graph: RewrittenGraph, name: str, node: Node) -> bool:
    """Return True if a parameter varies only along the normalized axes of a normalization."""
    shape = graph.shape(node.outputs[0])
    axis = graph.call(node).integer("axis") % len(shape)
    if (array := graph.array(name)) is not None:
        return along(array, shape, tuple(range(axis, len(shape)))) is not None
    return broadcast_shapes(graph.shape(name), shape[axis:]) == shape[axis:]


def _scaled(graph: RewrittenGraph, node: Node) -> Replacement | None:
    """A factor after a normalization without shift becomes its scale."""
    for x, factor in (node.inputs, node.inputs[::-1]):
        inner = graph.sole_producer(x, "LayerNormalization", "RMSNormalization")
        if inner is None or len(inner.inputs) > 2 or not _within(graph, factor, inner):
            continue
        build = graph.builder(node)
        given, other = graph.array(inner.inputs[1]), graph.array(factor)
        axis = graph.call(inner).integer("axis") % len(graph.shape(x))
        if given is None:
            continue
        if other is not None:
            axes = tuple(range(axis, len(graph.shape(x))))
            product = np.asarray(given, np.float64) * np.asarray(along(other, graph.shape(x), axes))
            scale = build.constant(product, build.dtype(inner.inputs[1]))
        elif np.all(np.asarray(given, np.float64) == 1.0) and graph.shape(factor) == graph.shape(x)[axis:]:
            scale = factor
        else:
            continue
        return replacement(build, build(inner.op, inner.inputs[0], scale, **dict(inner.attrs)))
    return None


def _shifted(graph: RewrittenGraph, node: Node) -> Replacement | None:
    """An addend after a LayerNormalization without shift becomes its shift."""
    for x, addend in (node.inputs, node.inputs[::-1]):
        inner = graph.sole_producer(x, "LayerNormalization")
        if inner is None or len(inner.inputs) > 2 or not _within(graph, addend, inner):
            continue
        build = graph.builder(node)
        given = graph.array(addend)
        axis = graph.call(inner).integer("axis") % len(graph.shape(x))
        shape = graph.shape(x)[axis:]
        if given is not None:
            axes = tuple(range(axis, len(graph.shape(x))))
            addend = build.constant(np.asarray(along(given, graph.shape(x), axes)), build.dtype(x))
        elif graph.shape(addend) != shape:
            continue
        return replacement(build, build("LayerNormalization", *inner.inputs, addend, **dict(inner.attrs)))
    return None


def _mean(graph: RewrittenGraph, node: Node) -> Replacement | None:
    """A sum over axes, divided by the number of elements that were added, as JAX writes a mean.

    TensorFlow multiplies by one over that number.
    """
    given = graph.with_number(node) if node.op == "Mul" else (node.inputs[0], graph.number(node.inputs[1]))
    total = graph.sole_producer(given[0], "ReduceSum") if given is not None else None
    if given is None or total is None or given[1] is None:
        return None
    x, axes = total.inputs[0], reduced_axes(graph.call(total))
    count = math.prod(graph.shape(x)[axis] for axis in axes)
    exact = given[1] == (np.float32(1 / count) if node.op == "Mul" else count)
    if not exact or count == 1 or graph.shape(given[0]) != graph.shape(node.outputs[0]):
        return None
    build = graph.builder(node)
    keepdims = graph.call(total).integer("keepdims")
    return replacement(build, build("ReduceMean", x, build.ints(*axes), keepdims=keepdims))


def _softmax(graph: RewrittenGraph, node: Node) -> Replacement | None:
    """exp(x) / sum(exp(x)) along one axis, with or without the largest element subtracted from x."""
    exponential = graph.sole_producer(node.inputs[0], "Exp", uses=2)
    total = graph.sole_producer(shown(graph, node.inputs[1]), "ReduceSum")
    if exponential is None or total is None or total.inputs[0] != node.inputs[0]:
        return None
    axes = reduced_axes(graph.call(total))
    if len(axes) != 1 or not broadcasts(graph, node.inputs[1], (total.inputs[0], axes)):
        return None
    x = exponential.inputs[0]
    less = graph.sole_producer(x, "Sub")
    largest = graph.producer(shown(graph, less.inputs[1]), "ReduceMax") if less is not None else None
    if less is not None and largest is not None and largest.inputs[0] == less.inputs[0]:
        reduced = less.inputs[0], reduced_axes(graph.call(largest))
        if reduced[1] == axes and broadcasts(graph, less.inputs[1], reduced):
            x = less.inputs[0]
    build = graph.builder(node)
    return replacement(build, build("Softmax", x, axis=axes[0]))


def _grouped(graph: RewrittenGraph, node: Node) -> Replacement | None:
    """An InstanceNormalization between reshapes that make every group of channels one channel."""
    inner = graph.sole_producer(node.inputs[0], "InstanceNormalization")
    before = graph.sole_producer(inner.inputs[0], "Reshape") if inner is not None else None
    if inner is None or before is None:
        return None
    x, shape, groups = before.inputs[0], graph.shape(node.outputs[0]), graph.shape(inner.inputs[0])[:2]
    scale, shift = graph.array(inner.inputs[1]), graph.array(inner.inputs[2])
    if (
        scale is None
        or shift is None
        or graph.shape(x) != shape
        or len(shape) < 3
        or shape[1] > MOST_CHANNELS
    ):
        return None
    if groups[0] != shape[0] or shape[1] % groups[1]:
        return None
    return _groups(
        graph,
        node,
        x,
        scale.repeat(shape[1] // groups[1]),
        shift.repeat(shape[1] // groups[1]),
        groups=groups[1],
        epsilon=graph.call(inner).number("epsilon"),
    )


def _groups(
    graph: RewrittenGraph, node: Node, x: str, scale: Array, shift: Array, **attrs: AttrValue
) -> Replacement:
    build = graph.builder(node)
    vectors = (build.constant(np.asarray(array, np.float64), build.dtype(x)) for array in (scale, shift))
    return replacement(build, build("NormalizedGroups", x, *vectors, **attrs))


def _grouped_affine(graph: RewrittenGraph, node: Node) -> Replacement | None:
    """A factor or an addend per channel after normalized groups becomes part of their scale and shift."""
    for x, other in (node.inputs, node.inputs[::-1]):
        inner, array = graph.sole_producer(x, "NormalizedGroups"), graph.array(other)
        if inner is None or array is None or graph.shape(x) != graph.shape(node.outputs[0]):
            continue
        shape = graph.shape(x)
        numbers = per_channel(array, len(shape), 1, shape[1])
        given = [graph.array(name) for name in inner.inputs[1:]]
        if numbers is None or not np.isfinite(numbers).all() or any(one is None for one in given):
            continue
        scale, shift = (np.asarray(one, np.float64) for one in given)
        if node.op == "Mul":
            scale, shift = scale * numbers, shift * numbers
        else:
            shift = shift + numbers
        return _groups(graph, node, inner.inputs[0], scale, shift, **dict(inner.attrs))
    return None


_FINITE = ("MatMul", "Gemm", "Tanh", "Sigmoid")
_FINITE_OF_FINITE = (
    *("Add", "Sub", "Mul", "Neg", "Min", "Max", "Where", "Cast", "Concat"),
    *("Reshape", "Transpose", "Unsqueeze", "Squeeze", "Expand", "Slice", "Gather", "GatherND"),
)


def _is_finite(graph: RewrittenGraph, name: str) -> bool:
    """Return True if a value is finite unless an operand of the graph is not, or a sum overflows."""
    array = graph.array(name)
    if array is not None:
        return bool(np.isfinite(array).all())
    if graph.producer(name, *_FINITE) is not None:
        return True
    node = graph.producer(name, "Div", *_FINITE_OF_FINITE)
    if node is None:
        return False
    if node.op == "Div":
        return bool(graph.number(node.inputs[1])) and _is_finite(graph, node.inputs[0])
    return all(_is_finite(graph, item) for item in node.inputs if graph.tensor(item).is_float)


def _rows_have_weights(graph: RewrittenGraph, name: str) -> bool:
    """Return True if every row of scores has a finite one: no constant mask removes all of them."""
    node = graph.producer(name, "Add")
    for x, mask in (node.inputs, node.inputs[::-1]) if node is not None else ():
        array = graph.array(mask)
        if array is not None and array.ndim and _is_finite(graph, x):
            return bool(np.isfinite(np.asarray(array, np.float64)).any(axis=-1).all())
    return _is_finite(graph, name)


def _guarded(graph: RewrittenGraph, node: Node) -> Replacement | None:
    """A Where that replaces the NaN of fully masked rows after a softmax is dropped if no such rows exist."""
    condition = graph.sole_producer(node.inputs[0], "IsNaN")
    softmax = graph.sole_producer(node.inputs[2], "Softmax", uses=2)
    if condition is None or softmax is None or condition.inputs[0] != node.inputs[2]:
        return None
    last = graph.call(softmax).integer("axis") in (-1, len(graph.shape(node.inputs[2])) - 1)
    if not last or graph.number(node.inputs[1]) != 0.0 or not _rows_have_weights(graph, softmax.inputs[0]):
        return None
    return (
        Replacement((), node.inputs[2])
        if graph.shape(node.inputs[2]) == graph.shape(node.outputs[0])
        else None
    )


REWRITES = (
    Rewrite("mean", ("Div", "Mul"), _mean),
    Rewrite("softmax", ("Div",), _softmax),
    Rewrite("guarded-softmax", ("Where",), _guarded),
    Rewrite("normalization-of-groups", ("Reshape",), _grouped),
    Rewrite("affine-normalization-of-groups", ("Mul", "Add"), _grouped_affine),
    Rewrite("normalization", ("Div", "Mul"), _normalization),
    Rewrite("normalization-scale", ("Mul",), _scaled),
    Rewrite("normalization-shift", ("Add",), _shifted),
)
