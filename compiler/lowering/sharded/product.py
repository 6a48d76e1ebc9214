"""Products of a sharded sequence: all columns of a tile's rows times its columns of a constant matrix."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from compiler.codegen.expr import Value
from compiler.codegen.kernel import Argument, Kernel
from compiler.codegen.slices.aligned import (
    Aligned,
    Grid,
    Place,
    load_slice,
    narrowed_slice,
    per_channel,
    slice_buffer,
    spread,
)
from compiler.codegen.slices.precision import stored
from compiler.codegen.slices.tensors import DdrTensor
from compiler.codegen.slices.vector import WORD, Vector, convert, repeat_rows
from compiler.graph import Array
from compiler.lowering.pointwise.epilogue import AlignedResult, apply_steps
from tx8isa.numbers.formats import Format
from tx8isa.numbers.layouts import Layout
from tx8isa.numbers.packing import pack, storage_dtype

from .biases import ColumnBias
from .byte_product import BytePart, ByteVectors, byte_weights, heads_of, quantised_slice
from .exchange import Participants, Weights
from .layers import AttentionLayer, ColumnBlock, ProductLayer, ProductPart, blocks_of
from .mesh import Gathered, Heads, ShardedMatrix
from .tables import ByteTable, is_looked_up, load_table, looked_up

OwnPiece = Callable[[DdrTensor], ShardedMatrix]
"""Gives this tile's columns of a value, which must not be overwritten."""


@dataclass
class PreparedProduct:
    """A tile's part of the constants of a product: its columns of the matrix, and of the bias in FP32.

    ``start``: the bias for each element of the result, as initial sums.
    ``vectors``: bias and scales of a product of bytes. ``table``: steps and quantisation as a look-up.
    """

    weights: Weights
    bias: ColumnBias | None = None
    start: Value | None = None
    vectors: ByteVectors | None = None
    table: ByteTable | None = None


