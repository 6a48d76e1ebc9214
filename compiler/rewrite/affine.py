"""Folds a factor and a shift per channel after a product into the product's constant weights.

BatchNormalization with constant parameters, and Mul, Add, Sub, Div with constants. The sums are computed in
binary64 and rounded once.
"""

from __future__ import annotations

import numpy as np

from compiler.graph import Array, Node
from compiler.operators.expansion.builder import Builder
from compiler.operators.expansion.parts import reshaped

from .engine import Replacement, Rewrite, RewrittenGraph, replacement

_PRODUCTS = ("Conv", "ConvTranspose", "Gemm", "MatMul")


def _columns(graph: RewrittenGraph, product: Node) -> tuple[int, int]:
    """Return the axis of the channels in a product's result, and their number."""
    shape = graph.shape(product.outputs[0])
    axis = 1 if product.op.startswith("Conv") else len(shape) - 1
    return axis, shape[axis]


def per_channel(array: Array, rank: int, axis: int, channels: int) -> Array | None:
    """Return one number for each channel from a constant that broadcasts over all other axes."""
    if array.size == 1 and array.ndim <= rank:
        return np.full(channels, float(array.reshape(())))
    shape = (1,) * (rank - array.ndim) + array.shape
    if len(shape) != rank or shape[axis] != channels or array.size != channels:
        return None
    return np.asarray(array, np.float64).reshape(-1)


def _batch_normalization(graph: RewrittenGraph, node: Node) -> Replacement | None:
    arrays = [graph.array(name) for name in node.inputs[1:5]]
    if any(array is None for array in arrays) or graph.call(node).integer("training_mode"):
        return None
    scale, shift, mean, variance = (np.asarray(array, np.float64) for array in arrays)
    with np.errstate(all="ignore"):
        factor = scale / np.sqrt(variance + graph.call(node).number("epsilon"))
        addend = shift - mean * factor
    product = graph.sole_producer(node.inputs[0], *_PRODUCTS)
    if product is None:
        return _rows_normalized(graph, node, factor, addend)
    return _folded(graph, node, product, factor, addend) if _columns(graph, product)[0] == 1 else None


def _rows_normalized(graph: RewrittenGraph, node: Node, factor: Array, shift: Array) -> Replacement | None:
    """A batch normalization after a product whose rows a Reshape joins becomes part of their Gemm."""
    shaped = graph.sole_producer(node.inputs[0], "Reshape", "Flatten")
    product = graph.sole_producer(shaped.inputs[0], "MatMul") if shaped is not None else None
    weights = graph.array(product.inputs[1]) if product is not None else None
    if product is None or weights is None or weights.ndim != 2:
        return None
    inner, columns = weights.shape
    if len(graph.shape(node.outputs[0])) != 2 or columns != len(factor):
        return None
    if not (np.isfinite(factor).all() and np.isfinite(shift).all()):
        return None
    build = graph.builder(node)
    flat = reshaped(build, product.inputs[0], -1, inner)
    scaled = _scaled_columns(graph, build, product, factor)
    return replacement(build, build("Gemm", flat, scaled, build.constant(shift, build.dtype(scaled))))


def _operand(graph: RewrittenGraph, node: Node) -> tuple[Node, int, Array, Array] | None:
    """Return the product that a node scales or shifts, its position, and the constant in two forms.

    The forms: an element for each channel, and as the node reads it."""
    for place in (0, 1):
        product = graph.sole_producer(node.inputs[place], *_PRODUCTS)
        array = graph.array(node.inputs[1 - place])
        if product is None or array is None:
            continue
        if graph.shape(node.outputs[0]) != graph.shape(product.outputs[0]):
            continue
        axis, channels = _columns(graph, product)
        numbers = per_channel(array, len(graph.shape(node.outputs[0])), axis, channels)
        if numbers is not None:
            return product, place, numbers, array
    return None


