"""Weights of few bits as they are in DDR: chunks of packed numbers with their scales.

A chunk is loaded at once: some rows of some planes of 64 columns. Its elements, in the order of the matrix
engine, are divided into equal *fields*, as many as a byte holds numbers. Byte i has element i of each field,
so a field is unpacked into consecutive places by instructions on all bytes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from compiler.codegen.slices.tensors import BLOCK
from compiler.evaluation.storage import within_range
from compiler.graph import Array
from tx8isa.numbers.formats import Format
from tx8isa.numbers.rounding import rounded


@dataclass(frozen=True)
class Numbers:
    """Known weights: integers [k, n] of ``bits`` bits, their scales and zero points for blocks of rows."""

    values: Array
    scale: Array
    zero: Array | None
    bits: int
    block: int

    @property
    def fields(self) -> int:
        """Numbers in a byte."""
        return 8 // self.bits

    @property
    def half(self) -> int:
        """The offset that makes a signed number non-negative."""
        return 1 << (self.bits - 1)

    @property
    def highest(self) -> int:
        """The bit of a byte at which the last field begins."""
        return 8 - self.bits


@dataclass(frozen=True)
class PackedChunk:
    """``rows`` rows of ``planes`` planes; ``fmt``: the format of the unpacked weights and of the scales."""

    rows: int
    planes: int
    bits: int
    block: int
    has_zeros: bool
    fmt: Format

    @property
    def fields(self) -> int:
        return 8 // self.bits

    @property
    def each(self) -> int:
        """Bytes of an unpacked element."""
        return self.fmt.bits // 8

    @property
    def elements(self) -> int:
        return self.rows * self.planes * BLOCK

    @property
    def packed(self) -> int:
        """Bytes of packed numbers, which are the elements of a field."""
        return self.elements // self.fields

    @property
    def group(self) -> int:
        """Consecutive rows of a plane in a field that share their scales."""
        return math.gcd(self.block, self.rows, self.packed // BLOCK)

    @property
    def groups(self) -> int:
        """Groups of a field."""
        return self.packed // BLOCK // self.group

    @property
    def vector(self) -> int:
        """Bytes of the scales of a field, and of its zero points."""
        return self.groups * BLOCK * self.each

    def scales(self, field: int) -> int:
        """The byte at which the scales of a field begin."""
        return self.packed + field * self.vector

    def zeros(self, field: int) -> int:
        """The byte at which the zero points of a field begin."""
        return self.scales(self.fields + field)

    @property
    def size(self) -> int:
        """Bytes of the chunk in DDR."""
        return self.packed + self.fields * self.vector * (2 if self.has_zeros else 1)


def packed_chunks(numbers: Numbers, chunk: PackedChunk) -> Array:
    """All chunks as signed bytes: by blocks of columns, and of each by rows.

    The number in the highest bits of a byte is in two's complement. The lower ones have an offset of
    ``Numbers.half``. With the other fields masked off, a byte is the number times a power of two, plus such
    an offset. Scales and zero points allow for these powers, so that products are ``2 ** Numbers.highest``
    times the weights. No scale in FP16 becomes too small by this power.
    """
    values = _arranged(numbers.values, chunk, chunk.rows).reshape(-1, chunk.fields, chunk.packed)
    packed = np.zeros((len(values), chunk.packed), np.uint8)
    for field in range(chunk.fields):
        more = numbers.half if field < chunk.fields - 1 else 0
        bits = (values[:, field].astype(np.int16) + more).astype(np.uint8) & np.uint8(2 * numbers.half - 1)
        packed |= bits << np.uint8(field * numbers.bits)
    shifts = np.exp2(numbers.bits * np.arange(chunk.fields, dtype=np.float64))
    parts = [packed, _vectors(numbers.scale, numbers, chunk, 2.0**numbers.highest / shifts)]
    if numbers.zero is not None:
        parts.append(_vectors(numbers.zero, numbers, chunk, shifts))
    return np.concatenate(parts, axis=1).view(np.int8)


def _arranged(matrix: Array, chunk: PackedChunk, rows: int) -> Array:
    """[chunks, elements]: the chunks of a matrix, each of ``rows`` rows, in planes."""
    width = chunk.planes * BLOCK
    tall, wide = matrix.shape[0] // rows, matrix.shape[1] // width
    split = matrix.reshape(tall, rows, wide, chunk.planes, BLOCK)
    return np.ascontiguousarray(split.transpose(2, 0, 3, 1, 4)).reshape(tall * wide, -1)


def _vectors(given: Array, numbers: Numbers, chunk: PackedChunk, factors: Array) -> Array:
    """[chunks, bytes]: one row of 64 values for each group, each value times the factor of its field."""
    rows = np.arange(0, len(numbers.values), chunk.group) // numbers.block
    arranged = _arranged(given.astype(np.float64)[rows], chunk, chunk.rows // chunk.group)
    scaled = arranged.reshape(len(arranged), chunk.fields, -1) * factors[:, None]
    found = rounded(within_range(scaled.reshape(len(arranged), -1), chunk.fmt), chunk.fmt)
    return np.ascontiguousarray(found).view(np.uint8)
