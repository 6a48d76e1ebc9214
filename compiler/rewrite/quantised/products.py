"""Convolutions and matrix products of bytes with known weights as operators on bytes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from compiler.graph import Array, AttrValue, Node
from compiler.operators.elements.casting import CAST_NUMBERS
from compiler.operators.expansion.builder import Builder
from compiler.operators.quantised.integers import OFFSET
from compiler.rewrite.affine import per_channel
from compiler.rewrite.engine import Replacement, Rewrite, RewrittenGraph, can_be_compiled, replacement

from .limits import limited
from .operands import (
    KnownWeights,
    Quantisation,
    dequantised,
    dequantised_weights,
    known_floats,
    known_weights,
    quantisation_of,
    scalar_quantisation,
    whole_bias,
)

_CONV_ATTRIBUTES = ("auto_pad", "dilations", "group", "pads", "strides")


@dataclass(frozen=True)
class ByteProduct:
    """A product of computed bytes ``x`` with known weights; ``bias``: the initial value of its sums."""

    op: str
    x: str
    x_how: Quantisation
    weights: KnownWeights
    bias: Array | None
    attrs: dict[str, AttrValue]

    @property
    def unit(self) -> Array:
        """The scale of the sums, one or one per output channel, in binary32."""
        return np.asarray(self.x_how.scale * self.weights.scale)

    def built(self, build: Builder, to: str, scale: Array | None, **more: int) -> str:
        """Build the product with its result multiplied by a scale; return the result's name."""
        x = build("OffsetBinary", self.x) if build.dtype(self.x) == "uint8" else self.x
        operands = [x, build.constant(self.weights.values, "int8")]
        operands.append("" if self.bias is None else build.constant(self.bias, "int32"))
        if scale is not None:
            operands.append(build.constant(scale.reshape(()) if scale.size == 1 else scale, "float32"))
        attrs = {**self.attrs, **more, "x_zero": self.x_how.zero, "to": CAST_NUMBERS[to]}
        while not operands[-1]:
            operands.pop()
        return build(self.op, *operands, **attrs)


def conv_attributes(node: Node) -> dict[str, AttrValue]:
    return {name: node.attrs[name] for name in _CONV_ATTRIBUTES if name in node.attrs}


def _conv(graph: RewrittenGraph, node: Node) -> ByteProduct | None:
    """Read a Conv of dequantised bytes."""
    x, weights = dequantised(graph, node.inputs[0]), dequantised_weights(graph, node.inputs[1], 0)
    if x is None or weights is None or weights.values.ndim > 4:
        return None
    made = ByteProduct("Int8Conv", *x, weights, None, conv_attributes(node))
    return _with_bias(graph, made, node.inputs[2]) if len(node.inputs) > 2 and node.inputs[2] else made


def _matmul(graph: RewrittenGraph, node: Node) -> ByteProduct | None:
    """Read a MatMul of dequantised bytes with a known matrix."""
    x, weights = dequantised(graph, node.inputs[0]), dequantised_weights(graph, node.inputs[1], -1)
    if x is None or weights is None or weights.values.ndim != 2 or len(graph.shape(node.inputs[0])) < 2:
        return None
    return ByteProduct("Int8MatMul", *x, weights, None, {})


def _gemm(graph: RewrittenGraph, node: Node) -> ByteProduct | None:
    """Read a Gemm of dequantised bytes with a known matrix and a vector that is added to its rows."""
    call = graph.call(node)
    turned = call.integer("transB")
    x = dequantised(graph, node.inputs[0])
    weights = dequantised_weights(graph, node.inputs[1], 0 if turned else 1)
    plain = call.number("alpha") == call.number("beta") == 1.0 and not call.integer("transA")
    if x is None or weights is None or not plain:
        return None
    known = replace(weights, values=weights.values.T) if turned else weights
    made = ByteProduct("Int8MatMul", *x, known, None, {})
    if len(node.inputs) < 3 or not node.inputs[2]:
        return made
    shape = graph.shape(node.inputs[2])
    return _with_bias(graph, made, node.inputs[2]) if shape == known.values.shape[1:] else None


def _with_bias(graph: RewrittenGraph, product: ByteProduct, name: str) -> ByteProduct | None:
    """Return the product with an addend, if this is known and fits int32."""
    values = known_floats(graph, name)
    bias = None if values is None else whole_bias(values, product.unit)
    return None if bias is None else replace(product, bias=bias)


def _shifted(graph: RewrittenGraph, node: Node) -> ByteProduct | None:
    """Read a matrix product of bytes, to whose columns known numbers are added."""
    shape = graph.shape(node.outputs[0])
    for value, addend in (node.inputs, node.inputs[::-1]):
        inner, known = graph.sole_producer(value, "MatMul"), known_floats(graph, addend)
        if inner is None or known is None or graph.shape(value) != shape:
            continue
        columns, product = per_channel(known, len(shape), len(shape) - 1, shape[-1]), _matmul(graph, inner)
        if columns is not None and product is not None:
            bias = whole_bias(columns, product.unit)
            return None if bias is None else replace(product, bias=bias)
    return None


