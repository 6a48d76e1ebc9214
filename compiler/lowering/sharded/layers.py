"""The operators of a sharded sequence, and the columns of products for each mesh column."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from compiler.codegen.slices.tensors import DdrTensor
from compiler.graph import Array
from compiler.lowering.conv.quantised.int8 import scale_number
from compiler.lowering.matmul.matmul import product_of
from compiler.lowering.record import Step, Work
from tx8isa.numbers.formats import Format

BYTE_PRODUCT = "Int8MatMul"
QUANTISE = "QuantiseInt8"
ATTENTION = "FusedAttention"
PARTS = 3
"""Queries, keys and values."""
_MOST_KEPT = 1 << 20
"""Most bytes of weights that stay in the scratchpad of a tile for products after the first one."""


@dataclass(frozen=True)
class ResultBytes:
    """The quantisation of a result: floats divided by ``scale``, plus ``zero``; ``tensor``: the bytes."""

    scale: float
    zero: float
    tensor: DdrTensor


@dataclass(frozen=True, eq=False)
class RowAffine:
    """The factor and the shift that a normalization applies to each column of a product's operand."""

    scale: Array
    shift: Array


@dataclass(frozen=True)
class ProductLayer:
    """A product with a constant matrix [inner, columns], sums added to it, and the steps after them.

    ``sums``: the tensors that are added first: vectors of one value per column, and matrices like the result.
    ``stage``: the number of its stage in the work; ``quantised``: the bytes that its result becomes at once.
    ``affine``: the factor and shift of its operand's normalization, which its weights and bias include.
    """

    work: Work
    rows: int
    inner: int
    columns: int
    sums: tuple[DdrTensor, ...]
    steps: tuple[Step, ...]
    stage: int = 0
    quantised: ResultBytes | None = None
    affine: RowAffine | None = None

    @property
    def result(self) -> DdrTensor:
        return _result(self)

    @property
    def of_bytes(self) -> bool:
        """True if the engine multiplies bytes, whose sums are integers."""
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
        """The constant matrix in its stored form: [inner, columns], or ``transposed``."""
        return self.work.input(1)

    @property
    def transposed(self) -> bool:
        return self.work.op == "Gemm" and bool(self.work.spec.integer("transB"))

    def weights(self) -> Array:
        """The constant matrix [inner, columns]."""
        if self.of_bytes:
            return np.asarray(self.matrix.value)
        matrix = np.asarray(product_of(self.work).constant(), np.float64)
        return matrix if self.affine is None else matrix * self.affine.scale[:, None]

    def units(self) -> Array:
        """The value of one unit of a sum of bytes, for each column."""
        number = scale_number(self.work)
        scale = np.asarray(self.work.input(3).value).reshape(-1) if number is None else np.asarray([number])
        return np.broadcast_to(scale.astype(np.float64), (self.columns,))

    @property
    def vectors(self) -> list[DdrTensor]:
        return [tensor for tensor in self.sums if tensor.value is not None]

    @property
    def biased(self) -> bool:
        """True if a bias is added to the sums."""
        return bool(self.vectors) or (self.affine is not None and bool(np.any(self.affine.shift)))

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
        if self.affine is not None:
            total = total + self.affine.shift @ product_of(self.work).constant().astype(np.float64)
        return total


@dataclass(frozen=True)
class NormalizationLayer:
    """A normalization of rows with a scale and, unless it is omitted, a shift for each column.

    ``folded``: the products that read the rows have both in their weights and bias.
    """

    work: Work
    rows: int
    columns: int
    stage: int = 0
    quantised: ResultBytes | None = None
    folded: bool = False

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

    def parameter(self, at: int) -> Array:
        """The scale (1) or the shift (2), a number for each column."""
        given = np.asarray(self.work.input(at).value, np.float64) if self.work.has(at) else float(at == 1)
        return np.broadcast_to(np.asarray(given).reshape(-1), (self.columns,))


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
    def mask(self) -> DdrTensor | None:
        """The mask [queries or 1, keys] of all heads."""
        if not self.work.has(3):
            return None
        given = self.work.input(3)
        return given.viewed(given.size // given.shape[-1], given.shape[-1])

    @property
    def columns(self) -> int:
        return self.heads * self.depth


@dataclass(frozen=True)
class QuantiseLayer:
    """A quantisation of floats that is separate from the layer that computes them."""

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
    """The tensor of a layer that other layers read."""
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
        """Symbols of the values that the layers compute."""
        return {layer.result.symbol for layer in self.order}

    def user_of_heads(self, layer: Layer) -> AttentionLayer | None:
        """The attention for which a layer computes queries, keys and values; None if there is none."""
        users = [
            each
            for each in self.order
            if isinstance(each, AttentionLayer) and each.source.symbol == layer.result.symbol
        ]
        return users[0] if users else None


def earlier_weights(layers: Layers, columns: int) -> dict[int, int]:
    """For the stage of each product whose weights are in the scratchpad already: the stage that loaded them.

    ``columns``: the mesh columns that share them. Weights stay while all that stay have room.
    """
    first: dict[object, int] = {}
    found: dict[int, int] = {}
    room = _MOST_KEPT
    for layer in layers.order:
        if not isinstance(layer, ProductLayer):
            continue
        heads = layers.user_of_heads(layer)
        form = (
            None
            if heads is None
            else (heads.parts, heads.depth, heads.work.spec.number("scale"), heads.quantised)
        )
        affine = None if layer.affine is None else layer.stage  # weights with a factor of their own
        key = layer.matrix.symbol, layer.transposed, layer.of_bytes, form, affine
        before = first.setdefault(key, layer.stage)
        size = layer.inner * layer.columns // columns * layer.weight_fmt.bits // 8
        if before != layer.stage and (before in found.values() or size <= room):
            room -= 0 if before in found.values() else size
            found[layer.stage] = before
    return found


def read_by(layer: Layer) -> Iterator[DdrTensor]:
    """The tensors that a layer reads, without constants."""
    operands = (layer.source, *(tensor for step in layer.work.steps for tensor in step.operands))
    yield from (tensor for tensor in operands if tensor is not None and tensor.value is None)


@dataclass(frozen=True)
class ColumnBlock:
    """Columns of a matrix; the bias of their results, and the factor that follows it."""

    columns: Array
    factor: float = 1.0
    shift: float = 0.0


def blocks_of(
    layer: ProductLayer, heads: AttentionLayer | None, column: int, columns: int
) -> list[ColumnBlock]:
    """The columns of the matrix that a mesh column computes.

    The queries, keys and values of a head are blocks of their own; queries take the scale of the attention.
    Where its result becomes bytes at once, values take their scale and zero point: the weights of a row of
    attention add up to 1.
    """
    width = layer.columns // columns
    if heads is None:
        return [ColumnBlock(np.arange(column * width, (column + 1) * width))]
    share, how = heads.heads // columns, heads.quantised
    value = (1.0, 0.0) if how is None else (1.0 / how.scale, how.zero * how.scale)
    changes = (heads.work.spec.number("scale"), 0.0), (1.0, 0.0), value
    found = []
    for place, (factor, shift) in zip(heads.parts, changes, strict=True):
        for head in range(column * share, (column + 1) * share):
            first = place * heads.columns + head * heads.depth
            found.append(ColumnBlock(np.arange(first, first + heads.depth), factor, shift))
    return found
