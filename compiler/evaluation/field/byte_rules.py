"""Operators of bytes in the field: quantising, products and sums of bytes.

A byte that a float is rounded to is the float itself in units of bytes, with the zero point and within the
limits of bytes. An unsigned byte has the element of the signed one that is 128 less, as programs store it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from compiler.graph import Array, Graph
from compiler.operators import OPERATORS
from compiler.operators.quantised.integers import OFFSET, result_dtype
from compiler.operators.quantised.sums import sum_quantisation
from compiler.operators.types import BYTES
from tx8isa.numbers.formats import Format
from tx8isa.numbers.prime_field import Elements, PrimeField

from .rules import OF_MADE, RULES, FieldCall, aligned, is_elements, means


def of_integers(field: PrimeField, x: Array) -> Elements:
    """The elements of whole numbers."""
    return field.of_numbers(x.astype(np.float64) - (OFFSET if x.dtype == np.uint8 else 0))


def byte_inputs(graph: Graph) -> set[str]:
    """The inputs of bytes whose readers take elements, so that they may be drawn as such."""
    readers: dict[str, list[Any]] = {}
    for node in graph.nodes:
        for name in node.inputs:
            readers.setdefault(name, []).append(node)

    def takes(name: str) -> bool:
        return all(each.op in OF_MADE or OPERATORS[each.op].moves for each in readers.get(name, ())) and all(
            takes(made) for each in readers.get(name, ()) for made in each.outputs if _is_whole(graph, made)
        )

    return {tensor.name for tensor in graph.inputs if tensor.dtype in BYTES and takes(tensor.name)}


def _is_whole(graph: Graph, name: str) -> bool:
    return bool(name) and not graph.tensors[name].is_float


def _known(work: FieldCall, index: int, given: Any) -> Elements:
    """A factor or zero point in FP32: instructions hold a single number, memory has one for each channel."""
    array = work.call.values[index]
    if array is None:
        return np.asarray(given)
    convert = work.field.of_scalars if array.size == 1 else work.field.of_stored
    return convert(array.astype(np.float32), Format.FP32)


def _bytes(work: FieldCall, x: Any) -> Elements:
    return x if is_elements(x) else of_integers(work.field, x)


@means("DequantiseInt8", of_made=True, rounds=True)
def _dequantised(work: FieldCall, x: Any, scale: Any, zero: Any = None) -> Elements:
    """Bytes less a zero point, times a scale."""
    found = _bytes(work, x)
    if zero is not None:
        found = work.field.subtract(*aligned(found, _known(work, 2, zero)))
    return work.field.multiply(*aligned(found, _known(work, 1, scale)))


@means("QuantiseInt8", rounds=True)
def _quantised(work: FieldCall, x: Elements, scale: Any, zero: Any = None) -> Elements:
    """Numbers over a scale, with a zero point."""
    found = work.field.multiply(*aligned(x, work.field.inverse(_known(work, 1, scale))))
    if zero is not None:
        found = work.field.add(*aligned(found, _known(work, 2, zero)))
    return work.field.limited(found)


@means("OffsetBinary", of_made=True)
def _offset(work: FieldCall, x: Elements) -> Elements:
    return x


def _result(work: FieldCall, sums: Elements, scale: Any, per_map: bool) -> Elements:
    """The result of a product of bytes: sums, or sums times a scale, or these rounded."""
    call, dtype = work.call, result_dtype(work.call)
    if dtype == "int32":
        return sums
    factors = _known(work, 3, scale)
    if per_map and factors[0].size > 1:
        factors = factors.reshape(factors.shape[0], -1, *(1,) * (sums.ndim - 3))
    found = work.field.multiply(*aligned(sums, factors))
    if dtype != "int8":
        return found
    found = work.field.add(found, np.full_like(found, float(call.integer("y_zero"))))
    return work.field.limited(found, call.integer("low"), call.integer("high"))


def _centred(work: FieldCall, x: Any) -> Elements:
    found = _bytes(work, x)
    return work.field.subtract(found, np.full_like(found, float(work.call.integer("x_zero"))))


@means("Int8MatMul", of_made=True, rounds=True)
def _product(work: FieldCall, x: Any, w: Any, b: Any = None, scale: Any = None) -> Elements:
    sums = work.field.product(*aligned(_centred(work, x), _bytes(work, w)))
    if b is not None:
        sums = work.field.add(*aligned(sums, _bytes(work, b)))
    return _result(work, sums, scale, per_map=False)


@means("Int8Conv", of_made=True, rounds=True)
def _conv(work: FieldCall, x: Any, w: Any, b: Any = None, scale: Any = None) -> Elements:
    sums = RULES["Conv"](work, _centred(work, x), _bytes(work, w), None if b is None else _bytes(work, b))
    return _result(work, sums, scale, per_map=True)


@means("Int8Sum", of_made=True, rounds=True)
def _sum(work: FieldCall, a: Any, b: Any) -> Elements:
    how, field = sum_quantisation(work.call), work.field

    def times(x: Elements, factor: float) -> Elements:
        return field.multiply(x, field.of_numbers(np.full((1,) * (x.ndim - 1), factor)))

    terms = []
    for x, scale, zero in ((a, how.a_scale, how.a_zero), (b, how.b_scale, how.b_zero)):
        own = _bytes(work, x)
        own = field.subtract(own, np.full_like(own, float(zero)))
        terms.append(times(own, scale))
    total = field.add(*terms)
    total = times(total, 1.0 / how.y_scale)
    total = field.add(total, np.full_like(total, float(how.y_zero)))
    return field.limited(total, how.low, how.high)
