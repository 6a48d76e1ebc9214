"""The operators of a sharded sequence, and which meshes they can be divided over."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from compiler.codegen.slices.tensors import DdrTensor
from compiler.graph import Array
from compiler.lowering.conv.quantised.int8 import scale_number
from compiler.lowering.matmul.matmul import product_of
from compiler.lowering.pointwise.epilogue import is_per_channel
from compiler.lowering.pointwise.record import known_number
from compiler.lowering.record import Step, Work
from compiler.operators.linear.attention import matrices, result_order
from compiler.operators.norms.normalization import normalized_axes
from tx8isa.numbers.formats import Format

PRODUCTS = ("MatMul", "Gemm")
BYTE_PRODUCT = "Int8MatMul"
QUANTISE = "QuantiseInt8"
NORMALIZATIONS = ("LayerNormalization", "RMSNormalization")
ATTENTION = "FusedAttention"
SHARDED = (*PRODUCTS, BYTE_PRODUCT, *NORMALIZATIONS, ATTENTION, QUANTISE)
"""Operators at which a layer of a sharded sequence begins."""
PARTS = 3
"""Queries, keys and values."""


@dataclass(frozen=True)
class ResultBytes:
    """How a float becomes a byte: divided by ``scale``, plus ``zero``; ``tensor``: the bytes."""

    scale: float
    zero: float
    tensor: DdrTensor


@dataclass(frozen=True)
class ProductLayer:
    """A product with a constant matrix [inner, columns], sums added to it, and the steps after them.

    ``sums``: the tensors that are added first: vectors of one value per column, and matrices like the result.
    ``stage``: the number of its stage in the work; ``quantised``: the bytes that its result becomes at once.
    """

    work: Work
    rows: int
    inner: int
    columns: int
    sums: tuple[DdrTensor, ...]
    steps: tuple[Step, ...]
    stage: int = 0
    quantised: ResultBytes | None = None

    @property
    def result(self) -> DdrTensor:
        return _result(self)

    @property
    def of_bytes(self) -> bool:
        """Whether the engine multiplies bytes, whose sums are integers."""
        return self.work.op == BYTE_PRODUCT

    @property
    def weight_fmt(self) -> Format:
        """The format of the matrix in the scratchpad."""
        return Format.INT8 if self.of_bytes else self.work.arithmetic

    @property
    def source(self) -> DdrTensor:
        return self.work.input(0)

    @property
    def matrix(self) -> DdrTensor:
        """The constant matrix as it is stored: [inner, columns], or ``transposed``."""
        return self.work.input(1)

    @property
    def transposed(self) -> bool:
        return self.work.op == "Gemm" and bool(self.work.spec.integer("transB"))

    def weights(self) -> Array:
        """The constant matrix [inner, columns]."""
        return np.asarray(self.matrix.value) if self.of_bytes else product_of(self.work).constant()

    def units(self) -> Array:
        """What a sum of bytes counts, for each column."""
        number = scale_number(self.work)
        scale = np.asarray(self.work.input(3).value).reshape(-1) if number is None else np.asarray([number])
        return np.broadcast_to(scale.astype(np.float64), (self.columns,))

    @property
    def vectors(self) -> list[DdrTensor]:
        return [tensor for tensor in self.sums if tensor.value is not None]

    @property
    def residuals(self) -> list[DdrTensor]:
        return [tensor for tensor in self.sums if tensor.value is None]

    def bias(self) -> Array:
        """The sum of the vectors, one value for each column."""
        vectors = [np.asarray(tensor.value, np.float64).reshape(-1) for tensor in self.vectors]
        total: Array = np.zeros(self.columns)
        if self.of_bytes and self.work.has(2):
            total = np.asarray(self.work.input(2).value).reshape(-1) * self.units()
        for vector in vectors:
            total = total + vector
        return total


@dataclass(frozen=True)
class NormalizationLayer:
    """A normalization of rows with a scale and, unless it is omitted, a shift for each column."""

    work: Work
    rows: int
    columns: int
    stage: int = 0
    quantised: ResultBytes | None = None

    @property
    def result(self) -> DdrTensor:
        return _result(self)

    @property
    def source(self) -> DdrTensor:
        return self.work.input(0)

    @property
    def parameters(self) -> list[DdrTensor]:
        """The scale, and the shift unless it is omitted."""
        return [self.work.input(at) for at in (1, 2) if self.work.has(at)]


@dataclass(frozen=True)
class AttentionLayer:
    """Attention of heads whose queries, keys and values are columns of one matrix, one part after another."""

    work: Work
    rows: int
    heads: int
    depth: int
    parts: tuple[int, int, int]
    """The places of queries, keys and values among the three parts of the matrix."""
    stage: int = 0
    quantised: ResultBytes | None = None

    @property
    def result(self) -> DdrTensor:
        return _result(self)

    @property
    def source(self) -> DdrTensor:
        return self.work.input(0)

    @property
    def columns(self) -> int:
        return self.heads * self.depth


@dataclass(frozen=True)
class QuantiseLayer:
    """Floats that become bytes, apart from the layer that makes them."""

    work: Work
    rows: int
    columns: int
    quantised: ResultBytes
    stage: int = 0

    @property
    def result(self) -> DdrTensor:
        return self.work.output

    @property
    def source(self) -> DdrTensor:
        return self.work.input(0)


Layer = ProductLayer | NormalizationLayer | AttentionLayer | QuantiseLayer


def _result(layer: ProductLayer | NormalizationLayer | AttentionLayer) -> DdrTensor:
    """What others see of a layer."""
    return layer.work.output if layer.quantised is None else layer.quantised.tensor


@dataclass(frozen=True, eq=False)
class ProductPart:
    """Some rows of the matrix of a product, with the columns of the other operand that meet them."""

    layer: ProductLayer
    first: int
    inner: int

    @property
    def begins(self) -> bool:
        return self.first == 0

    @property
    def ends(self) -> bool:
        return self.first + self.inner == self.layer.inner


@dataclass(frozen=True)
class Layers:
    """The layers of a sharded sequence, in order."""

    order: tuple[Layer, ...]

    @property
    def rows(self) -> int:
        return self.order[0].rows

    @property
    def made(self) -> set[str]:
        """Symbols of what is computed here."""
        return {layer.result.symbol for layer in self.order}

    def user_of_heads(self, layer: Layer) -> AttentionLayer | None:
        """The attention that a layer computes queries, keys and values for."""
        users = [
            each
            for each in self.order
            if isinstance(each, AttentionLayer) and each.source.symbol == layer.result.symbol
        ]
        return users[0] if users else None


def layers_of(work: Work) -> Layers:
    """The layers of a sequence; ValueError if one cannot be sharded with the others."""
    stages = [replace(_layer(stage), stage=at) for at, stage in enumerate(work.stages)]
    found = Layers(_quantised_at_once(work, stages))
    if any(layer.rows != found.rows for layer in found.order):
        raise ValueError("layers of different numbers of rows")
    wide = {layer.result.symbol for layer in found.order if layer.result.fmt is Format.FP32}
    for layer in found.order:
        if layer.source.symbol in wide and not isinstance(layer, QuantiseLayer):
            raise ValueError("a layer of values in FP32")
        if isinstance(layer, AttentionLayer):
            _check_attention(found, layer)
    return found


def _check_attention(layers: Layers, layer: AttentionLayer) -> None:
    """Its operand must be a product without other users, and without steps after the sums."""
    name = layer.source.symbol
    makers = [each for each in layers.order if each.result.symbol == name]
    users = [each for each in layers.order for tensor in read_by(each) if tensor.symbol == name]
    maker = makers[0] if makers else None
    if not isinstance(maker, ProductLayer) or maker.steps or maker.residuals or maker.quantised:
        raise ValueError("attention without the product of its queries, keys and values")
    if any(user is not layer for user in users):
        raise ValueError("queries, keys and values that others use too")


def _quantised_at_once(work: Work, stages: Sequence[Layer]) -> tuple[Layer, ...]:
    """The layers; what is only quantised is so by the layer that makes it."""
    readers = Counter(tensor.symbol for layer in stages for tensor in read_by(layer))
    found: dict[str, Layer] = {}
    for layer in stages:
        maker = found.get(layer.source.symbol)
        alone = readers[layer.source.symbol] == 1 and layer.source.symbol != work.output.symbol
        if isinstance(layer, QuantiseLayer) and maker is not None and alone and maker.result.fmt.is_float:
            assert not isinstance(maker, QuantiseLayer)
            del found[layer.source.symbol]
            found[layer.result.symbol] = replace(maker, quantised=layer.quantised)
        elif isinstance(layer, QuantiseLayer) and isinstance(maker, AttentionLayer):
            raise ValueError("attention that is quantised and used as floats too")
        else:
            found[layer.result.symbol] = layer
    return tuple(sorted(found.values(), key=lambda layer: layer.stage))


def read_by(layer: Layer) -> Iterator[DdrTensor]:
    """The tensors that a layer reads, without constants."""
    operands = (layer.source, *(tensor for step in layer.work.steps for tensor in step.operands))
    yield from (tensor for tensor in operands if tensor is not None and tensor.value is None)


def can_be_sharded(work: Work) -> bool:
    """Whether the work of a group can be a layer of some sharded sequence."""
    try:
        _layer(work)
    except ValueError:
        return False
    return True


def _layer(work: Work) -> Layer:
    if work.op == QUANTISE:
        return _quantise(work)
    if work.op == BYTE_PRODUCT:
        return _byte_product(work)
    if work.op not in SHARDED or work.arithmetic.bits != 16:
        raise ValueError(f"{work.op} in {'FP32' if work.op in SHARDED else 'a sharded sequence'}")
    if work.op in PRODUCTS:
        return _product(work)
    return _attention(work) if work.op == ATTENTION else _normalization(work)


def _product(work: Work) -> ProductLayer:
    if len(work.input(1).shape) != 2 or not work.input(0).fmt.is_float:
        raise ValueError("a product with another operand than a matrix")
    product = product_of(work)
    if not product.packed or not product.left.along_k:
        raise ValueError("a product without constant matrix")
    sums, steps = _leading_sums(work)
    if work.op == "Gemm":
        sums = (*_addend(work), *sums)
    return ProductLayer(work, product.m, product.k, product.n, sums, steps)


def _byte_product(work: Work) -> ProductLayer:
    """A product of bytes; sums as they are would be integers that no other layer takes."""
    if not work.has(3):
        raise ValueError("a product of bytes without scale")
    inner, columns = work.spec.shape(1)
    sums, steps = _leading_sums(work)
    return ProductLayer(work, math.prod(work.spec.shape(0)[:-1]), inner, columns, sums, steps)


def _quantise(work: Work) -> QuantiseLayer:
    """Floats quantised with one scale and one zero point."""
    source, scale = work.input(0), known_number(work.input(1))
    zero = known_number(work.input(2)) if work.has(2) else 0.0
    if scale is None or zero is None or scale <= 0.0 or not np.isfinite(scale) or not source.fmt.is_float:
        raise ValueError("floats that are not quantised by one known scale and zero point")
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
    shape, axes = work.input(0).shape, normalized_axes(work.spec)
    columns = math.prod(shape[axes[0] :])
    parameters = [work.input(at) for at in (1, 2) if work.has(at)]
    if len(axes) != 1 or any(each.value is None or each.size != columns for each in parameters):
        raise ValueError("a normalization of several axes, or with parameters that are computed")
    return NormalizationLayer(work, math.prod(shape[:-1]), columns)


def _attention(work: Work) -> AttentionLayer:
    call, source = work.spec, work.input(0)
    views = [matrices(call, index) for index in range(PARTS)]
    if work.has(3) or call.number("softcap") or call.integer("zero_rows") or len(views[0].shape) != 4:
        raise ValueError("attention with a mask or a bound")
    batch, heads, rows, depth = views[0].shape
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
