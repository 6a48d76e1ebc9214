"""Products of bytes of a sharded sequence: sums in int32 become floats, or bytes again.

Values have planes of 64 channels, but the engine takes 128 channels of bytes as one plane. A convolution
whose window has as many rows as there are planes, each an image apart, adds up all of them, so nothing is
moved. Heads need an instruction with several right operands, a product; pairs of planes are brought together
for that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from compiler.codegen.expr import Value
from compiler.codegen.kernel import Argument, Kernel
from compiler.codegen.slices.aligned import Aligned, per_channel, repeat_rows, slice_buffer
from compiler.codegen.slices.tensors import BLOCK, DdrTensor
from compiler.codegen.slices.vector import Vector, convert
from compiler.graph import Array
from compiler.lowering.conv.int8 import engine_parts, requantisation
from tx8isa.numbers.formats import Format
from tx8isa.numbers.layouts import Layout
from tx8isa.numbers.packing import pack

from .columns import Block, blocks_of
from .exchange import Participants
from .layers import AttentionLayer, Layers, ProductLayer, ProductPart
from .mesh import Dealt, Gathered, Heads


@dataclass(frozen=True)
class ByteVectors:
    """Addresses of what a tile has for its columns of a product: the bias in int32, the scales in FP32.

    ``bias`` is None without. Those of heads have a row of 64 elements each for their scales.
    """

    bias: Value | None
    scales: Value


def load_byte_vectors(participants: Participants, layers: Layers) -> dict[str, ByteVectors]:
    """Load the vectors of all products of bytes at once; by the symbols of their results."""
    kernel, columns = participants.kernel, participants.mesh.columns
    parts, places, count = list[Array](), dict[str, tuple[int | None, int]](), 0
    for layer in layers.order:
        if isinstance(layer, ProductLayer) and layer.of_bytes:
            heads = layers.user_of_heads(layer)
            own = [_vectors(layer, heads, blocks_of(layer, heads, at, columns)) for at in range(columns)]
            bias, scales = (np.stack(each) for each in zip(*own, strict=True))
            kept = [bias, scales] if bias.any() else [scales]
            start = count if bias.any() else None
            count += sum(each.shape[1] for each in kept)
            places[layer.result.symbol] = start, count - scales.shape[1]
            parts += kept
    if not parts:
        return {}
    data = np.concatenate(parts, axis=1)
    symbol = kernel.constant("vector_data", Format.FP32, data.reshape(-1)).symbol
    base, source = kernel.buffer("vectors", 4 * count), DdrTensor(symbol, Format.FP32, (data.size,))
    kernel.emit("rdma.fp32", dst=base, src=source.at(participants.column * count), n=count)
    return {
        symbol: ByteVectors(None if start is None else base + 4 * start, base + 4 * scales)
        for symbol, (start, scales) in places.items()
    }


def _vectors(
    layer: ProductLayer, heads: AttentionLayer | None, blocks: Sequence[Block]
) -> tuple[Array, Array]:
    """The bits of the bias in the unit of the sums, and the scales, of a mesh column."""
    units, bias = layer.units(), layer.bias()
    whole = [np.rint((bias[each.columns] + each.shift) / units[each.columns]) for each in blocks]
    scales = [units[each.columns] * each.factor for each in blocks]
    if heads is not None:
        scales = [np.tile(each, BLOCK // heads.depth) for each in scales]
    bits = np.concatenate(whole).astype(np.int64).astype(np.int32).view(np.float32)
    return bits, np.concatenate(scales).astype(np.float32)


def byte_weights(part: ProductPart, heads: AttentionLayer | None, blocks: Sequence[Block]) -> Array:
    """The weights of some rows of the matrix for the columns of a mesh column, as the engine wants them."""
    matrix = part.layer.weights()[part.first : part.first + part.inner]
    if heads is None:
        (block,) = blocks
        planes = matrix[:, block.columns].reshape(part.inner // BLOCK, BLOCK, -1)
        return np.ascontiguousarray(planes.transpose(0, 2, 1)).reshape(-1)
    packed = (pack(np.ascontiguousarray(matrix[:, each.columns]), Format.INT8, Layout.CX) for each in blocks)
    return np.concatenate([each.view(np.int8) for each in packed])


def starting_heads(kernel: Kernel, vectors: ByteVectors, head: tuple[int, int], rows: int) -> Value | None:
    """The bias at every element of the sums of heads, (how many, columns of each); None without bias."""
    if vectors.bias is None:
        return None
    count, depth = head
    start = kernel.buffer("start", 4 * rows * count * depth)
    repeat_rows(kernel, start, vectors.bias, depth, count, rows)
    return start


@dataclass(frozen=True)
class BytePart:
    """A part of a product of bytes with its operands in the scratchpad; ``before``: the sums of earlier
    parts."""

    kernel: Kernel
    source: Gathered
    part: ProductPart
    weights: Value
    vectors: ByteVectors
    before: Value | None

    @property
    def _data(self) -> Aligned:
        first = self.source.base + self.part.first * self.source.rows
        return Aligned(first, Format.INT8, self.source.slice.grid, self.part.inner)

    @property
    def _zeros(self) -> dict[str, Argument]:
        return requantisation(self.part.layer.work, None).operands

    def heads(self, head: tuple[int, int], start: Value | None) -> Heads:
        """The matrices of heads; sums in int32 unless this is the last part."""
        kernel, rows, (count, depth) = self.kernel, self.source.rows, head
        sums = kernel.buffer("sums", 4 * count * rows * depth)
        begin = start if self.before is None else self.before
        kernel.emit(
            "ne.gemm.int8",
            a=engine_parts(kernel, self._data)[0].base,
            b=self.weights,
            out=sums,
            out_format="int32",
            m=rows,
            k=self.part.inner,
            n=depth,
            lb=1,
            rb=count,
            rt=1,
            **self._zeros,
            **({} if begin is None else {"psum": begin, "psum_format": "int32"}),
        )
        if not self.part.ends:
            return Heads(sums, Format.INT32, count, rows, depth)
        elements, fmt = count * rows * depth, self.part.layer.work.arithmetic
        convert(kernel, sums, sums, elements, Format.INT32, Format.FP32)
        group = rows * depth
        lanes = Aligned(
            sums, Format.FP32, Gathered(sums, Format.FP32, group // BLOCK, 0).slice.grid, count * BLOCK
        )
        per_channel(kernel, "mul", lanes, self.vectors.scales)
        base = kernel.buffer("heads", elements * fmt.bits // 8)
        convert(kernel, base, sums, elements, Format.FP32, fmt)
        return Heads(base, fmt, count, rows, depth)

    def sums(self, width: int) -> Dealt:
        """This tile's columns of the sums in int32."""
        kernel, rows, planes = self.kernel, self.source.rows, self.part.inner // BLOCK
        target = slice_buffer(kernel, "sums", Format.INT32, self.source.slice.grid, width)
        start: dict[str, Argument] = {}
        if self.before is not None:
            start = {"psum": self.before, "psum_format": "int32"}
        elif self.vectors.bias is not None:
            start = {"bias": self.vectors.bias}
        kernel.emit(
            "ne.conv.int8",
            out=target.base,
            out_format="int32",
            shape=[1, planes, rows, BLOCK],
            dst_shape=[1, 1, rows, width],
            window=[1, planes, 1, 1],
            a=self._data.base,
            w=self.weights,
            **self._zeros,
            **start,
        )
        return Dealt(target.base, Format.INT32, rows, width)

    def bytes(self, sums: Dealt) -> Dealt:
        """The sums as the bytes that the operator says, which are those of ONNX."""
        how = requantisation(self.part.layer.work, None)
        result = how.finished(self.kernel, sums.slice, self.vectors.scales, Format.INT8)
        return Dealt(result.base, result.fmt, sums.rows, sums.width)

    def floats(self, sums: Dealt) -> Aligned:
        """The sums as FP32 numbers, in place."""
        convert(self.kernel, sums.base, sums.base, sums.slice.elements, Format.INT32, Format.FP32)
        wide = Aligned(sums.base, Format.FP32, sums.slice.grid, sums.width)
        per_channel(self.kernel, "mul", wide, self.vectors.scales)
        return wide


def quantised_slice(kernel: Kernel, data: Aligned, scale: float, zero: float) -> Aligned:
    """An FP32 slice, which is overwritten, as bytes."""
    vector = Vector(kernel, Format.FP32, data.elements)
    if scale != 1.0:
        vector.vs("mul", data.base, data.base, 1.0 / scale)
    if zero:
        vector.vs("add", data.base, data.base, zero)
    target = slice_buffer(kernel, "bytes", Format.INT8, data.grid, data.channels)
    convert(kernel, target.base, data.base, data.elements, Format.FP32, Format.INT8)
    return target
