"""Attention with online softmax: scores never leave the scratchpad.

A tile takes whole heads, or blocks of queries of one. Scores are computed transposed, [keys, queries], so
that what belongs to a query is one value per channel: the maximum is a reduction over positions, the
subtraction a VuV instruction, and the result, [E, queries] too, is divided the same way. A product with the
identity transposes it in the end, which is exact.

When all keys do not fit they are swept in blocks, and sums and result are scaled by exp(old maximum - new
one) (Milakov, Gimelshein 2018: Online normalizer calculation for softmax; Dao et al. 2022: FlashAttention).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from compiler.codegen.aligned import (
    BLOCK,
    Aligned,
    Grid,
    aligned_bytes,
    load_aligned,
    narrowed_slice,
    per_channel,
    slice_buffer,
    store_aligned,
)
from compiler.codegen.expr import Value, add, ceil_div, maximum, minimum, multiply, round_up, subtract
from compiler.codegen.kernel import Argument, Kernel
from compiler.codegen.lane_turner import identity
from compiler.codegen.precision import engine_format, multiply_parts, split
from compiler.codegen.tensors import DdrTensor, Stretch, View, broadcast_view, stretches, unravel
from compiler.codegen.vector import Vector, convert
from compiler.lowering.attention_plan import Problem, cuts, problem_of
from compiler.lowering.record import Work, lowering
from compiler.operators.attention_fused import Strided, matrices
from compiler.operators.record import Call
from tx8isa.formats import Format
from tx8isa.layouts import LINE_BYTES, aligned_channels

_LOWEST = -3.0e38
"""What a maximum begins with: finite, so that its difference from itself is 0."""
_LEAST_MASK = {Format.FP16: -6.0e4}
_LEAST_OF_WIDER = -1.0e30
"""Masks are brought above this: an infinity times the zeros of the identity would be NaN."""


def _check(call: Call) -> str | None:
    """The engine's packed operands."""
    widest = max(matrices(call, 0).shape[-1], matrices(call, 2).shape[-1])
    return f"heads of at most 4096 channels; found {widest}" if widest > 4096 else None


