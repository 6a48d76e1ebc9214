"""Attention of a sharded sequence: a tile has some heads, and all keys for its own rows of queries.

Several heads of a tile are computed together, a matrix for each in every instruction. Scores are [keys,
queries], so that a number for each query is one value per lane. They are computed twice: first for the
largest score of each query, which is then subtracted in the initial sums of the second product, as in
``lowering.attention``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from compiler.codegen.expr import Value
from compiler.codegen.kernel import Argument, Kernel
from compiler.codegen.slices.aligned import aligned_bytes
from compiler.codegen.slices.row_transposer import loaded_matrix
from compiler.codegen.slices.tensors import BLOCK
from compiler.codegen.slices.vector import Vector, convert
from compiler.codegen.tree import Spaced
from tx8isa.numbers.division import round_up
from tx8isa.numbers.formats import Format
from tx8isa.numbers.layouts import LINE_BYTES

from .mesh import Heads, ShardedMatrix

_MOST_SCORES = 1 << 18
"""Limit for the FP32 scores of heads that are computed together, in bytes; a single head may have more."""


@dataclass(frozen=True)
class AttentionTables:
    """The negated constants that a tile keeps for the attention of all layers.

    A product with minus ones negates the largest scores, which then start the sums of the scores, and the
    sums of weights. So the quotients are negated, too, until the negative identity transposes them.
    """

    ones: Value
    identity: Value


def attention_tables(kernel: Kernel, keys: int, depth: int, width: int, fmt: Format) -> AttentionTables:
    """``keys`` of a head, its ``depth``, and the ``width`` of one transposition."""
    size = aligned_bytes(max(depth, 1), keys, fmt)
    ones = kernel.buffer("ones", size)
    kernel.emit(f"td.memset.{fmt.token}", dst=ones, value=-1.0, n=size * 8 // fmt.bits)
    return AttentionTables(ones, loaded_matrix(kernel, "identity", -np.eye(width), fmt))


def attend(
    kernel: Kernel, queries: Heads, keys: Heads, values: Heads, tables: AttentionTables, target: Format
) -> ShardedMatrix:
    """softmax(K Q')' V of all heads in the format ``target``, side by side: [rows, heads x depth]."""
    fmt, lanes, depth = queries.fmt, queries.rows, queries.depth
    size = depth * lanes * fmt.bits // 8
    mixed = kernel.buffer("narrow", queries.count * size)
    together = max(1, min(queries.count, _MOST_SCORES // (4 * keys.rows * lanes)))
    for first in range(0, queries.count, together):
        count = min(together, queries.count - first)
        parts = [heads.part(first, count) for heads in (queries, keys, values)]
        _Attention(kernel, parts[0], parts[1], parts[2], tables.ones).run(mixed + first * size)
    found = _transposed(kernel, mixed, queries, tables.identity)
    if target.is_float:
        return found
    narrow = kernel.buffer("bytes", found.rows * found.width)
    convert(kernel, narrow, found.base, found.rows * found.width, fmt, target)
    return ShardedMatrix(narrow, target, found.rows, found.width)


class _Attention:
    """The attention of some heads."""

    def __init__(self, kernel: Kernel, queries: Heads, keys: Heads, values: Heads, ones: Value) -> None:
        self.kernel, self.queries, self.keys, self.values, self.ones = kernel, queries, keys, values, ones
        self.fmt, self.heads, self.lanes = queries.fmt, queries.count, queries.rows
        self.elements = self.heads * keys.rows * self.lanes

    def run(self, target: Value) -> None:
        """Write minus V' weights [depth, queries] of each head to ``target``."""
        kernel, depth = self.kernel, self.queries.depth
        weights = self._weights()
        size = self.heads * depth * self.lanes
        totals, sums = kernel.buffer("totals", 4 * size), kernel.buffer("mixed", 4 * size)
        self._multiply(self.ones, weights, totals, depth, self.keys.rows, "fp32", lb=1, rt=1)
        self._multiply(self.values.base, weights, sums, depth, self.keys.rows, "fp32", lt=1, rt=1)
        Vector(kernel, Format.FP32, size).vv("div", sums, sums, totals)
        convert(kernel, target, sums, size, Format.FP32, self.fmt)

    def _weights(self) -> Value:
        """exp(scores - largest score) [keys, queries] of each head."""
        kernel, fmt, keys = self.kernel, self.fmt, self.keys.rows
        scores = kernel.buffer("scores", self.elements * fmt.bits // 8)
        self._multiply(self.keys.base, self.queries.base, scores, keys, self.queries.depth, fmt.token)
        row = round_up(self.lanes * fmt.bits // 8, LINE_BYTES)
        largest = kernel.buffer("largest", self.heads * row + LINE_BYTES)
        shape: list[Value] = [Spaced(self.heads), keys, 1, self.lanes]
        kernel.emit(f"ct.reduce.max.{fmt.token}", dst=largest, src0=scores, shape=shape, dims="h")
        shift = kernel.buffer("shift", 4 * self.elements)
        heads = Spaced(self.heads)
        self._multiply(self.ones, largest, shift, keys, 1, "fp32", lb=1, rb=heads, lt=1, rt=1)
        depth = self.queries.depth
        self._multiply(self.keys.base, self.queries.base, scores, keys, depth, fmt.token, psum=shift)
        Vector(kernel, fmt, self.elements).unary("exp_lp", scores, scores)
        return scores

    def _multiply(
        self, left: Value, right: Value, out: Value, m: int, inner: int, fmt: str, **more: Argument
    ) -> None:
        """out [m, queries] = left right for each head; ``more``: other operands of the instruction."""
        operands: dict[str, Argument] = {"lb": self.heads, "rb": self.heads} | more
        self.kernel.emit(
            f"ne.gemm.{self.fmt.token}",
            a=left,
            b=right,
            out=out,
            m=m,
            k=inner,
            n=self.lanes,
            out_format=fmt,
            **operands,
        )


def _transposed(kernel: Kernel, data: Value, queries: Heads, identity: Value) -> ShardedMatrix:
    """Minus [depth, queries] of each head as [queries, heads x depth]: an exact product.

    With at most 64 queries the heads are one matrix [heads x depth, queries]. Else a head is 64 columns wide,
    a plane of the result.
    """
    fmt, lanes, width = queries.fmt, queries.rows, queries.count * queries.depth
    base = kernel.buffer("y", lanes * width * fmt.bits // 8)
    together = lanes <= BLOCK
    kernel.emit(
        f"ne.gemm.{fmt.token}",
        a=data,
        b=identity,
        out=base,
        m=lanes,
        k=width if together else queries.depth,
        n=width if together else queries.depth,
        lt=1,
        rt=1,
        lb=1 if together else queries.count,
        out_format=fmt.token,
    )
    return ShardedMatrix(base, fmt, lanes, width)