_PRODUCTS: dict[str, Callable[[RewrittenGraph, Node], ByteProduct | None]] = {
    "Conv": _conv,
    "MatMul": _matmul,
    "Gemm": _gemm,
    "Add": _shifted,
}


def _quantised(graph: RewrittenGraph, node: Node) -> Replacement | None:
    """A product of bytes with a Relu or Clip that is quantised at once."""
    how = quantisation_of(graph, node)
    if how is None:
        return None
    value = limited(graph, node.inputs[0], how)
    inner = None if value is None else graph.sole_producer(value.name, *_PRODUCTS)
    product = None if inner is None else _PRODUCTS[inner.op](graph, inner)
    if value is None or product is None:
        return None
    build, scale = graph.builder(node), np.asarray(product.unit / how.scale)
    result = product.built(build, "int8", scale, y_zero=how.zero, low=value.low, high=value.high)
    return replacement(build, result) if can_be_compiled(build) else None


def _alone(graph: RewrittenGraph, node: Node) -> Replacement | None:
    """A product of bytes whose result remains a float."""
    product = _PRODUCTS[node.op](graph, node)
    if product is None:
        return None
    build = graph.builder(node)
    result = product.built(build, graph.tensor(node.outputs[0]).dtype, product.unit)
    return replacement(build, result) if can_be_compiled(build) else None


def _qlinear(graph: RewrittenGraph, node: Node) -> Replacement | None:
    """A QLinearConv or QLinearMatMul with known weights, scales and zero points."""
    conv = node.op == "QLinearConv"
    x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero = node.inputs[:8]
    x_how, y_how = (scalar_quantisation(graph, *pair) for pair in ((x_scale, x_zero), (y_scale, y_zero)))
    weights = known_operand(graph, node, (w, w_scale, w_zero))
    bias = graph.array(node.inputs[8]) if len(node.inputs) > 8 and node.inputs[8] else None
    if x_how is None or y_how is None or weights is None or (bias is None and len(node.inputs) > 8):
        return None
    attrs = conv_attributes(node) if conv else {}
    product = ByteProduct(INTEGER_PRODUCTS[node.op], x, x_how, weights, bias, attrs)
    build = graph.builder(node)
    result = product.built(build, "int8", np.asarray(product.unit / y_how.scale), y_zero=y_how.zero)
    if not can_be_compiled(build):
        return None
    unsigned = graph.tensor(node.outputs[0]).dtype == "uint8"
    return replacement(build, build("OffsetBinary", result) if unsigned else result)


def _integer(graph: RewrittenGraph, node: Node) -> Replacement | None:
    """A ConvInteger or MatMulInteger with known weights and zero points."""
    x, w, x_zero, w_zero = (*node.inputs, "", "")[:4]
    point = graph.array(x_zero) if x_zero else np.zeros((), graph.tensor(x).dtype)
    weights = known_operand(graph, node, (w, "", w_zero))
    if point is None or point.size != 1 or weights is None:
        return None
    shift = OFFSET if graph.tensor(x).dtype == "uint8" else 0
    how = Quantisation(np.float32(1), int(point.reshape(())) - shift)
    attrs = conv_attributes(node) if node.op == "ConvInteger" else {}
    build = graph.builder(node)
    result = ByteProduct(INTEGER_PRODUCTS[node.op], x, how, weights, None, attrs).built(build, "int32", None)
    return replacement(build, result) if can_be_compiled(build) else None


INTEGER_PRODUCTS = {
    "QLinearConv": "Int8Conv",
    "ConvInteger": "Int8Conv",
    "QLinearMatMul": "Int8MatMul",
    "MatMulInteger": "Int8MatMul",
}
"""The operators on bytes that compute operators on integers."""


def known_operand(graph: RewrittenGraph, node: Node, names: tuple[str, str, str]) -> KnownWeights | None:
    """Return the known weights of an integer operator: bytes, scale and zero point, which may be omitted."""
    given = [graph.array(name) if name else None for name in names]
    if any(name and array is None for name, array in zip(names, given, strict=True)):
        return None
    made, rank = INTEGER_PRODUCTS[node.op], len(graph.shape(names[0]))
    if made == "Int8Conv":
        return known_weights(given[0], given[1], given[2], 0) if rank <= 4 else None
    matrices = rank == 2 and len(graph.shape(node.inputs[0])) >= 2
    return known_weights(given[0], given[1], given[2], 1) if matrices else None


FUSED = (
    Rewrite("quantised-product", ("QuantizeLinear",), _quantised),
    Rewrite("quantised-operator", ("QLinearConv", "QLinearMatMul"), _qlinear),
    Rewrite("integer-operator", ("ConvInteger", "MatMulInteger"), _integer),
)
ALONE = (Rewrite("product-of-bytes", ("Conv", "MatMul", "Gemm"), _alone),)