def _arithmetic(graph: RewrittenGraph, node: Node) -> Replacement | None:
    found = _operand(graph, node)
    if found is None:
        return None
    product, place, numbers, _ = found
    ones, zeros = np.ones_like(numbers), np.zeros_like(numbers)
    if node.op == "Mul":
        return _folded(graph, node, product, numbers, zeros)
    if node.op == "Div" and place == 0 and np.all(numbers):
        return _folded(graph, node, product, 1.0 / numbers, zeros)
    if node.op == "Add":
        return _folded(graph, node, product, ones, numbers)
    if node.op == "Sub":
        factor, shift = (ones, -numbers) if place == 0 else (-ones, numbers)
        return _folded(graph, node, product, factor, shift)
    return None


def _folded(
    graph: RewrittenGraph, node: Node, product: Node, factor: Array, shift: Array
) -> Replacement | None:
    """Include factor and shift in the product's weights and bias; None if these are not constant or not
    finite."""
    weights = graph.array(product.inputs[1])
    if weights is None or not graph.tensor(product.inputs[1]).is_float:
        return None
    if not (np.isfinite(factor).all() and np.isfinite(shift).all()):
        return None
    if product.op in ("Gemm", "MatMul"):
        return _matrix(graph, node, product, factor, shift)
    bias = np.zeros_like(factor)
    if len(product.inputs) > 2 and product.inputs[2]:
        given = graph.array(product.inputs[2])
        if given is None:
            return None
        bias = np.asarray(given, np.float64)
    build = graph.builder(node)
    dtype, filters = build.dtype(product.inputs[1]), product.inputs[1]
    if not np.all(factor == 1.0):
        scaled = _scaled_filter(graph, product, np.asarray(weights, np.float64), factor)
        filters = build.constant(scaled, dtype)
    result = build(
        product.op,
        product.inputs[0],
        filters,
        build.constant(bias * factor + shift, dtype),
        **dict(product.attrs),
    )
    return replacement(build, result)


def _scaled_filter(graph: RewrittenGraph, product: Node, weights: Array, factor: Array) -> Array:
    """Scale weights per output channel: axis 0 of a Conv, axis 1 of each group of a ConvTranspose."""
    ones = (1,) * (weights.ndim - 2)
    if product.op == "Conv":
        return np.asarray(weights * factor.reshape(-1, 1, *ones))
    groups = graph.call(product).integer("group")
    grouped = weights.reshape(groups, -1, *weights.shape[1:])
    return np.asarray(grouped * factor.reshape(groups, 1, -1, *ones)).reshape(weights.shape)


def _matrix(
    graph: RewrittenGraph, node: Node, product: Node, factor: Array, shift: Array
) -> Replacement | None:
    """Include factor and shift in a matrix product; a MatMul of matrices with a shift becomes a Gemm."""
    call = graph.call(product)
    build = graph.builder(node)
    dtype = build.dtype(product.inputs[1])
    if product.op == "MatMul":
        if len(call.shape(1)) != 2:
            return None
        if not shift.any():
            scaled = _scaled_columns(graph, build, product, factor)
            return replacement(build, build("MatMul", product.inputs[0], scaled))
        if len(call.shape(0)) != 2:
            return None
        scaled = _scaled_columns(graph, build, product, factor)
        return replacement(build, build("Gemm", product.inputs[0], scaled, build.constant(shift, dtype)))
    columns = factor.reshape(-1, 1) if call.integer("transB") else factor
    if call.has(2):
        given = call.values[2]
        if given is None:
            return None
        shift = call.number("beta") * np.asarray(given, np.float64) * factor + shift
    operands = [product.inputs[0], _scaled_columns(graph, build, product, call.number("alpha") * columns)]
    if shift.any():
        operands.append(build.constant(shift, dtype))
    turned = {name: call.integer(name) for name in ("transA", "transB")}
    return replacement(build, build("Gemm", *operands, **turned))


def _scaled_columns(graph: RewrittenGraph, build: Builder, product: Node, factor: Array) -> str:
    """Scale the columns of the weights; return the weights themselves if every factor is 1."""
    name = product.inputs[1]
    if np.all(factor == 1.0):
        return name
    return build.constant(np.asarray(graph.array(name), np.float64) * factor, build.dtype(name))


REWRITES = (
    Rewrite("fold-batch-normalization", ("BatchNormalization",), _batch_normalization),
    Rewrite("fold-scale-and-shift", ("Mul", "Div", "Add", "Sub"), _arithmetic),
)
