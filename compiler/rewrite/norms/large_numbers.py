"""Finds values that FP16 cannot hold, from constants: they and their readers compute in FP32.

Magnitudes are propagated through the graph. Float inputs are assumed to be ordinary numbers, of magnitude 1,
and bytes to use their whole range. A product with known weights is estimated as if the signs of its terms
were random. If FP16 holds that, its results count as ordinary again, so that bounds do not grow from layer to
layer. Samples show the ranges of data (``compiler/quantise/automatic``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from compiler.evaluation.storage import extremes
from compiler.graph import DTYPES, Array, Graph, Node
from compiler.operators import call_of
from compiler.rewrite.engine import RESHAPES
from tx8isa.numbers.formats import EXPONENT_BITS, Format

LARGEST = 65504.0
"""The largest number of FP16."""
_MASK = -32768.0
"""Numbers below this are masks, which give no weight: any very small number does the same."""
_ORDINARY = 1.0
_ROUNDED = 1.001
"""A factor above the error of sums by rounding."""
_MOST_EXPONENT = 88.0
_PRODUCTS = ("Conv", "MatMul", "Gemm")
_SUMS = ("Add", "Sub", "Sum")
_KEEPING = (
    *("Abs", "Neg", "Relu", "LeakyRelu", "Max", "Min", "Where", "Concat", "Pad", "Cast", "Identity", "Mod"),
    *("Slice", "Gather", "Split", "Expand", "Tile", "Transpose", "MaxPool", "AveragePool", "ReduceMax"),
    *("ReduceMin", "ReduceMean", "GlobalMaxPool", "GlobalAveragePool", "Resize", "Round", "Floor", "Ceil"),
    *RESHAPES,
)


@dataclass(frozen=True)
class LargeNumbers:
    """``values`` that a format cannot hold, with magnitudes, and the ``nodes`` that compute or read them."""

    values: Mapping[str, float]
    nodes: frozenset[str]


def large_numbers(graph: Graph, fmt: Format) -> LargeNumbers:
    """Return the values that a format cannot hold; only FP16 has a smaller range than FP32."""
    if EXPONENT_BITS[fmt] == EXPONENT_BITS[Format.FP32]:
        return LargeNumbers({}, frozenset())
    found = {tensor.name: _of_input(tensor.dtype) for tensor in graph.inputs}
    found |= {
        name: _of_constant(array) for name, array in graph.constants.items() if graph.tensors[name].is_float
    }
    values: dict[str, float] = {}
    for node in graph.nodes:
        results = [name for name in node.outputs if name and graph.tensors[name].is_float]
        if not results:
            continue
        size = _MAGNITUDES.get(node.op, _ordinary)(graph, node, found)
        for name in results:
            found[name] = size
            if size > LARGEST:
                values[name] = size
    large = values.keys() | {name for name in graph.constants if found.get(name, 0.0) > LARGEST}
    return LargeNumbers(values, nodes_around(graph, large))


def nodes_around(graph: Graph, values: set[str]) -> frozenset[str]:
    """Return the nodes that compute or read some values."""
    return frozenset(
        node.name for node in graph.nodes if not values.isdisjoint((*node.inputs, *node.outputs))
    )


def _of_input(dtype: str) -> float:
    if dtype not in ("int8", "uint8"):
        return _ORDINARY
    limits = np.iinfo(DTYPES[dtype])
    return float(max(-limits.min, limits.max))


def _of_constant(array: Array) -> float:
    """Return the largest magnitude of the finite numbers of a constant, without masks."""
    if not array.size:
        return 0.0
    low, high = extremes(array)
    if math.isfinite(high) and low >= _MASK:
        return max(high, -low)
    wide = array[np.isfinite(array) & (array >= _MASK)].astype(np.float64)
    return float(np.abs(wide).max(initial=0.0))


Sizes = Mapping[str, float]


def _ordinary(graph: Graph, node: Node, sizes: Sizes) -> float:
    return _ORDINARY


def _operands(graph: Graph, node: Node, sizes: Sizes) -> list[float]:
    return [sizes.get(name, _ORDINARY) for name in node.inputs if name and graph.tensors[name].is_float]


def _largest(graph: Graph, node: Node, sizes: Sizes) -> float:
    """Return the magnitude of operators that keep elements of operands; bytes count too, for ``Cast``."""
    return max((sizes.get(name, _ORDINARY) for name in node.inputs if name), default=_ORDINARY)


def _sum(graph: Graph, node: Node, sizes: Sizes) -> float:
    return math.fsum(_operands(graph, node, sizes))


def _times(graph: Graph, node: Node, sizes: Sizes) -> float:
    return math.prod(_operands(graph, node, sizes))


def _divided(graph: Graph, node: Node, sizes: Sizes) -> float:
    """Return the magnitude after division by a known number; computed divisors give an ordinary number."""
    size, divisor = _operands(graph, node, sizes)[0], graph.constants.get(node.inputs[1])
    if divisor is None or not divisor.size:
        return _ORDINARY
    least = float(np.abs(divisor.astype(np.float64)).min())
    return size / least if least else _ORDINARY


def _clipped(graph: Graph, node: Node, sizes: Sizes) -> float:
    size = _operands(graph, node, sizes)[0]
    limits = [graph.constants.get(name) for name in node.inputs[1:3] if name]
    if len(limits) < 2 or any(limit is None for limit in limits):
        return size
    return min(size, max(_of_constant(limit) for limit in limits if limit is not None))


def _power(graph: Graph, node: Node, sizes: Sizes) -> float:
    size, exponent = _operands(graph, node, sizes)[0], graph.constants.get(node.inputs[1])
    if exponent is None or exponent.size != 1 or not size:
        return _ORDINARY
    power = float(exponent.reshape(())) * math.log(size)
    return math.exp(min(power, _MOST_EXPONENT))


def _root(graph: Graph, node: Node, sizes: Sizes) -> float:
    return math.sqrt(_operands(graph, node, sizes)[0])


def _exponential(graph: Graph, node: Node, sizes: Sizes) -> float:
    """Return e**size for an ordinary size, because graphs with large exponents subtract the largest first."""
    size = _operands(graph, node, sizes)[0]
    return math.exp(size) if size <= _ORDINARY else _ORDINARY


def _reduced(graph: Graph, node: Node, sizes: Sizes) -> float:
    terms = graph.tensors[node.inputs[0]].size / max(graph.tensors[node.outputs[0]].size, 1)
    return terms * _operands(graph, node, sizes)[0]


def _product(graph: Graph, node: Node, sizes: Sizes) -> float:
    """Return the operand times the root of a channel's sum of squared weights; ordinary if FP16 holds it."""
    weights = graph.constants.get(node.inputs[1])
    if weights is None or not weights.size or weights.ndim < 2:
        return _ORDINARY
    is_conv = node.op == "Conv"
    along_rows = is_conv or (node.op == "Gemm" and bool(call_of(graph, node).integer("transB")))
    axes = tuple(range(1, weights.ndim)) if along_rows else (weights.ndim - 2,)
    operand = sizes.get(node.inputs[0], _ORDINARY)
    terms = math.prod(weights.shape[axis] for axis in axes)
    low, high = extremes(weights)
    most = max(high, -low)
    if math.isfinite(most) and _ROUNDED * operand * most * math.sqrt(terms) <= LARGEST:
        return _ORDINARY  # as for nearly all weights; for those of a language model the sums take seconds
    wide = np.abs(weights).astype(np.float64)
    wide[~np.isfinite(wide)] = 0.0
    size = operand * float(np.sqrt((wide**2).sum(axis=axes)).max())
    return size if size > LARGEST else _ORDINARY


_MAGNITUDES: dict[str, Callable[[Graph, Node, Sizes], float]] = {
    **dict.fromkeys(_KEEPING, _largest),
    **dict.fromkeys(_SUMS, _sum),
    **dict.fromkeys(_PRODUCTS, _product),
    "Mul": _times,
    "Div": _divided,
    "Clip": _clipped,
    "Pow": _power,
    "Sqrt": _root,
    "Exp": _exponential,
    "ReduceSum": _reduced,
}
"""The functions from operand magnitudes to a result's; other operators give ordinary numbers."""
