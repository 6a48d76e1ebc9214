"""Products of bytes of a sharded sequence: sums in int32 become floats, or bytes again.

Values have planes of 64 channels, but the engine takes 128 channels of bytes as one plane. A convolution
whose window has as many rows as there are planes, each an image apart, adds up all of them, so nothing is
moved.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from compiler.codegen.expr import Value
from compiler.codegen.kernel import Argument, Kernel
from compiler.codegen.slices.aligned import Aligned, per_channel, slice_buffer
from compiler.codegen.slices.tensors import BLOCK, DdrTensor
from compiler.codegen.slices.vector import Vector, convert
from compiler.graph import Array
from compiler.lowering.conv.quantised.int8 import requantisation
from compiler.lowering.pointwise.quantisation import round_and_shift
from tx8isa.numbers.formats import Format

from .exchange import Participants
from .layers import ColumnBlock, Layers, ProductLayer, ProductPart, ResultBytes, blocks_of
from .mesh import Gathered, Heads, ShardedMatrix


@dataclass(frozen=True)
class ByteVectors:
    """Addresses of the vectors for a tile's columns of a product: the bias in int32, the scales in FP32.

    ``bias`` is None for a product without bias.
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
            own = [_vectors(layer, blocks_of(layer, heads, at, columns)) for at in range(columns)]
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


def _vectors(layer: ProductLayer, blocks: Sequence[ColumnBlock]) -> tuple[Array, Array]:
    """The bits of the bias in the unit of the sums, and the scales, of a mesh column."""
    units, bias = layer.units(), layer.bias()
    whole = [np.rint((bias[each.columns] + each.shift) / units[each.columns]) for each in blocks]
    scales = [units[each.columns] * each.factor for each in blocks]
    bits = np.concatenate(whole).astype(np.int64).astype(np.int32).view(np.float32)
    return bits, np.concatenate(scales).astype(np.float32)


def byte_weights(part: ProductPart, blocks: Sequence[ColumnBlock]) -> Array:
    """The weights of some rows of the matrix for the columns of a mesh column, in the engine's order."""
    matrix = part.layer.weights()[part.first : part.first + part.inner]
    own = matrix[:, np.concatenate([each.columns for each in blocks])]
    planes = own.reshape(part.inner // BLOCK, BLOCK, -1)
    return np.ascontiguousarray(planes.transpose(0, 2, 1)).reshape(-1)


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

    def sums(self, width: int) -> ShardedMatrix:
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
            a=self.source.base + self.part.first * rows,
            w=self.weights,
            **requantisation(self.part.layer.work, None).operands,
            **start,
        )
        return ShardedMatrix(target.base, Format.INT32, rows, width)

    def bytes(self, sums: ShardedMatrix) -> ShardedMatrix:
        """The sums as the operator's bytes, which are those of ONNX."""
        how = requantisation(self.part.layer.work, None)
        result = how.finished(self.kernel, sums.slice, self.vectors.scales, Format.INT8)
        return ShardedMatrix(result.base, result.fmt, sums.rows, sums.width)

    def floats(self, sums: ShardedMatrix) -> Aligned:
        """The sums as FP32 numbers, in place."""
        convert(self.kernel, sums.base, sums.base, sums.slice.elements, Format.INT32, Format.FP32)
        wide = Aligned(sums.base, Format.FP32, sums.slice.grid, sums.width)
        per_channel(self.kernel, "mul", wide, self.vectors.scales)
        return wide


def heads_of(kernel: Kernel, data: Aligned, depth: int) -> Heads:
    """The matrices of heads from data where heads are side by side in planes."""
    rows, fmt = data.grid.room, data.fmt
    count, size = data.channels // depth, depth * data.fmt.bits // 8
    base = data.base
    if depth < BLOCK:
        base, beside = kernel.buffer("heads", rows * count * size), BLOCK // depth
        kernel.emit(
            "td.gatherscatter",
            dst=base,
            src0=data.base,
            n=size,
            src_stride0=size * beside,
            src_iter0=rows,
            src_stride1=size,
            src_iter1=beside,
            src_stride2=size * beside * rows,
            src_iter2=count // beside,
            dst_stride0=size,
            dst_iter0=rows * count,
        )
    return Heads(base, fmt, count, rows, depth)


def quantised_slice(kernel: Kernel, data: Aligned, how: ResultBytes, exact: bool = False) -> Aligned:
    """An FP32 slice, which is overwritten, as bytes; ``exact``: halves too are rounded as ONNX says."""
    vector, scale, zero = Vector(kernel, Format.FP32, data.elements), how.scale, how.zero
    if scale != 1.0 and exact:
        vector.vs("div", data.base, data.base, scale)
    elif scale != 1.0:
        vector.vs("mul", data.base, data.base, 1.0 / scale)
    if zero and exact:
        round_and_shift(vector, data.base, zero)
    elif zero:
        vector.vs("add", data.base, data.base, zero)
    target = slice_buffer(kernel, "bytes", Format.INT8, data.grid, data.channels)
    convert(kernel, target.base, data.base, data.elements, Format.FP32, Format.INT8)
    return target
