"""Finds the bytes, scale and zero point of a value for rewrites of quantised graphs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from compiler.graph import Array, Node
from compiler.operators.quantised.integers import OFFSET
from compiler.rewrite.engine import RewrittenGraph

INT8 = np.iinfo(np.int8)


@dataclass(frozen=True)
class Quantisation:
    """A known scale and zero point of signed bytes, one for all."""

    scale: np.float32
    zero: int


@dataclass(frozen=True)
class KnownWeights:
    """Known weights: bytes less their zero points, and scales, one or one per output channel."""

    values: Array
    scale: Array


def scalar_quantisation(graph: RewrittenGraph, scale: str, zero: str) -> Quantisation | None:
    """Read a known scale and zero point; an empty ``zero`` is 0. Unsigned zero points are shifted."""
    factor = graph.array(scale)
    point = graph.array(zero) if zero else np.zeros((), np.int8)
    if factor is None or point is None or factor.size != 1 or point.size != 1 or factor.dtype != np.float32:
        return None
    shift = OFFSET if point.dtype == np.uint8 else 0
    return Quantisation(np.float32(factor.reshape(())), int(point.reshape(())) - shift)


def quantisation_of(graph: RewrittenGraph, node: Node) -> Quantisation | None:
    """Return the scale and zero point of a QuantizeLinear to, or a DequantizeLinear of, signed bytes."""
    byte = node.inputs[0] if node.op == "DequantizeLinear" else node.outputs[0]
    if graph.tensor(byte).dtype != "int8" or node.attrs.get("block_size"):
        return None
    return scalar_quantisation(graph, node.inputs[1], node.inputs[2] if len(node.inputs) > 2 else "")


def dequantised(graph: RewrittenGraph, name: str) -> tuple[str, Quantisation] | None:
    """Return the computed bytes that represent a value, with scale and zero point."""
    node = graph.producer(name, "DequantizeLinear")
    if node is None or graph.array(node.inputs[0]) is not None or graph.tensor(name).dtype != "float32":
        return None
    how = quantisation_of(graph, node)
    return None if how is None else (node.inputs[0], how)


def known_weights(
    bytes_: Array | None, scale: Array | None, zero: Array | None, axis: int
) -> KnownWeights | None:
    """Return weights whose bytes minus zero points are signed bytes again, with scales along ``axis``."""
    if bytes_ is None or bytes_.dtype.name not in ("int8", "uint8"):
        return None
    along = [1] * bytes_.ndim
    along[axis] = -1
    values = bytes_.astype(np.int64)
    if zero is not None:
        values = values - zero.astype(np.int64).reshape(() if zero.size == 1 else along)
    if values.size == 0 or values.min() < INT8.min or values.max() > INT8.max:
        return None
    factor = np.ones(1, np.float32) if scale is None else scale.reshape(-1)
    fits = factor.dtype == np.float32 and factor.size in (1, bytes_.shape[axis])
    return KnownWeights(values.astype(np.int8), factor) if fits else None


def dequantised_weights(graph: RewrittenGraph, name: str, axis: int) -> KnownWeights | None:
    """Return the known weights that represent a value, with scales along an axis."""
    node = graph.producer(name, "DequantizeLinear")
    if node is None or node.attrs.get("block_size"):
        return None
    given = [graph.array(entry) if entry else None for entry in (*node.inputs, "")[:3]]
    rank, zero = len(graph.shape(node.inputs[0])), given[2]
    if given[1] is None or (len(node.inputs) > 2 and node.inputs[2] and zero is None):
        return None
    along = graph.call(node).integer("axis") % rank
    if given[1].size > 1 and along != axis % rank:
        return None
    return known_weights(given[0], given[1], zero, axis % rank)


def known_floats(graph: RewrittenGraph, name: str) -> Array | None:
    """Return a known value in binary64: a constant, or the DequantizeLinear of one."""
    array = graph.array(name)
    if array is not None:
        return array.astype(np.float64)
    node = graph.producer(name, "DequantizeLinear")
    if node is None or node.attrs.get("block_size"):
        return None
    given = [array.astype(np.float64) for entry in node.inputs if (array := graph.array(entry)) is not None]
    if len(given) < len(node.inputs) or not _flat(given):
        return None
    return np.asarray((given[0] - (given[2] if len(given) > 2 else 0.0)) * given[1])


def _flat(given: list[Array]) -> bool:
    """Return True if scale and zero point of a vector already correspond to its elements."""
    return given[0].ndim <= 1 and all(item.size in (1, given[0].size) for item in given[1:])


def whole_bias(values: Array, unit: Array) -> Array | None:
    """Return addends of sums in their ``unit``, as int32; None if one is too large."""
    whole = np.rint(values / unit.astype(np.float64))
    return whole.astype(np.int32) if np.abs(whole).max(initial=0.0) < np.iinfo(np.int32).max else None
