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
from compiler.codegen.slices.aligned import Grid, aligned_bytes, load_aligned, narrowed_slice
from compiler.codegen.slices.row_transposer import identity, loaded_matrix
from compiler.codegen.slices.tensors import BLOCK
from compiler.codegen.slices.vector import Vector, convert
from compiler.codegen.tree import Spaced
from compiler.lowering.attention.plan import hidden_score
from tx8isa.numbers.division import round_up
from tx8isa.numbers.formats import Format
from tx8isa.numbers.layouts import LINE_BYTES

from .exchange import Participants
from .layers import AttentionLayer
from .mesh import Heads, ShardedMatrix

_MOST_SCORES = 1 << 18
"""Limit for the FP32 scores of heads that are computed together, in bytes; a single head may have more."""
_FACTOR = {Format.FP16: 6.0e4, Format.FP32: 3.0e38}
"""Factor that makes half of a hidden score infinite; FP32's in wider formats than FP16."""


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


@dataclass(frozen=True)
class TileMask:
    """This tile's rows of a mask, transposed: [keys, queries].

    ``unseen``: infinity for each query whose keys are all hidden, else 0, if such queries give rows of zeros.
    """

    added: Value
    unseen: Value | None = None


def load_mask(participants: Participants, layer: AttentionLayer, fmt: Format) -> TileMask:
    """Load and transpose the rows of the mask of a layer."""
    kernel, lanes, keys = participants.kernel, participants.share, layer.rows
    assert layer.mask is not None
    rows = layer.mask.shape[-2]
    matrix, grid = layer.mask.viewed(rows, keys), Grid(lanes if rows > 1 else 1, 1, lanes if rows > 1 else 1)
    first = participants.first_row * keys if rows > 1 else 0
    loaded = load_aligned(kernel, "mask", matrix, first, keys, grid, keys)
    loaded = loaded if loaded.fmt is fmt else narrowed_slice(kernel, loaded, fmt)
    Vector(kernel, fmt, loaded.elements).vs("max", loaded.base, loaded.base, hidden_score(fmt))
    if rows > 1:
        factor = identity(kernel, lanes, fmt)
    else:  # one row for all queries
        factor = kernel.buffer("row", aligned_bytes(1, lanes, fmt))
        kernel.emit(f"td.memset.{fmt.token}", dst=factor, value=1.0, n=lanes)
    target = kernel.buffer("hidden", aligned_bytes(keys, lanes, fmt))
    kernel.emit(
        f"ne.gemm.{fmt.token}",
        a=loaded.base,
        b=factor,
        out=target,
        m=keys,
        k=grid.room,
        n=lanes,
        lt=1,
        rt=1,
        out_format=fmt.token,
    )
    zeros = layer.work.spec.integer("zero_rows")
    return TileMask(target, _unseen(kernel, target, keys, lanes, fmt) if zeros else None)


def _unseen(kernel: Kernel, mask: Value, keys: int, lanes: int, fmt: Format) -> Value:
    """Infinity for each query whose keys a mask [keys, queries] all hides, else 0."""
    row = kernel.buffer("unseen", aligned_bytes(1, lanes, fmt))
    shape: list[Value] = [1, keys, 1, lanes]
    kernel.emit(f"ct.reduce.max.{fmt.token}", dst=row, src0=mask, shape=shape, dims="h")
    vector = Vector(kernel, fmt, lanes)
    vector.vs("mul", row, row, -1.0)
    vector.vs("add", row, row, hidden_score(fmt) / 2)
    vector.unary("relu", row, row)
    vector.vs("mul", row, row, _FACTOR.get(fmt, _FACTOR[Format.FP32]))
    return row


