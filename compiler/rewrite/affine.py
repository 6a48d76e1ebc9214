"""A factor and a shift per channel behind a product with constant weights become part of its weights.

BatchNormalization with constant parameters, and Mul, Add, Sub, Div with constants. The sums are computed in
binary64 and rounded once.
"""

from __future__ import annotations

import numpy as np

from compiler.graph import Array, Node
from compiler.operators.expansion import Builder
from compiler.operators.parts import reshaped

from .engine import Replacement, Rewrite, Rewriting, made

_PRODUCTS = ("Conv", "ConvTranspose", "Gemm", "MatMul")


def _columns(g: Rewriting, product: Node) -> tuple[int, int]:
    """The axis of a product's result with the channels, and how many there are."""
    shape = g.shape(product.outputs[0])
    axis = 1 if product.op.startswith("Conv") else len(shape) - 1
    return axis, shape[axis]


def per_channel(array: Array, rank: int, axis: int, channels: int) -> Array | None:
    """One number for each channel from a constant that broadcasts over all other axes."""
    if array.size == 1 and array.ndim <= rank:
        return np.full(channels, float(array.reshape(())))
    shape = (1,) * (rank - array.ndim) + array.shape
    if len(shape) != rank or shape[axis] != channels or array.size != channels:
        return None
    return np.asarray(array, np.float64).reshape(-1)


def _batch_normalization(g: Rewriting, node: Node) -> Replacement | None:
    arrays = [g.array(name) for name in node.inputs[1:5]]
    if any(array is None for array in arrays):
        return None
    scale, shift, mean, variance = (np.asarray(array, np.float64) for array in arrays)
    with np.errstate(all="ignore"):
        factor = scale / np.sqrt(variance + g.call(node).number("epsilon"))
        addend = shift - mean * factor
    product = g.sole(node.inputs[0], *_PRODUCTS)
    if product is None:
        return _rows_normalized(g, node, factor, addend)
    return _folded(g, node, product, factor, addend) if _columns(g, product)[0] == 1 else None


def _rows_normalized(g: Rewriting, node: Node, factor: Array, shift: Array) -> Replacement | None:
    """A product of more axes than two whose rows a Reshape numbers by one is a Gemm of these rows."""
    shaped = g.sole(node.inputs[0], "Reshape", "Flatten")
    product = g.sole(shaped.inputs[0], "MatMul") if shaped is not None else None
    weights = g.array(product.inputs[1]) if product is not None else None
    if product is None or weights is None or weights.ndim != 2:
        return None
    inner, columns = weights.shape
    if len(g.shape(node.outputs[0])) != 2 or columns != len(factor):
        return None
    if not (np.isfinite(factor).all() and np.isfinite(shift).all()):
        return None
    b = g.builder(node)
    flat = reshaped(b, product.inputs[0], -1, inner)
    scaled = _scaled_columns(g, b, product, factor)
    return made(b, b("Gemm", flat, scaled, b.constant(shift, b.dtype(scaled))))


def _operand(g: Rewriting, node: Node) -> tuple[Node, int, Array, Array] | None:
    """The product that a node scales or shifts, its place, and the constant, one number per channel."""
    for place in (0, 1):
        product = g.sole(node.inputs[place], *_PRODUCTS)
        array = g.array(node.inputs[1 - place])
        if product is None or array is None:
            continue
        if g.shape(node.outputs[0]) != g.shape(product.outputs[0]):
            continue
        axis, channels = _columns(g, product)
        numbers = per_channel(array, len(g.shape(node.outputs[0])), axis, channels)
        if numbers is not None:
            return product, place, numbers, array
    return None