@lowering("FusedAttention", check=_check, cuts=cuts, rounds=True)
def attention(k: Kernel, work: Work) -> None:
    """Heads are dealt first, then blocks of queries; each tile has a contiguous share."""
    p = problem_of(k, work)
    tables = _tables(k, p)
    for stretch in stretches(p.m, p.queries):
        by_heads, by_blocks = _shares(k.target.tiles, p.heads, stretch.count)
        heads = _share(k, k.tile // by_blocks if by_heads > 1 else 0, by_heads, p.heads)
        blocks = _share(k, k.tile % by_blocks if by_blocks > 1 else 0, by_blocks, stretch.count)
        stages = _Stages(k, p, tables, stretch)
        with k.loop(heads[1], heads[0]) as head:
            if p.keys == p.n:
                _pipelined(stages, head, blocks)
            else:
                _online(stages, head, blocks)


def _shares(tiles: int, heads: int, blocks: int) -> tuple[int, int]:
    """In how many parts heads and blocks of queries are dealt: few steps for the busiest tile."""
    ways = [(by, tiles // by) for by in range(1, tiles + 1) if tiles % by == 0]
    return min(ways, key=lambda way: (ceil_div(heads, way[0]) * ceil_div(blocks, way[1]), -way[0]))


def _share(k: Kernel, part: Value, parts: int, count: int) -> tuple[Value, Value]:
    """The contiguous range of ``count`` things that belongs to a part."""
    each = ceil_div(count, parts)
    first = k.let(multiply(part, each))
    return first, k.let(minimum(add(first, each), count))


@dataclass(frozen=True)
class _Tables:
    """What a tile loads once: the identity that transposes results, and ones that sum up weights."""

    identity: Value
    ones: Value


def _tables(k: Kernel, p: Problem) -> _Tables:
    fmt = engine_format(p.fmt)
    longest = max(p.keys, p.queries)
    ones = k.buffer("ones", aligned_bytes(1, longest, fmt))
    k.emit(f"td.memset.{fmt.token}", dst=ones, value=1.0, n=aligned_channels(longest, BLOCK))
    return _Tables(identity(k, p.e, engine_format(p.fmt)), ones)


class _Turned:
    """A slice with two copies, of which neighbouring blocks use one each."""

    def __init__(self, k: Kernel, name: str, like: Aligned) -> None:
        room = aligned_bytes(like.grid.room * like.grid.width, like.channels, like.fmt)
        self.span = round_up(room, LINE_BYTES)
        self.like, self.base = like, k.buffer(name, 2 * self.span)

    def at(self, block: Value) -> Aligned:
        return self.like.at(add(self.base, multiply(block % 2, self.span)), self.like.fmt)


class _Stages:
    """The stages of a block of queries; blocks have the size of ``stretch``."""

    def __init__(self, k: Kernel, p: Problem, tables: _Tables, stretch: Stretch) -> None:
        self.k, self.p, self.tables, self.stretch = k, p, tables, stretch
        self.engine = engine_format(p.fmt)
        self.spreads: Value = tables.ones
        """What transposes a mask, or spreads its one row."""
        if p.mask is not None and p.mask.shape[-2] > 1:
            self.spreads = identity(k, stretch.size, self.engine)

    @property
    def queries(self) -> int:
        return self.stretch.size

    def slice(self, positions: int, channels: int) -> Aligned:
        """The shape of an FP32 slice."""
        return Aligned(0, Format.FP32, Grid(positions, 1, positions), channels)

    def matrix(
        self, index: int, head: Value, begin: Value, rows: int, stage: Value | None = None
    ) -> list[Aligned]:
        """Rows of a head of operand ``index``, as the matrix engine takes them.

        ``stage``: FP32 words for 64 channels of the rows, where those are that must be rounded first.
        """
        name, tensor = "kv"[index - 1], self.p.work.input(index)
        channels = self.p.operands[index].shape[-1]
        if stage is None or tensor.fmt is self.p.fmt or channels % BLOCK or self.queries < BLOCK:
            return split(self.k, self._rows(name, index, head, begin, rows))
        return [self._rounded_planes(name, index, head, rows, stage)]

    def _rows(self, name: str, index: int, head: Value, begin: Value, rows: int) -> Aligned:
        tensor, lies = self.p.work.input(index), self.p.operands[index]
        first, step = _first_of_row(lies, head, begin), lies.strides[-2]
        data = load_aligned(self.k, name, tensor, first, step, Grid(rows, 1, rows), lies.shape[-1])
        return data if tensor.fmt is self.p.fmt else narrowed_slice(self.k, data, self.p.fmt)

    def _rounded_planes(self, name: str, index: int, head: Value, rows: int, stage: Value) -> Aligned:
        """All rows of a head, FP32 in DDR, a plane at a time."""
        k, tensor, lies = self.k, self.p.work.input(index), self.p.operands[index]
        target = slice_buffer(k, name, self.p.fmt, Grid(rows, 1, rows), lies.shape[-1])
        for plane in range(lies.shape[-1] // BLOCK):
            source = tensor.at(add(_first_of_row(lies, head, 0), plane * BLOCK))
            k.emit("rdma.fp32", dst=stage, src=source, n=BLOCK, stride0=lies.strides[-2], iter0=rows)
            convert(k, target.plane(plane), stage, rows * BLOCK, Format.FP32, self.p.fmt)
        return target

    def query(self, head: Value, block: Value) -> list[Aligned]:
        """A block of queries times the scale."""
        begin = add(multiply(block, self.stretch.size), self.stretch.start)
        rows = self._rows("q", 0, head, begin, self.queries)
        scale = self.p.work.spec.number("scale")
        if scale != 1.0:
            Vector(self.k, rows.fmt, rows.elements).vs("mul", rows.base, rows.base, scale)
        return split(self.k, rows)

    def scores(self, keys: list[Aligned], query: list[Aligned], mask: list[Aligned], target: Aligned) -> None:
        """target [keys, queries] = K Q' + mask'."""
        if mask:
            inner = mask[0].grid.height
            for step, part in enumerate(mask):
                psum: dict[str, Value] = {"psum": target.base} if step else {}
                self.k.emit(
                    f"ne.gemm.{self.engine.token}", a=part.base, b=self.spreads, out=target.base, lt=1, rt=1,
                    m=target.grid.height, k=inner, n=self.queries, out_format="fp32", **psum,
                )  # fmt: skip
        sizes = {"m": target.grid.height, "k": self.p.d, "n": self.queries, "out_format": "fp32"}
        self._multiply(keys, query, target, bool(mask), sizes)

    def _multiply(
        self,
        a: list[Aligned],
        b: list[Aligned],
        out: Aligned,
        accumulate: bool,
        sizes: Mapping[str, Argument],
    ) -> None:
        left, right = ("a", [part.base for part in a]), ("b", [part.base for part in b])
        multiply_parts(
            self.k, f"ne.gemm.{self.engine.token}", left, right, out.base, accumulate, dict(sizes)
        )  # fmt: skip

    def mask(self, head: Value, block: Value, begin: Value, keys: int) -> list[Aligned]:
        """The mask of a block of queries, [queries or 1, keys]; nothing without a mask."""
        tensor, k = self.p.mask, self.k
        if tensor is None:
            return []
        rows = self.queries if tensor.shape[-2] > 1 else 1
        row = add(multiply(block, self.stretch.size), self.stretch.start) if rows > 1 else 0
        first = add(self._mask_origin(tensor, head), add(multiply(row, self.p.n), begin))
        data = load_aligned(k, "mask", tensor, first, self.p.n, Grid(rows, 1, rows), keys)
        data = data if data.fmt is self.p.fmt else narrowed_slice(k, data, self.p.fmt)
        least = _LEAST_MASK.get(data.fmt, _LEAST_OF_WIDER)
        Vector(k, data.fmt, data.elements).vs("max", data.base, data.base, least)
        return split(k, data)

    def _mask_origin(self, tensor: DdrTensor, head: Value) -> Value:
        """First element of a head's mask."""
        leading = self.p.operands[0].shape[:-2]
        matrix = tensor.shape[-2] * tensor.shape[-1]
        view: View = broadcast_view(tensor.viewed(*tensor.shape[:-2]), leading)
        return _offset_of_head(leading, [step * matrix for step in view.strides], head)

    def largest(self, scores: Aligned, target: Value) -> None:
        """The largest score of each query."""
        self.k.emit("ct.reduce.max.fp32", dst=target, src0=scores.base, shape=scores.shape, dims="h")

    def exponentials(self, scores: Aligned, largest: Value) -> list[Aligned]:
        """exp(scores - largest), the scores' own bytes overwritten, as the matrix engine takes them."""
        k = self.k
        per_channel(k, "sub", scores, largest)
        weights = narrowed_slice(k, scores, self.p.fmt)
        Vector(k, weights.fmt, weights.elements).unary("exp_lp", weights.base, weights.base)
        return split(k, weights)

    def weigh(
        self, values: list[Aligned], weights: list[Aligned], total: Value, result: Aligned, accumulate: bool
    ) -> None:
        """result [E, queries] = V' weights, total = their sums; ``accumulate``: added to what is there."""
        rows, n = values[0].grid.height, self.queries
        sizes: dict[str, Argument] = {"k": rows, "n": n, "lt": 1, "rt": 1, "out_format": "fp32"}
        for step, part in enumerate(weights):
            psum: dict[str, Value] = {"psum": total} if accumulate or step else {}
            self.k.emit(
                f"ne.gemm.{self.engine.token}", a=self.tables.ones, b=part.base, out=total, m=1, k=rows, n=n,
                rt=1, out_format="fp32", **psum,
            )  # fmt: skip
        self._multiply(values, weights, result, accumulate, {"m": self.p.e, **sizes})

    def finish(self, head: Value, block: Value, total: Value, result: Aligned) -> None:
        """Divide by the sums, transpose, store."""
        k, p = self.k, self.p
        Vector(k, Format.FP32, aligned_channels(self.queries, BLOCK)).unary("recip", total, total)
        per_channel(k, "mul", result, total)
        parts = split(k, narrowed_slice(k, result, p.fmt))
        fmt = p.work.output.fmt
        rows = slice_buffer(k, "y", fmt, Grid(self.queries, 1, self.queries), p.e)
        for step, part in enumerate(parts):
            psum: dict[str, Value] = {"psum": rows.base} if step else {}
            k.emit(
                f"ne.gemm.{self.engine.token}", a=part.base, b=self.tables.identity, out=rows.base,
                lt=1, rt=1, m=self.queries, k=p.e, n=p.e, out_format=fmt.token, **psum,
            )  # fmt: skip
        row = add(multiply(block, self.stretch.size), self.stretch.start)
        store_aligned(k, rows, p.work.output, _first_of_row(p.result, head, row), p.result.strides[-2])


def _first_of_row(lies: Strided, head: Value, row: Value) -> Value:
    """The first element of a row of a head."""
    start = add(_offset_of_head(lies.shape[:-2], lies.strides[:-2], head), lies.offset)
    return add(start, multiply(row, lies.strides[-2]))


def _offset_of_head(leading: Sequence[int], strides: Sequence[int], head: Value) -> Value:
    """Where a head is that is counted over the leading axes; axes that lie as they are counted are one."""
    axes: list[tuple[int, int]] = []
    for size, step in zip(leading, strides, strict=True):
        if size == 1:
            continue
        if axes and axes[-1][1] == size * step:
            axes[-1] = (axes[-1][0] * size, step)
        else:
            axes.append((size, step))
    offset: Value = 0
    for index, (_, step) in zip(unravel(head, [size for size, _ in axes]), axes, strict=True):
        offset = add(offset, multiply(index, step))
    return offset


def _pipelined(stages: _Stages, head: Value, blocks: tuple[Value, Value]) -> None:
    """All keys at once. Scores of the next block and the end of the last surround a block's softmax.

    Each engine works in order, so it must find its next work issued before what waits for another engine.
    """
    k, p, (first, end) = stages.k, stages.p, blocks
    scores = _Turned(k, "scores", stages.slice(p.n, stages.queries))
    keys = stages.matrix(1, head, 0, p.n, scores.at(0).base)
    values = stages.matrix(2, head, 0, p.n, scores.at(1).base)
    results = _Turned(k, "result", stages.slice(p.e, stages.queries))
    totals = _Turned(k, "total", stages.slice(1, stages.queries))

    def prepare(block: Value) -> None:
        mask = stages.mask(head, block, 0, p.n)
        stages.scores(keys, stages.query(head, block), mask, scores.at(block))

    def finish(block: Value) -> None:
        stages.finish(head, block, totals.at(block).base, results.at(block))

    with k.when(first, end):
        prepare(first)
    with k.loop(end, first) as block:
        following = k.let(add(block, 1))
        with k.when(following, end):
            prepare(following)
        largest = k.buffer("largest", aligned_bytes(1, stages.queries, Format.FP32))
        stages.largest(scores.at(block), largest)
        weights = stages.exponentials(scores.at(block), largest)
        with k.when(first, block):
            finish(k.let(maximum(subtract(block, 1), 0)))
        stages.weigh(values, weights, totals.at(block).base, results.at(block), False)
    with k.when(first, end):
        finish(k.let(maximum(subtract(end, 1), 0)))


def _online(stages: _Stages, head: Value, blocks: tuple[Value, Value]) -> None:
    """Keys in blocks, with a running maximum."""
    k, p, (first, end) = stages.k, stages.p, blocks
    size = aligned_bytes(1, stages.queries, Format.FP32)
    vector = Vector(k, Format.FP32, aligned_channels(stages.queries, BLOCK))
    with k.loop(end, first) as block:
        query = stages.query(head, block)
        result = slice_buffer(k, "result", Format.FP32, stages.slice(p.e, 1).grid, stages.queries)
        total, largest, factor = (k.buffer(name, size) for name in ("total", "largest", "factor"))
        for start, value in ((largest, _LOWEST), (total, 0.0)):
            k.emit("td.memset.fp32", dst=start, value=value, n=vector.n)
        k.emit("td.memset.fp32", dst=result.base, value=0.0, n=result.elements)
        for stretch in stretches(p.n, p.keys):
            with k.loop(stretch.count) as step:
                begin = k.let(add(multiply(step, stretch.size), stretch.start))
                keys = stages.matrix(1, head, begin, stretch.size)
                values = stages.matrix(2, head, begin, stretch.size)
                scores = slice_buffer(
                    k, "scores", Format.FP32, stages.slice(stretch.size, 1).grid, stages.queries
                )
                stages.scores(keys, query, stages.mask(head, block, begin, stretch.size), scores)
                newest = k.buffer("newest", size)
                stages.largest(scores, newest)
                vector.vv("max", newest, newest, largest)
                vector.vv("sub", factor, largest, newest)
                vector.unary("exp_lp", factor, factor)
                vector.vs("add", largest, newest, 0.0)
                weights = stages.exponentials(scores, newest)
                vector.vv("mul", total, total, factor)
                per_channel(k, "mul", result, factor)
                stages.weigh(values, weights, total, result, True)
        stages.finish(head, block, total, result)
