"""Works read as the layers of a sharded sequence; ValueError where one cannot be sharded with the others."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from compiler.codegen.slices.tensors import DdrTensor
from compiler.lowering.matmul.matmul import product_of
from compiler.lowering.pointwise.epilogue import is_per_channel
from compiler.lowering.pointwise.record import known_number
from compiler.lowering.record import AnyWork, SequenceWork, Step, Work
from compiler.operators import OPERATORS
from compiler.operators.linear.attention import matrices, result_order
from compiler.operators.norms.normalization import normalization_of
from tx8isa.numbers.formats import Format

from .layers import (
    ATTENTION,
    BYTE_PRODUCT,
    PARTS,
    QUANTISE,
    AttentionLayer,
    Layer,
    Layers,
    NormalizationLayer,
    ProductLayer,
    QuantiseLayer,
    ResultBytes,
    read_by,
)


def layers_of(work: SequenceWork) -> Layers:
    """The layers of a sequence; ValueError if one cannot be sharded with the others."""
    stages = [replace(_layer(stage), stage=at) for at, stage in enumerate(work.operators)]
    found = Layers(_quantised_at_once(work, stages))
    if any(layer.rows != found.rows for layer in found.order):
        raise ValueError("layers of different numbers of rows")
    wide = {layer.result.symbol for layer in found.order if layer.result.fmt is Format.FP32}
    for layer in found.order:
        if layer.source.symbol in wide and not isinstance(layer, QuantiseLayer):
            raise ValueError("a layer of values in FP32")
        if isinstance(layer, AttentionLayer):
            _check_attention(work, found, layer)
    return found


def _check_attention(work: SequenceWork, layers: Layers, layer: AttentionLayer) -> None:
    """Its operand must be a product without other users, and without steps after the sums."""
    name = layer.source.symbol
    makers = [each for each in layers.order if each.result.symbol == name]
    users = [each for each in layers.order for tensor in read_by(each) if tensor.symbol == name]
    maker = makers[0] if makers else None
    if not isinstance(maker, ProductLayer) or maker.steps or maker.residuals or maker.quantised:
        raise ValueError("attention without the product of its queries, keys and values")
    if any(user is not layer for user in users) or name in results_of(work):
        raise ValueError("queries, keys and values that others use too")
    if layer.mask is not None and layer.mask.symbol in layers.made:
        raise ValueError("attention with a mask that another layer computes")


def _quantised_at_once(work: SequenceWork, stages: Sequence[Layer]) -> tuple[Layer, ...]:
    """The layers; a value that is read only as bytes is quantised by the layer that computes it."""
    readers = Counter(tensor.symbol for layer in stages for tensor in read_by(layer))
    results = results_of(work)
    found: dict[str, Layer] = {}
    for layer in stages:
        maker = found.get(layer.source.symbol)
        alone = readers[layer.source.symbol] == 1 and layer.source.symbol not in results
        if isinstance(layer, QuantiseLayer) and maker is not None and alone and maker.result.fmt.is_float:
            assert not isinstance(maker, QuantiseLayer)
            del found[layer.source.symbol]
            found[layer.result.symbol] = replace(maker, quantised=layer.quantised)
        elif isinstance(layer, QuantiseLayer) and isinstance(maker, AttentionLayer):
            raise ValueError("attention that is quantised and used as floats too")
        else:
            found[layer.result.symbol] = layer
    return tuple(sorted(found.values(), key=lambda layer: layer.stage))


def results_of(work: SequenceWork) -> dict[str, DdrTensor]:
    """The values of a sequence that are stored, by symbol."""
    return {tensor.symbol: tensor for tensor in (*work.others, work.output)}


def can_be_sharded(work: AnyWork) -> bool:
    """True if the work of a group can be a layer of some sharded sequence."""
    try:
        return isinstance(work, Work) and bool(_layer(work))
    except ValueError:
        return False


def begins_layer(op: str) -> bool:
    """True if a layer of a sharded sequence begins at an operator."""
    return op in _READERS or (op in OPERATORS and OPERATORS[op].normalization is not None)


def _layer(work: Work) -> Layer:
    if not begins_layer(work.op):
        raise ValueError(f"{work.op} in a sharded sequence")
    return _READERS.get(work.op, _normalization)(work)


def _check_format(work: Work) -> None:
    if work.arithmetic.bits != 16:
        raise ValueError(f"{work.op} in {work.arithmetic.token}")


_READERS: dict[str, Callable[[Work], Layer]] = {}
"""The reader of works for each operator; normalizations share one."""


def _reads(*ops: str) -> Callable[[Callable[[Work], Layer]], Callable[[Work], Layer]]:
    """Decorator: the function reads works of these operators, or raises ValueError."""

    def register(reader: Callable[[Work], Layer]) -> Callable[[Work], Layer]:
        _READERS.update(dict.fromkeys(ops, reader))
        return reader

    return register


@_reads("MatMul", "Gemm")
def _product(work: Work) -> ProductLayer:
    _check_format(work)
    if len(work.input(1).shape) != 2 or not work.input(0).fmt.is_float:
        raise ValueError("a product with another operand than a matrix")
    product = product_of(work)
    if not product.packed or not product.left.along_k:
        raise ValueError("a product without constant matrix")
    sums, steps = _leading_sums(work)
    if work.op == "Gemm":
        sums = (*_addend(work), *sums)
    return ProductLayer(work, product.m, product.k, product.n, sums, steps)


@_reads(BYTE_PRODUCT)
def _byte_product(work: Work) -> ProductLayer:
    """A product of bytes; ValueError for plain sums, which are integers that no other layer takes."""
    if not work.has(3):
        raise ValueError("a product of bytes without scale")
    inner, columns = work.spec.shape(1)
    sums, steps = _leading_sums(work)
    return ProductLayer(work, math.prod(work.spec.shape(0)[:-1]), inner, columns, sums, steps)


@_reads(QUANTISE)
def _quantise(work: Work) -> QuantiseLayer:
    """Floats quantised with one scale and one zero point."""
    source, scale = work.input(0), known_number(work.input(1))
    zero = known_number(work.input(2)) if work.has(2) else 0.0
    if scale is None or zero is None or scale <= 0.0 or not np.isfinite(scale) or not source.fmt.is_float:
        raise ValueError("floats that are not quantised by one known scale and zero point")
    if not source.shape:
        raise ValueError("a single number, which has no rows")
    rows = math.prod(source.shape[:-1])
    return QuantiseLayer(work, rows, source.shape[-1], ResultBytes(scale, zero, work.output))


def _addend(work: Work) -> list[DdrTensor]:
    """The third operand of a Gemm, a constant vector."""
    call = work.spec
    if call.number("alpha") != 1.0 or (work.has(2) and call.number("beta") != 1.0):
        raise ValueError("a Gemm with factors")
    if not work.has(2):
        return []
    addend = work.input(2)
    if addend.value is None or addend.size not in (1, work.output.shape[-1]):
        raise ValueError("a Gemm with an addend that is not a constant vector")
    return [addend]


def _leading_sums(work: Work) -> tuple[tuple[DdrTensor, ...], tuple[Step, ...]]:
    """The tensors that the first steps add, and the steps after those."""
    sums: list[DdrTensor] = []
    for at, step in enumerate(work.steps):
        others = [tensor for tensor in step.operands if tensor is not None]
        if step.op != "Add" or len(others) != 1 or not _is_sum(others[0], work.output):
            return tuple(sums), work.steps[at:]
        sums.append(others[0])
    return tuple(sums), ()


def _is_sum(tensor: DdrTensor, result: DdrTensor) -> bool:
    if tensor.value is None:
        return tensor.size == result.size and tensor.shape[-1] == result.shape[-1]
    return tensor.size == 1 or is_per_channel(tensor, result)


def _normalization(work: Work) -> NormalizationLayer:
    _check_format(work)
    shape, axes = work.input(0).shape, normalization_of(work.op).axes(work.spec)
    columns = math.prod(shape[axes[0] :])
    parameters = [work.input(at) for at in (1, 2) if work.has(at)]
    if len(axes) != 1 or any(each.value is None or each.size != columns for each in parameters):
        raise ValueError("a normalization of several axes, or with parameters that are computed")
    return NormalizationLayer(work, math.prod(shape[:-1]), columns)


@_reads(ATTENTION)
def _attention(work: Work) -> AttentionLayer:
    _check_format(work)
    call, source = work.spec, work.input(0)
    views = [matrices(call, index) for index in range(PARTS)]
    if call.number("softcap") or len(views[0].shape) != 4:
        raise ValueError("attention with a bound")
    batch, heads, rows, depth = views[0].shape
    if work.has(3) and not _serves_all_heads(work.input(3), rows):
        raise ValueError("attention with a mask for each head, or of another size")
    pitch = PARTS * heads * depth
    regular = all(
        work.input(index).symbol == source.symbol
        and view.shape == views[0].shape
        and tuple(view.strides[1:]) == (depth, pitch, 1)
        and view.offset % (heads * depth) == 0
        for index, view in enumerate(views)
    )
    if batch != 1 or not regular or source.shape[-1] != pitch or result_order(call) != (0, 2, 1, 3):
        raise ValueError("attention of views that are not the columns of one matrix")
    parts = [view.offset // (heads * depth) for view in views]
    return AttentionLayer(work, rows, heads, depth, (parts[0], parts[1], parts[2]))


def _serves_all_heads(mask: DdrTensor, rows: int) -> bool:
    """True if a mask is one matrix of floats, with a number for each key, and a row for each query or one."""
    several = mask.shape[-2] if len(mask.shape) > 1 else 1
    whole = mask.shape[-1:] == (rows,) and several in (rows, 1) and mask.size == several * rows
    return whole and mask.fmt.is_float
