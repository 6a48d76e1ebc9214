"""Attention of a sharded sequence: a tile has some heads, and all keys for its own rows of queries.

All heads of a tile are computed together, a matrix for each in every instruction. Scores are [keys, queries],
so that a number for each query is one value per lane. They are computed twice: first for the largest score of
each query, which is then subtracted in the initial sums of the second product, as in ``lowering.attention``.
"""

from __future__ import annotations

from dataclasses import dataclass

from compiler.codegen.expr import Value
from compiler.codegen.kernel import Argument, Kernel
from compiler.codegen.slices.aligned import aligned_bytes
from compiler.codegen.slices.row_transposer import identity
from compiler.codegen.slices.vector import Vector, convert
from tx8isa.numbers.division import round_up
from tx8isa.numbers.formats import Format
from tx8isa.numbers.layouts import LINE_BYTES

from .mesh import Dealt, Heads


@dataclass(frozen=True)
class AttentionTables:
    """What a tile keeps for the attention of all layers: ones, and the identity that transposes results."""

    ones: Value
    identity: Value


def attention_tables(kernel: Kernel, keys: int, depth: int, width: int, fmt: Format) -> AttentionTables:
    """``keys`` of a head, its ``depth``, and the ``width`` of the heads of a tile together."""
    size = aligned_bytes(max(depth, 1), keys, fmt)
    ones = kernel.buffer("ones", size)
    kernel.emit(f"td.memset.{fmt.token}", dst=ones, value=1.0, n=size * 8 // fmt.bits)
    return AttentionTables(ones, identity(kernel, width, fmt))


def attend(kernel: Kernel, queries: Heads, keys: Heads, values: Heads, tables: AttentionTables) -> Dealt:
    """softmax(K Q')' V of all heads, the heads side by side: [rows, heads x depth]."""
    return _Attention(kernel, queries, keys, values, tables).run()


class _Attention:
    def __init__(
        self, kernel: Kernel, queries: Heads, keys: Heads, values: Heads, tables: AttentionTables
    ) -> None:
        self.kernel, self.queries, self.keys, self.values = kernel, queries, keys, values
        self.tables, self.fmt, self.heads = tables, queries.fmt, queries.count
        self.lanes = queries.rows
        self.elements = self.heads * keys.rows * self.lanes

    def run(self) -> Dealt:
        kernel, fmt, depth = self.kernel, self.fmt, self.queries.depth
        weights = self._weights()
        size = self.heads * depth * self.lanes
        totals, sums = kernel.buffer("totals", 4 * size), kernel.buffer("mixed", 4 * size)
        self._multiply(self.tables.ones, weights, totals, depth, self.keys.rows, "fp32", lb=1, rt=1)
        self._multiply(self.values.base, weights, sums, depth, self.keys.rows, "fp32", lt=1, rt=1)
        vector = Vector(kernel, Format.FP32, size)
        vector.unary("recip", totals, totals)
        vector.vv("mul", sums, sums, totals)
        narrow = kernel.buffer("narrow", size * fmt.bits // 8)
        convert(kernel, narrow, sums, size, Format.FP32, fmt)
        return self._transposed(narrow)

    def _weights(self) -> Value:
        """exp(scores - largest score) [keys, queries] of each head."""
        kernel, fmt, keys = self.kernel, self.fmt, self.keys.rows
        scores = kernel.buffer("scores", self.elements * fmt.bits // 8)
        self._multiply(self.keys.base, self.queries.base, scores, keys, self.queries.depth, fmt.token)
        row = round_up(self.lanes * fmt.bits // 8, LINE_BYTES)
        largest = kernel.buffer("largest", self.heads * row + LINE_BYTES)
        shape: list[Value] = [self.heads, keys, 1, self.lanes]
        kernel.emit(f"ct.reduce.max.{fmt.token}", dst=largest, src0=scores, shape=shape, dims="h")
        Vector(kernel, fmt, self.heads * row * 8 // fmt.bits).vs("mul", largest, largest, -1.0)
        shift = kernel.buffer("shift", 4 * self.elements)
        self._multiply(self.tables.ones, largest, shift, keys, 1, "fp32", lb=1, lt=1, rt=1)
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

    def _transposed(self, data: Value) -> Dealt:
        """[heads x depth, queries] as [queries, heads x depth]: an exact product with the identity."""
        kernel, width = self.kernel, self.heads * self.queries.depth
        base = kernel.buffer("y", self.lanes * width * self.fmt.bits // 8)
        kernel.emit(
            f"ne.gemm.{self.fmt.token}",
            a=data,
            b=self.tables.identity,
            out=base,
            m=self.lanes,
            k=width,
            n=width,
            lt=1,
            rt=1,
            out_format=self.fmt.token,
        )
        return Dealt(base, self.fmt, self.lanes, width)
