"""The biases of a sharded sequence: each tile loads its columns of all of them by one command.

Where sums begin with a residual, a product of ones and the bias adds the bias to it. The bias is then in
parts that the matrix engine takes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from compiler.codegen.expr import Value
from compiler.codegen.slices.aligned import Aligned, slice_buffer
from compiler.codegen.slices.tensors import DdrTensor
from compiler.graph import Array
from compiler.lowering.stack.constants import BIAS_PARTS, tf32_parts
from tx8isa.numbers.formats import Format
from tx8isa.numbers.layouts import Layout
from tx8isa.numbers.packing import pack

from .exchange import Participants
from .layers import Layers, ProductLayer, blocks_of
from .mesh import ShardedMatrix
from .normalization import Ones


@dataclass(frozen=True)
class ColumnBias:
    """A tile's columns of a bias at an address: in FP32, or in parts, by which ``ones`` are multiplied."""

    base: Value
    ones: Ones | None = None

    def added_to(self, residual: ShardedMatrix) -> Aligned:
        """The sum of both in FP32; the bias must be in parts."""
        assert self.ones is not None
        kernel, grid = self.ones.kernel, residual.slice.grid
        target = slice_buffer(kernel, "start", Format.FP32, grid, residual.width)
        kernel.emit(
            "ne.gemm.tf32",
            a=self.ones.base,
            b=self.base,
            out=target.base,
            m=grid.positions,
            k=BIAS_PARTS,
            n=residual.width,
            rt=1,
            out_format="fp32",
            psum=residual.base,
            psum_format=residual.fmt.token,
        )
        return target


def load_biases(participants: Participants, layers: Layers, ones: Ones | None) -> dict[str, ColumnBias]:
    """Start to load them; returns the biases by the symbols of the products' results.

    ``ones``: a number for each part of a bias at each row; None if there are too few.
    """
    kernel, columns = participants.kernel, participants.mesh.columns
    found = {layer.result.symbol: _stored(layers, layer, columns, ones) for layer in _biased(layers, columns)}
    if not found:
        return {}
    data = np.concatenate([shares[column] for column in range(columns) for shares, _ in found.values()])
    symbol = kernel.constant("bias_data", Format.FP32, data.astype(np.float32)).symbol
    width = data.size // columns
    base = kernel.buffer("bias", 4 * width)
    source = DdrTensor(symbol, Format.FP32, data.shape).at(participants.column * width)
    kernel.emit("rdma.fp32", dst=base, src=source, n=width)
    biases: dict[str, ColumnBias] = {}
    for name, (shares, in_parts) in found.items():
        biases[name] = ColumnBias(base, ones if in_parts else None)
        base = base + 4 * shares[0].size
    return biases


def _biased(layers: Layers, columns: int) -> Iterator[ProductLayer]:
    """The products of floats that have a bias."""
    for layer in layers.order:
        if isinstance(layer, ProductLayer) and not layer.of_bytes:
            blocks = blocks_of(layer, layers.user_of_heads(layer), 0, columns)
            if layer.biased or any(each.shift for each in blocks):
                yield layer


def _stored(layers: Layers, layer: ProductLayer, columns: int, ones: Ones | None) -> tuple[list[Array], bool]:
    """A product's bias as each mesh column holds it, and whether it is in parts."""
    vector, heads = layer.bias(), layers.user_of_heads(layer)
    shares = []
    for column in range(columns):
        blocks = blocks_of(layer, heads, column, columns)
        shares.append(np.concatenate([(vector[each.columns] + each.shift) * each.factor for each in blocks]))
    parts = [tf32_parts(each.astype(np.float32)) for each in shares] if layer.residuals and ones else [None]
    whole = [np.stack(each) / ones.unit for each in parts if each is not None and ones is not None]
    if len(whole) < columns:
        return shares, False
    return [pack(each.astype(np.float32), Format.FP32, Layout.CX).view(np.float32) for each in whole], True
