"""Products of few rows with known weights in integers, which keep their few bits.

Products with many rows take longer than loading the weights, so their weights become floats.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from compiler.dialect.planes import BLOCK
from compiler.graph import Array, Node
from compiler.operators.expansion.parts import sliced
from compiler.rewrite.engine import Replacement, Rewrite, RewrittenGraph, can_be_compiled, replacement
from tx8isa.numbers.limits import LARGEST_CHANNELS

from .operands import INT8

MOST_ROWS = 64
"""The most rows of the left operand.

With more, tiles share their loads, which packed weights do not allow.
"""
_FEWEST_WEIGHTS = 1 << 16
"""The fewest weights; with fewer, the product's time is spent on instructions and not on loads."""
_MANY_WEIGHTS = 1 << 20
"""The fewest weights for which columns are padded, since the results then need a copy without the padding."""
_BITS = (2, 4, 8)
_LARGEST, _MOST_SCALED = 65504.0, 64
"""The largest number of FP16, and the largest factor of weights while they are unpacked."""


@dataclass(frozen=True)
class _Stored:
    """Integers [k, n] with scales and zero points [blocks, n] for blocks of rows."""

    values: Array
    scale: Array
    zero: Array
    block: int


def _stored(graph: RewrittenGraph, name: str, turned: bool) -> _Stored | None:
    """Return the integers of a dequantised matrix, as [k, n]; ``turned``: the matrix is [n, k]."""
    node = graph.producer(name, "DequantizeLinear", "Transpose")
    if node is not None and node.op == "Transpose":
        if tuple(graph.call(node).integers("perm") or (1, 0)) != (1, 0):
            return None
        return _stored(graph, node.inputs[0], not turned)
    if node is None or node.attrs.get("output_dtype"):
        return None
    given = [graph.array(entry) if entry else None for entry in (*node.inputs, "")[:3]]
    values, scale, zero = given
    if values is None or scale is None or values.ndim != 2 or values.dtype != np.int8:
        return None
    if zero is None:
        if len(node.inputs) > 2 and node.inputs[2]:
            return None
        zero = np.zeros(scale.shape, values.dtype)
    call = graph.call(node)
    axis, size = call.integer("axis") % 2, call.attrs.get("block_size", 0)
    if turned:
        values, axis = values.T, 1 - axis
        scale, zero = (item.T for item in (scale, zero))
    block = size if isinstance(size, int) else 0
    return _along_rows(values.astype(np.int16), scale, zero.astype(np.int16), axis, block)


def _along_rows(values: Array, scale: Array, zero: Array, axis: int, block: int) -> _Stored | None:
    """Express scales and zero points of a matrix, row, column or block by blocks of rows.

    None for blocks of columns.
    """
    inner, columns = values.shape
    if scale.size == 1:
        row = [np.broadcast_to(item.reshape(1, 1), (1, columns)) for item in (scale, zero)]
        return _Stored(values, row[0], row[1], inner)
    if scale.ndim == 2:
        return _Stored(values, scale, zero, block) if axis == 0 and block else None
    if axis == 1:
        return _Stored(values, scale.reshape(1, -1), zero.reshape(1, -1), inner)
    return None


def _packed(stored: _Stored) -> tuple[Array, Array | None, int]:
    """Pack numbers around 0 into the fewest bits; zero points are kept if differences need more bits."""
    centred = stored.values - np.repeat(stored.zero, stored.block, axis=0)[: len(stored.values)]
    for bits in _BITS:
        half = 1 << (bits - 1)
        if -half <= centred.min() and centred.max() < half:
            return centred, None, bits
        middle = 0 if bits == 8 else int(stored.values.min()) + half
        zero = stored.zero - middle
        if stored.values.max() - middle < half and INT8.min <= zero.min() and zero.max() <= INT8.max:
            return stored.values - middle, zero, bits
    raise ValueError("numbers that are no signed bytes")


def _whole_planes(stored: _Stored) -> _Stored:
    """Pad the columns with scale 0 up to a whole plane."""
    more = ((0, 0), (0, -stored.values.shape[1] % BLOCK))
    values, zero = (np.pad(item, more, mode="edge") for item in (stored.values, stored.zero))
    return _Stored(values, np.pad(stored.scale, more), zero, stored.block)


def _fits(graph: RewrittenGraph, x: str, stored: _Stored) -> bool:
    """Return True for few rows, enough weights in whole planes, and no weight that is too large."""
    shape, (inner, columns) = graph.shape(x), stored.values.shape
    if len(shape) < 2 or math.prod(shape[:-1]) > MOST_ROWS or shape[-1] != inner or inner > LARGEST_CHANNELS:
        return False
    if inner % BLOCK or inner * columns < (_MANY_WEIGHTS if columns % BLOCK else _FEWEST_WEIGHTS):
        return False
    largest = np.abs(stored.scale.astype(np.float64)).max() * 2 * INT8.max * _MOST_SCALED
    return bool(np.isfinite(largest)) and largest <= _LARGEST


def _product(graph: RewrittenGraph, node: Node) -> Replacement | None:
    """A product with a dequantised matrix, of a MatMul or a Gemm without factors."""
    turned, call = False, graph.call(node)
    if node.op == "Gemm":
        if call.integer("transA") or not call.number("alpha") == call.number("beta") == 1.0:
            return None
        turned = bool(call.integer("transB"))
    x, weights, addend = (*node.inputs, "")[:3]
    stored = _stored(graph, weights, turned)
    if stored is None or not _fits(graph, x, stored):
        return None
    columns = stored.values.shape[1]
    stored = _whole_planes(stored) if columns % BLOCK else stored
    values, zero, bits = _packed(stored)
    build, dtype = graph.builder(node), graph.tensor(x).dtype
    operands = [x, build.constant(values, "int8"), build.constant(stored.scale, dtype)]
    if zero is not None:
        operands.append(build.constant(zero, "int8"))
    result = build("PackedMatMul", *operands, bits=bits, block_size=stored.block)
    if not can_be_compiled(build):
        return None
    if columns < values.shape[1]:
        result = sliced(build, result, len(build.shape(result)) - 1, 0, columns)
    return replacement(build, build("Add", result, addend) if addend else result)


REWRITES = (Rewrite("packed-product", ("MatMul", "Gemm"), _product),)