def load_constants(
    participants: Participants,
    part: ProductPart,
    heads: AttentionLayer | None,
    rows: int,
    shared: bool,
    vectors: ByteVectors | None,
    bias: ColumnBias | None,
    kept: Weights | None = None,
) -> PreparedProduct:
    """Start to load the constants of a product for ``rows`` rows; ``heads``: the attention that it is for.

    ``shared``: whether the tiles of a mesh column send each other parts of the weights. ``vectors``: for a
    product of bytes. ``bias``: for a product of floats, the initial sums of the first part. If other initial
    sums are needed and the bias is not in parts, it is loaded with the last part. ``kept``: weights that an
    earlier product has loaded.
    """
    kernel, layer = participants.kernel, part.layer
    width = layer.columns // participants.mesh.columns
    weights = kept or _loaded_weights(participants, part, heads, shared)
    table = load_table(kernel, layer) if part.ends and is_looked_up(layer) else None
    if vectors is not None:
        return PreparedProduct(weights, vectors=vectors, table=table)
    last = bool(layer.residuals) and bias is not None and bias.ones is None
    if bias is None or not (part.ends if last else part.begins):
        return PreparedProduct(weights, table=table)
    if layer.residuals:
        return PreparedProduct(weights, bias, table=table)
    start = kernel.buffer("start", 4 * rows * width)
    with kernel.on_worker(0):  # it has loaded the bias
        if heads is None:
            spread(kernel, Aligned(start, Format.FP32, Grid(rows, 1, rows), width), bias.base)
        else:
            repeat_rows(kernel, start, bias.base, WORD * heads.depth, width // heads.depth, rows)
    return PreparedProduct(weights, start=start, table=table)


def _loaded_weights(
    participants: Participants, part: ProductPart, heads: AttentionLayer | None, shared: bool
) -> Weights:
    """Start to load a tile's columns of a part of a matrix."""
    kernel, layer, columns = participants.kernel, part.layer, participants.mesh.columns
    blocks = [blocks_of(layer, heads, column, columns) for column in range(columns)]
    size, fmt = part.inner * layer.columns // columns, layer.weight_fmt
    symbol = kernel.lazy_constant("weights", fmt, size * columns, lambda: _weight_image(part, blocks)).symbol
    run = DdrTensor(symbol, fmt, (size * columns,)), participants.column * size, size
    weights = Weights(participants, run, kernel.buffer("w", size * fmt.bits // 8), shared)
    weights.load()
    return weights


def _weight_image(part: ProductPart, blocks: Sequence[Sequence[ColumnBlock]]) -> Array:
    """The bytes of a part's weights in DDR, the blocks of one mesh column after another."""
    layer, fmt = part.layer, part.layer.weight_fmt
    if layer.of_bytes:
        return np.concatenate([byte_weights(part, own) for own in blocks])
    matrix = np.asarray(layer.weights(), np.float64)[part.first : part.first + part.inner]
    scaled = [stored(matrix[:, each.columns] * each.factor, fmt) for own in blocks for each in own]
    packed = [pack(np.ascontiguousarray(columns), fmt, Layout.CX) for columns in scaled]
    return np.concatenate([columns.view(storage_dtype(fmt)) for columns in packed])


def multiply_heads(
    kernel: Kernel,
    source: Gathered,
    part: ProductPart,
    prepared: PreparedProduct,
    head: tuple[int, int],
    before: Value | None,
) -> Heads:
    """Queries, keys and values of this tile's heads and rows, head by head.

    ``head``: the number of matrices of a tile, and the columns of each. ``before``: the FP32 sums of the
    parts before this one. Sums of a part that is not the last are in FP32.
    """
    (count, depth), rows = head, source.rows
    if prepared.vectors is not None:
        product = BytePart(kernel, source, part, prepared.weights.target, prepared.vectors, before)
        sums = product.sums(count * depth)
        if not part.ends:
            return Heads(sums.base, sums.fmt, count, rows, depth)
        return heads_of(kernel, narrowed_slice(kernel, product.floats(sums), part.layer.result.fmt), depth)
    fmt = source.fmt if part.ends else Format.FP32
    base = kernel.buffer("heads", count * rows * depth * fmt.bits // 8)
    start = before if before is not None else prepared.start
    kernel.emit(
        f"ne.gemm.{source.fmt.token}",
        a=_columns_from(source, part.first),
        b=prepared.weights.target,
        out=base,
        m=rows,
        k=part.inner,
        n=depth,
        lb=1,
        rb=count,
        rt=1,
        out_format=fmt.token,
        **({} if start is None else {"psum": start}),
    )
    return Heads(base, fmt, count, rows, depth)


def _columns_from(source: Gathered, first: int) -> Value:
    """The address of the planes from column ``first``."""
    return source.base + first * source.rows * source.fmt.bits // 8


def multiply(
    participants: Participants,
    source: Gathered,
    part: ProductPart,
    prepared: PreparedProduct,
    own: OwnPiece,
    before: Value | None,
) -> ShardedMatrix:
    """This tile's columns of the result; after the last part with all steps applied, ready to store.

    ``before``: the FP32 sums of the parts before this one. Sums of a part that is not the last are in FP32.
    """
    if prepared.vectors is not None:
        return _multiply_bytes(participants, source, part, prepared, own, before)
    kernel, layer = participants.kernel, part.layer
    target, residuals = layer.result.fmt, [own(tensor) for tensor in layer.residuals]
    width, grid = layer.columns // participants.mesh.columns, Grid(source.rows, 1, source.rows)
    later = prepared.bias if prepared.bias is not None and prepared.bias.ones is None else None
    final = not layer.steps and later is None and len(residuals) < 2 and target is source.fmt
    fmt = target if final and part.ends else Format.FP32
    sums = slice_buffer(kernel, "sums", fmt, grid, width)
    kernel.emit(
        f"ne.gemm.{source.fmt.token}",
        a=_columns_from(source, part.first),
        b=prepared.weights.target,
        out=sums.base,
        m=source.rows,
        k=part.inner,
        n=width,
        rt=1,
        out_format=fmt.token,
        **_initial_sums(prepared, residuals, before),
    )
    if not part.ends:
        return ShardedMatrix(sums.base, fmt, source.rows, width)
    if later is not None:
        per_channel(kernel, "add", sums, later.base)
    _add(kernel, sums, residuals[1:])
    return _finished(participants, layer, sums, own, prepared.table)


def _multiply_bytes(
    participants: Participants,
    source: Gathered,
    part: ProductPart,
    prepared: PreparedProduct,
    own: OwnPiece,
    before: Value | None,
) -> ShardedMatrix:
    """This tile's columns of a product of bytes; sums in int32 if ``part`` is not the last."""
    kernel, layer, width = participants.kernel, part.layer, part.layer.columns // participants.mesh.columns
    assert prepared.vectors is not None
    product = BytePart(kernel, source, part, prepared.weights.target, prepared.vectors, before)
    sums = product.sums(width)
    if not part.ends:
        return sums
    if not layer.work.output.fmt.is_float:
        return product.bytes(sums)
    data = product.floats(sums)
    _add(kernel, data, [own(tensor) for tensor in layer.residuals])
    return _finished(participants, layer, data, own, prepared.table)


def _finished(
    participants: Participants, layer: ProductLayer, sums: Aligned, own: OwnPiece, table: ByteTable | None
) -> ShardedMatrix:
    """The result of the sums after all steps."""
    kernel, target, rows = participants.kernel, layer.result.fmt, sums.grid.room
    if table is not None:
        return ShardedMatrix(looked_up(kernel, sums, table).base, target, rows, sums.channels)
    at = Place(0, participants.first_row, participants.column * sums.channels)
    apply_steps(_Share(kernel, sums, at, own), sums.base, layer.steps)
    if layer.quantised is not None:
        found = quantised_slice(kernel, sums, layer.quantised)
        return ShardedMatrix(found.base, target, rows, sums.channels)
    if sums.fmt is target:
        return ShardedMatrix(sums.base, target, rows, sums.channels)
    result = slice_buffer(kernel, "y", target, sums.grid, sums.channels)
    convert(kernel, result.base, sums.base, sums.elements, Format.FP32, target)
    return ShardedMatrix(result.base, target, rows, sums.channels, sums.base if layer.of_bytes else None)


def _initial_sums(
    prepared: PreparedProduct, residuals: Sequence[ShardedMatrix], before: Value | None
) -> dict[str, Argument]:
    """The initial sums of a product: earlier parts, a residual, or the bias."""
    if before is not None:
        return {"psum": before}
    if residuals and prepared.bias is not None and prepared.bias.ones is not None:
        return {"psum": prepared.bias.added_to(residuals[0]).base}
    if residuals:
        return {"psum": residuals[0].base, "psum_format": residuals[0].fmt.token}
    return {} if prepared.start is None else {"psum": prepared.start}


def _add(kernel: Kernel, sums: Aligned, pieces: Sequence[ShardedMatrix]) -> None:
    for piece in pieces:
        wide = widened_piece(kernel, piece) if piece.single is None else piece.single
        Vector(kernel, Format.FP32, sums.elements).vv("add", sums.base, sums.base, wide)


def widened_piece(kernel: Kernel, piece: ShardedMatrix) -> Value:
    """A piece in FP32."""
    if piece.fmt is Format.FP32:
        return piece.base
    wide = slice_buffer(kernel, "operand", Format.FP32, piece.slice.grid, piece.width)
    convert(kernel, wide.base, piece.base, wide.elements, piece.fmt, Format.FP32)
    return wide.base


@dataclass(frozen=True)
class _Share(AlignedResult):
    """Operands of steps may be values of the sequence."""

    own: OwnPiece

    def load_like(self, tensor: DdrTensor) -> Value:
        piece = self.own(tensor)
        wide = widened_piece(self.kernel, piece)
        if wide is not piece.base:
            return wide
        copy = slice_buffer(self.kernel, "operand", Format.FP32, self.data.grid, self.data.channels)
        Vector(self.kernel, Format.FP32, copy.elements).vs("add", copy.base, wide, -0.0)
        return copy.base


def load_piece(participants: Participants, tensor: DdrTensor) -> ShardedMatrix:
    """This tile's columns of its rows of a matrix in DDR."""
    kernel, columns, rows = participants.kernel, tensor.shape[-1], participants.share
    width = columns // participants.mesh.columns
    matrix = tensor.viewed(1, tensor.size // columns, columns)
    at = Place(0, participants.first_row, participants.column * width)
    piece = load_slice(kernel, "own", matrix, at, Grid(rows, 1, rows), width)
    return ShardedMatrix(piece.base, tensor.fmt, rows, width)