def _arithmetic(g: Rewriting, node: Node) -> Replacement | None:
    found = _operand(g, node)
    if found is None:
        return None
    product, place, numbers, _ = found
    ones, zeros = np.ones_like(numbers), np.zeros_like(numbers)
    if node.op == "Mul":
        return _folded(g, node, product, numbers, zeros)
    if node.op == "Div" and place == 0 and np.all(numbers):
        return _folded(g, node, product, 1.0 / numbers, zeros)
    if node.op == "Add":
        return _folded(g, node, product, ones, numbers)
    if node.op == "Sub":
        return _folded(g, node, product, ones if place == 0 else -ones, -numbers if place == 0 else numbers)
    return None


def _folded(g: Rewriting, node: Node, product: Node, factor: Array, shift: Array) -> Replacement | None:
    """The product with factor and shift in its weights; None if it cannot have them."""
    weights = g.array(product.inputs[1])
    if weights is None or not g.tensor(product.inputs[1]).is_float:
        return None
    if not (np.isfinite(factor).all() and np.isfinite(shift).all()):
        return None
    if product.op in ("Gemm", "MatMul"):
        return _matrix(g, node, product, factor, shift)
    bias = np.zeros_like(factor)
    if len(product.inputs) > 2 and product.inputs[2]:
        given = g.array(product.inputs[2])
        if given is None:
            return None
        bias = np.asarray(given, np.float64)
    b = g.builder(node)
    dtype, filters = b.dtype(product.inputs[1]), product.inputs[1]
    if not np.all(factor == 1.0):
        filters = b.constant(_scaled_filter(g, product, np.asarray(weights, np.float64), factor), dtype)
    result = b(
        product.op,
        product.inputs[0],
        filters,
        b.constant(bias * factor + shift, dtype),
        **dict(product.attrs),
    )
    return made(b, result)


def _scaled_filter(g: Rewriting, product: Node, weights: Array, factor: Array) -> Array:
    """Conv has a result channel's weights along axis 0, ConvTranspose along axis 1, group by group."""
    ones = (1,) * (weights.ndim - 2)
    if product.op == "Conv":
        return np.asarray(weights * factor.reshape(-1, 1, *ones))
    groups = g.call(product).integer("group")
    grouped = weights.reshape(groups, -1, *weights.shape[1:])
    return np.asarray(grouped * factor.reshape(groups, 1, -1, *ones)).reshape(weights.shape)


def _matrix(g: Rewriting, node: Node, product: Node, factor: Array, shift: Array) -> Replacement | None:
    """A MatMul stays one if nothing is added, else it becomes a Gemm, if its operands are matrices."""
    call = g.call(product)
    b = g.builder(node)
    dtype = b.dtype(product.inputs[1])
    if product.op == "MatMul":
        if len(call.shape(1)) != 2:
            return None
        if not shift.any():
            return made(b, b("MatMul", product.inputs[0], _scaled_columns(g, b, product, factor)))
        if len(call.shape(0)) != 2:
            return None
        scaled = _scaled_columns(g, b, product, factor)
        return made(b, b("Gemm", product.inputs[0], scaled, b.constant(shift, dtype)))
    columns = factor.reshape(-1, 1) if call.integer("transB") else factor
    if call.has(2):
        given = call.values[2]
        if given is None:
            return None
        shift = call.number("beta") * np.asarray(given, np.float64) * factor + shift
    operands = [product.inputs[0], _scaled_columns(g, b, product, call.number("alpha") * columns)]
    if shift.any():
        operands.append(b.constant(shift, dtype))
    turned = {name: call.integer(name) for name in ("transA", "transB")}
    return made(b, b("Gemm", *operands, **turned))


def _scaled_columns(g: Rewriting, b: Builder, product: Node, factor: Array) -> str:
    """The weights times a factor; they themselves where that is 1."""
    name = product.inputs[1]
    if np.all(factor == 1.0):
        return name
    return b.constant(np.asarray(g.array(name), np.float64) * factor, b.dtype(name))


REWRITES = (
    Rewrite("fold-batch-normalization", ("BatchNormalization",), _batch_normalization),
    Rewrite("fold-scale-and-shift", ("Mul", "Div", "Add", "Sub"), _arithmetic),
)
