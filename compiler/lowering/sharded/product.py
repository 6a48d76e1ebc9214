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
    per_channel,
    slice_buffer,
    spread,
)
from compiler.codegen.slices.precision import stored
from compiler.codegen.slices.tensors import DdrTensor
from compiler.codegen.slices.vector import Vector, convert
from compiler.graph import Array
from compiler.lowering.pointwise.epilogue import AlignedResult, apply_steps
from tx8isa.numbers.formats import Format
from tx8isa.numbers.layouts import Layout
from tx8isa.numbers.packing import pack, storage_dtype

from .exchange import Participants, Weights
from .layers import AttentionLayer, ProductLayer
from .mesh import Dealt, Gathered, Heads

Block = tuple[Array, float]
"""Columns of a matrix and a factor."""
OwnPiece = Callable[[DdrTensor], Dealt]
"""Gives this tile's columns of a value, which must not be overwritten."""


@dataclass
class PreparedProduct:
    """What a tile has of the constants of a product: its columns of the matrix, and of the bias in FP32.

    ``start``: the bias for each element of the result, which the sums begin with.
    """

    weights: Weights
    bias: Value | None = None
    start: Value | None = None


def load_constants(
    people: Participants, layer: ProductLayer, heads: AttentionLayer | None, rows: int
) -> PreparedProduct:
    """Start to load the constants of a product for ``rows`` rows; ``heads``: whose operand it computes."""
    kernel = people.kernel
    width, fmt = layer.columns // people.mesh.columns, layer.work.arithmetic
    blocks = [_blocks(layer, heads, column, people.mesh.columns) for column in range(people.mesh.columns)]
    size = layer.inner * width

    def image() -> Array:
        matrix = np.asarray(layer.weights(), np.float64)
        parts = [stored(matrix[:, chosen] * factor, fmt) for own in blocks for chosen, factor in own]
        packed = [pack(np.ascontiguousarray(part), fmt, Layout.CX) for part in parts]
        return np.concatenate([part.view(storage_dtype(fmt)) for part in packed])

    symbol = kernel.lazy_constant("weights", fmt, size * people.mesh.columns, image).symbol
    run = DdrTensor(symbol, fmt, (size * people.mesh.columns,)), people.column * size, size
    weights = Weights(people, run, kernel.buffer("w", size * fmt.bits // 8))
    weights.load()
    if not layer.vectors:
        return PreparedProduct(weights)
    bias = _load_bias(people, layer, blocks)
    if layer.residuals:
        return PreparedProduct(weights, bias)
    start = kernel.buffer("start", 4 * rows * width)
    if heads is None:
        spread(kernel, Aligned(start, Format.FP32, Grid(rows, 1, rows), width), bias)
    else:
        _spread_heads(kernel, start, bias, rows, heads.depth, width // heads.depth)
    return PreparedProduct(weights, start=start)


def _load_bias(people: Participants, layer: ProductLayer, blocks: Sequence[Sequence[Block]]) -> Value:
    """This tile's columns of the bias."""
    kernel, vector = people.kernel, layer.bias()
    data = np.concatenate([vector[chosen] * factor for own in blocks for chosen, factor in own])
    width = layer.columns // people.mesh.columns
    symbol = kernel.constant("bias_data", Format.FP32, data.astype(np.float32)).symbol
    bias = kernel.buffer("bias", 4 * width)
    source = DdrTensor(symbol, Format.FP32, data.shape).at(people.column * width)
    kernel.emit("rdma.fp32", dst=bias, src=source, n=width)
    return bias


def _spread_heads(kernel: Kernel, target: Value, bias: Value, rows: int, depth: int, count: int) -> None:
    """Write the bias of each head to all of its ``rows`` rows."""
    size = 4 * depth
    kernel.emit(
        "td.gatherscatter",
        dst=target,
        src0=bias,
        n=size,
        src_stride0=0,
        src_iter0=rows,
        src_stride1=size,
        src_iter1=count,
        dst_stride0=size,
        dst_iter0=rows * count,
    )


def _blocks(layer: ProductLayer, heads: AttentionLayer | None, column: int, columns: int) -> list[Block]:
    """The columns of the matrix that a mesh column computes, in blocks, each with a factor.

    The queries, keys and values of a head are blocks of their own; queries take the scale of the attention.
    """
    width = layer.columns // columns
    if heads is None:
        return [(np.arange(column * width, (column + 1) * width), 1.0)]
    share, scale = heads.heads // columns, heads.work.spec.number("scale")
    found = []
    for place, factor in zip(heads.parts, (scale, 1.0, 1.0), strict=True):
        for head in range(column * share, (column + 1) * share):
            first = place * heads.columns + head * heads.depth
            found.append((np.arange(first, first + heads.depth), factor))
    return found


def multiply_heads(
    kernel: Kernel, source: Gathered, prepared: PreparedProduct, heads: AttentionLayer, columns: int
) -> Heads:
    """Queries, keys and values of this tile's heads and rows, head by head."""
    fmt, count = source.fmt, 3 * heads.heads // columns
    size = count * source.rows * heads.depth
    base = kernel.buffer("heads", size * fmt.bits // 8)
    kernel.emit(
        f"ne.gemm.{fmt.token}",
        a=source.base,
        b=prepared.weights.target,
        out=base,
        m=source.rows,
        k=source.channels,
        n=heads.depth,
        lb=1,
        rb=count,
        rt=1,
        out_format=fmt.token,
        **({} if prepared.start is None else {"psum": prepared.start}),
    )
    return Heads(base, fmt, count, source.rows, heads.depth)


def multiply(
    people: Participants, layer: ProductLayer, source: Gathered, prepared: PreparedProduct, own: OwnPiece
) -> Dealt:
    """This tile's columns of the result, with all steps, in the format in which they are stored."""
    kernel, target = people.kernel, layer.work.output.fmt
    width, grid = layer.columns // people.mesh.columns, Grid(source.rows, 1, source.rows)
    starts = [own(tensor) for tensor in layer.residuals]
    final = not layer.steps and prepared.bias is None and len(starts) < 2 and target is source.fmt
    sums = slice_buffer(kernel, "sums", target if final else Format.FP32, grid, width)
    psum: dict[str, Argument] = {}
    if starts:
        psum = {"psum": starts[0].base, "psum_format": starts[0].fmt.token}
    elif prepared.start is not None:
        psum = {"psum": prepared.start}
    kernel.emit(
        f"ne.gemm.{source.fmt.token}",
        a=source.base,
        b=prepared.weights.target,
        out=sums.base,
        m=source.rows,
        k=source.channels,
        n=width,
        rt=1,
        out_format=sums.fmt.token,
        **psum,
    )
    if prepared.bias is not None:
        per_channel(kernel, "add", sums, prepared.bias)
    _add(kernel, sums, starts[1:])
    at = Place(0, people.row * source.rows, people.column * width)
    apply_steps(_Share(kernel, sums, at, own), sums.base, layer.steps)
    if sums.fmt is target:
        return Dealt(sums.base, target, source.rows, width)
    result = slice_buffer(kernel, "y", target, grid, width)
    convert(kernel, result.base, sums.base, sums.elements, Format.FP32, target)
    return Dealt(result.base, target, source.rows, width)


def _add(kernel: Kernel, sums: Aligned, pieces: Sequence[Dealt]) -> None:
    for piece in pieces:
        wide = widened_piece(kernel, piece)
        Vector(kernel, Format.FP32, sums.elements).vv("add", sums.base, sums.base, wide)


def widened_piece(kernel: Kernel, piece: Dealt) -> Value:
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


def load_piece(people: Participants, tensor: DdrTensor, rows: int) -> Dealt:
    """This tile's columns of its rows of a matrix in DDR."""
    kernel, columns = people.kernel, tensor.shape[-1]
    width = columns // people.mesh.columns
    matrix = tensor.viewed(1, tensor.size // columns, columns)
    at = Place(0, people.row * rows, people.column * width)
    piece = load_slice(kernel, "own", matrix, at, Grid(rows, 1, rows), width)
    return Dealt(piece.base, tensor.fmt, rows, width)