def attend(
    kernel: Kernel,
    queries: Heads,
    keys: Heads,
    values: Heads,
    tables: AttentionTables,
    target: Format,
    mask: TileMask | None = None,
) -> ShardedMatrix:
    """softmax(K Q' + mask)' V of all heads in the format ``target``, side by side: [rows, heads x depth]."""
    fmt, lanes, depth = queries.fmt, queries.rows, queries.depth
    size = depth * lanes * fmt.bits // 8
    mixed = kernel.buffer("narrow", queries.count * size)
    together = max(1, min(queries.count, _MOST_SCORES // (4 * keys.rows * lanes)))
    for first in range(0, queries.count, together):
        count = min(together, queries.count - first)
        parts = [heads.part(first, count) for heads in (queries, keys, values)]
        _Attention(kernel, parts[0], parts[1], parts[2], tables.ones, mask).run(mixed + first * size)
    found = _transposed(kernel, mixed, queries, tables.identity)
    if target.is_float:
        return found
    narrow = kernel.buffer("bytes", found.rows * found.width)
    convert(kernel, narrow, found.base, found.rows * found.width, fmt, target)
    return ShardedMatrix(narrow, target, found.rows, found.width)


class _Attention:
    """The attention of some heads."""

    def __init__(
        self, kernel: Kernel, queries: Heads, keys: Heads, values: Heads, ones: Value, mask: TileMask | None
    ) -> None:
        self.kernel, self.queries, self.keys, self.values, self.ones = kernel, queries, keys, values, ones
        self.fmt, self.heads, self.lanes = queries.fmt, queries.count, queries.rows
        self.elements = self.heads * keys.rows * self.lanes
        self.hidden: dict[str, Argument] = {}
        """The initial sums of the scores."""
        self.unseen: Value | None = None
        """A line for each head: infinity for each query whose result is 0."""
        if mask is not None:
            size = keys.rows * self.lanes * self.fmt.bits // 8
            self.hidden = {"psum": self._of_all_heads(mask.added, size, size), "psum_format": self.fmt.token}
            if mask.unseen is not None:
                size = self.lanes * self.fmt.bits // 8
                self.unseen = self._of_all_heads(mask.unseen, size, round_up(size, LINE_BYTES))

    def _of_all_heads(self, source: Value, size: int, pitch: int) -> Value:
        """The same ``size`` bytes for each head, ``pitch`` bytes apart."""
        if self.heads == 1:
            return source
        target = self.kernel.buffer("masks", self.heads * pitch + LINE_BYTES)
        self.kernel.emit(
            "td.gatherscatter",
            dst=target,
            src0=source,
            n=size,
            src_stride0=0,
            src_iter0=self.heads,
            dst_stride0=pitch,
            dst_iter0=self.heads,
        )
        return target

    def run(self, target: Value) -> None:
        """Write minus V' weights [depth, queries] of each head to ``target``."""
        kernel, depth = self.kernel, self.queries.depth
        weights = self._weights()
        size = self.heads * depth * self.lanes
        totals, sums = kernel.buffer("totals", 4 * size), kernel.buffer("mixed", 4 * size)
        begun: dict[str, Argument] = {}
        if self.unseen is not None:
            self._repeat(self.unseen, totals, depth)
            begun = {"psum": totals}
        self._multiply(self.ones, weights, totals, depth, self.keys.rows, "fp32", lb=1, rt=1, **begun)
        self._multiply(self.values.base, weights, sums, depth, self.keys.rows, "fp32", lt=1, rt=1)
        Vector(kernel, Format.FP32, size).vv("div", sums, sums, totals)
        convert(kernel, target, sums, size, Format.FP32, self.fmt)

    def _weights(self) -> Value:
        """exp(scores - largest score) [keys, queries] of each head."""
        kernel, fmt, keys = self.kernel, self.fmt, self.keys.rows
        scores = kernel.buffer("scores", self.elements * fmt.bits // 8)
        depth = self.queries.depth
        self._multiply(self.keys.base, self.queries.base, scores, keys, depth, fmt.token, **self.hidden)
        row = round_up(self.lanes * fmt.bits // 8, LINE_BYTES)
        largest = kernel.buffer("largest", self.heads * row + LINE_BYTES)
        shape: list[Value] = [Spaced(self.heads), keys, 1, self.lanes]
        kernel.emit(f"ct.reduce.max.{fmt.token}", dst=largest, src0=scores, shape=shape, dims="h")
        shift = kernel.buffer("shift", 4 * self.elements)
        self._repeat(largest, shift, keys, **self.hidden)
        self._multiply(self.keys.base, self.queries.base, scores, keys, depth, fmt.token, psum=shift)
        Vector(kernel, fmt, self.elements).unary("exp_lp", scores, scores)
        return scores

    def _repeat(self, lines: Value, target: Value, rows: int, **more: Argument) -> None:
        """target [rows, queries] of each head = minus the head's line, plus initial sums."""
        once: dict[str, Argument] = {"lb": 1, "rb": Spaced(self.heads), "lt": 1, "rt": 1}
        self._multiply(self.ones, lines, target, rows, 1, "fp32", **once, **more)

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
