"""What MatMul and Gemm compute, whatever their attributes and batches: products of matrices in DDR."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from compiler.codegen.expr import Value
from compiler.codegen.slices.aligned import ChannelVector
from compiler.codegen.slices.tensors import DdrTensor, unravel
from compiler.graph import Array
from compiler.lowering.record import Step
from tx8isa.numbers.formats import Format


@dataclass(frozen=True)
class Matrix:
    """One operand: a matrix for each batch, of ``x`` rows or columns (m or n) and the inner dimension ``k``.

    ``along_k``: the elements of one x lie together in DDR, otherwise those of one k. ``batch_steps``:
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
    """What is done to the FP32 product: times ``alpha``, plus a vector or ``beta`` matrix, then ``steps``."""

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

    Computed in ``compute``; an operand in FP32 beside a shorter format is rounded when it is loaded, and the
    result may be stored in FP32 as well.
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
        """Whether the right operand is laid out for the engine when compiling, [k, n] in blocks."""
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
