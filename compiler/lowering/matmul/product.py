"""Products of matrices in DDR: MatMul and Gemm with any attributes and batches."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from compiler.codegen.expr import Value
from compiler.codegen.kernel import Kernel
from compiler.codegen.phase import Origin
from compiler.codegen.slices.aligned import ChannelVector
from compiler.codegen.slices.precision import constant_parts, engine_format, part_count
from compiler.codegen.slices.tensors import BLOCK, DdrTensor, Stretch, dma_loops, unravel
from compiler.graph import Array
from compiler.lowering.record import Step
from tx8isa.numbers.formats import Format
from tx8isa.numbers.layouts import Layout, batch_bytes, full_blocks, tail_width
from tx8isa.numbers.packing import pack


@dataclass(frozen=True)
class Matrix:
    """One operand: a matrix for each batch, of ``x`` rows or columns (m or n) and the inner dimension ``k``.

    ``along_k``: the elements of one x are contiguous in DDR, otherwise those of one k. ``batch_steps``:
    elements from one batch to the next, per axis of the product's batches.
    """

    tensor: DdrTensor
    x: int
    k: int
    along_k: bool
    batch_steps: tuple[int, ...] = ()

    @property
    def pitch(self) -> int:
        """Elements from one row of the storage to the next."""
        return self.k if self.along_k else self.x

    def first(self, batch: Sequence[Value], x: Value, k: Value) -> Value:
        """The element of the tensor at (x, k) of a batch."""
        row, lane = (x, k) if self.along_k else (k, x)
        element = row * self.pitch + lane
        for index, step in zip(batch, self.batch_steps, strict=True):
            element = element + index * step
        return element


@dataclass(frozen=True)
class ProductEpilogue:
    """The work after the FP32 product: times ``alpha``, plus a vector or ``beta`` matrix, then ``steps``."""

    alpha: float = 1.0
    beta: float = 1.0
    vector: ChannelVector | None = None
    matrix: DdrTensor | None = None
    steps: tuple[Step, ...] = ()

    @property
    def empty(self) -> bool:
        return self.alpha == 1.0 and self.vector is None and self.matrix is None and not self.steps


@dataclass(frozen=True)
class Product:
    """out[b] = left[b] x right[b], row-major in DDR: [m, k] x [k, n] for each batch.

    Computed in ``compute``. Operands in FP32 are rounded when they are loaded if ``compute`` is shorter, and
    the result may be stored in FP32 too.
    """

    left: Matrix
    right: Matrix
    out: DdrTensor
    batch_sizes: tuple[int, ...]
    compute: Format
    epilogue: ProductEpilogue = ProductEpilogue()

    @property
    def m(self) -> int:
        return self.left.x

    @property
    def k(self) -> int:
        return self.left.k

    @property
    def n(self) -> int:
        return self.right.x

    @property
    def batches(self) -> int:
        return math.prod(self.batch_sizes)

    @property
    def packed(self) -> bool:
        """True if the right operand is laid out for the engine when compiling, [k, n] in blocks."""
        return self.right.tensor.value is not None and self.batches == 1

    def constant(self) -> Array:
        """The data of a constant right operand as [k, n]."""
        value, right = np.asarray(self.right.tensor.value), self.right
        return value.reshape(right.x, right.k).T if right.along_k else value.reshape(right.k, right.x)

    def batch(self, number: Value) -> list[Value]:
        """The index of a batch."""
        return unravel(number, self.batch_sizes)

    def row(self, batch: Value, row: Value) -> Value:
        """Number of a batch's row among the rows of all batches."""
        return batch * self.m + row

    def place(self, batch: Value, row: Value, column: Value) -> Value:
        """The element of the result at (row, column) of a batch."""
        return self.row(batch, row) * self.n + column


@dataclass(frozen=True)
class ConstantPlanes:
    """A constant right operand [k, n] in DDR in the order of the matrix engine: planes of 64 columns.

    Every product with the same operand can read this order, however it is divided. So a program has one copy
    of it. ``tensors``: one for each part of FP32, else a single one.
    """

    tensors: tuple[DdrTensor, ...]
    k: int
    n: int

    def load(self, kernel: Kernel, targets: Sequence[Value], box: PlaneBox) -> None:
        """Load a part into consecutive bytes, one target for each part of FP32."""
        planes, tail = full_blocks(box.columns, BLOCK), tail_width(box.columns, BLOCK)
        first = box.column * self.k
        for tensor, target in zip(self.tensors, targets, strict=True):
            mnemonic, each = f"rdma.{tensor.fmt.token}", tensor.bytes_each
            if planes:
                loops = dma_loops((self.k * BLOCK, 1), (planes, box.rows * BLOCK))
                kernel.emit(mnemonic, dst=target, src=tensor.at(first + box.row * BLOCK), **loops)
            if tail:
                begin = first + planes * (self.k * BLOCK) + box.row * tail
                after = target + planes * BLOCK * each * box.rows
                kernel.emit(mnemonic, dst=after, src=tensor.at(begin), n=box.rows * tail)


@dataclass(frozen=True)
class PlaneBox:
    """A part of a right operand: ``columns`` from ``column`` on, of ``rows`` terms from ``row`` on."""

    column: Value
    columns: int
    row: Value
    rows: int


def in_planes(product: Product, columns: Stretch) -> bool:
    """True if each block of columns of a constant right operand is whole planes of 64, or ends with the last
    one."""
    at_end = columns.count == 1 and columns.start + columns.size == product.n
    return product.packed and columns.start % BLOCK == 0 and (columns.size % BLOCK == 0 or at_end)


def constant_planes(kernel: Kernel, product: Product) -> ConstantPlanes:
    """The constant right operand of a product in planes."""
    fmt, k, n = engine_format(product.compute), product.k, product.n
    value = np.asarray(product.right.tensor.value)
    size = batch_bytes(k, n, fmt.bits) * 8 // fmt.bits

    def image(part: int) -> Array:
        data = constant_parts(product.constant(), product.compute)[part]
        return pack(data, fmt, Layout.CX).view(data.dtype)

    tensors = []
    for part in range(part_count(product.compute)):
        origin = Origin(value, ("planes", product.right.along_k, product.compute, n, part))
        symbol = kernel.lazy_constant("weights", fmt, size, partial(image, part), origin).symbol
        tensors.append(DdrTensor(symbol, fmt, (size,)))
    return ConstantPlanes(tuple(tensors), k, n)
