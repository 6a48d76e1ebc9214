"""Products of bytes with a computed zero point, as dynamic quantisation writes them, become products of
floats.

ONNX subtracts the zero point from every byte before the product. Here the matrix engine multiplies bytes
directly. From the sums, as floats, the vector engine subtracts the zero point times the sum of weights, which
is a constant. Sums that ONNX keeps as integers are not changed.
"""

from __future__ import annotations

import numpy as np

from compiler.graph import Array, Node
from compiler.operators.elements.casting import CAST_NUMBERS
from compiler.operators.expansion.builder import Builder
from compiler.operators.record import OPERATORS, Call, resolve
from compiler.operators.windows.conv import conv_sums, conv_window
from compiler.rewrite.engine import Replacement, Rewrite, RewrittenGraph, can_be_compiled

from .operands import Quantisation
from .products import INTEGER_PRODUCTS, ByteProduct, conv_attributes, known_operand

_FLOAT32 = CAST_NUMBERS["float32"]


def _scaled(graph: RewrittenGraph, node: Node) -> Replacement | None:
    """Sums of a MatMulInteger or ConvInteger with a computed zero point that are cast and multiplied.

    All of it is computed in FP32, because the sums may exceed the range of other formats.
    """
    for sums, factor in (node.inputs, node.inputs[::-1]):
        cast = graph.sole_producer(sums, "Cast")
        inner = None if cast is None else graph.sole_producer(cast.inputs[0], *INTEGER_PRODUCTS)
        if inner is None or graph.tensor(sums).dtype != "float32":
            continue
        build = graph.builder(node)
        difference = _difference(graph, inner, build)
        if difference is not None:
            result = build("Mul", difference, factor)
            return Replacement(tuple(build.nodes), result, precise=True)
    return None


def _difference(graph: RewrittenGraph, node: Node, build: Builder) -> str | None:
    """Return the sums of a product minus those of its zero point, as float32; None for other products."""
    x, w, x_zero, w_zero = (*node.inputs, "", "")[:4]
    weights = known_operand(graph, node, (w, "", w_zero))
    if not x_zero or graph.array(x_zero) is not None or graph.tensor(x_zero).size != 1 or weights is None:
        return None
    attrs, how = conv_attributes(node) if node.op == "ConvInteger" else {}, Quantisation(np.float32(1), 0)
    product = ByteProduct(INTEGER_PRODUCTS[node.op], x, how, weights, None, attrs)
    sums = product.built(build, "float32", np.ones((), np.float32))
    if not can_be_compiled(build):
        return None
    made = build.nodes[-1]
    call = resolve(made, build.opset, build.tensors, build.constants, len(OPERATORS[made.op].inputs))
    point = build("Reshape", x_zero, build.ints(1))
    signed = build("OffsetBinary", point) if build.dtype(point) == "uint8" else point
    each = build.constant(_sums_of_weights(call, weights.values), "float32")
    return build("Sub", sums, build("Mul", each, build("Cast", signed, to=_FLOAT32)))


def _sums_of_weights(call: Call, weights: Array) -> Array:
    """Return the sum of weights for each result: one number per column or map.

    If windows reach beyond the image, which adds nothing there, each result has its own sum.
    """
    if weights.ndim == 2:
        return np.asarray(weights.sum(axis=0, dtype=np.float64))
    window, maps = conv_window(call), weights.sum(axis=1, keepdims=True, dtype=np.float64)
    if not any((*window.pads_begin, *window.pads_end)):
        return np.asarray(maps.sum(axis=tuple(range(2, maps.ndim)), keepdims=True)[:, 0])
    ones = np.ones((1, call.integer("group"), *call.shape(0)[2:]))
    return conv_sums(call, ones, maps)


DYNAMIC = (Rewrite("dynamic-product", ("Mul",), _scaled),)
