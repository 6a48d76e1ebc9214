"""Writes attention for one head: blocks of queries, each with two sweeps over the keys."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from compiler.codegen.expr import Value, maximum, minimum
from compiler.codegen.slices.aligned import (
    Aligned,
    Grid,
    aligned_bytes,
    narrowed_slice,
    per_channel,
    slice_buffer,
)
from compiler.codegen.slices.precision import split
from compiler.codegen.slices.tensors import BLOCK, Stretch, stretches
from compiler.codegen.slices.vector import Vector, convert
from compiler.evaluation.sizes import always
from tx8isa.numbers.formats import Format
from tx8isa.numbers.layouts import aligned_channels

from .key_values import VALUES, KeySweep
from .operands import store_result
from .plan import HIDDEN
from .scores import DoubleBuffer, QueryBlock, Scores
from .slots import BlockSlots


class HeadCode:
    """The code for the blocks of queries of one head, all of the size of ``stretch``."""

    def __init__(self, scores: Scores, queries: BlockSlots, stretch: Stretch, head: Value) -> None:
        self.scores, self.slots, self.stretch, self.head = scores, queries, stretch, head
        self.kernel, self.plan, self.key_values = scores.kernel, scores.plan, scores.key_values
        self.queries = stretch.size
        self.lanes = aligned_channels(self.queries, BLOCK)
        self.results = self._results()
        self.weights = self._double_buffer("scores", self.plan.fmt, self.plan.block_keys)
        """Scores, which become weights in place."""

    def _results(self) -> tuple[DoubleBuffer, ...]:
        """Buffers for the sums of weighted values, and of weights."""
        result = self._double_buffer("result", Format.FP32, self.plan.e)
        return result, self._double_buffer("total", Format.FP32, 1)

    def _sums(self, turn: Value) -> tuple[Aligned, Value]:
        """The sums of weighted values of a block, and the address of its sums of weights."""
        result, total = self.results
        return result.slice(turn, self.plan.e), total.slice(turn, 1).base

    def _double_buffer(self, name: str, fmt: Format, rows: int) -> DoubleBuffer:
        return DoubleBuffer(self.kernel, name, Aligned(0, fmt, Grid(rows, 1, rows), self.queries))

    # --- blocks of queries -------------------------------------------------------------------------------

    def run(self, first: Value, step: int, end: Value) -> None:
        """Loop over every ``step``-th block from ``first`` on; ``end`` bounds the heads of the tile.

        While a block is computed, the next is loaded and the result of the one before is finished.
        """
        kernel, count = self.kernel, self.stretch.count
        self.key_values.begin_head(self.head)
        with kernel.if_below(first, count):
            self._load(first, step)()
        with kernel.loop(count, first, step) as block:
            self._block(block, first, step, end)
        self.key_values.end_head()
        with kernel.if_below(first, count):
            turns = (count - 1 - minimum(first, count - 1)) // step
            self._finish(kernel.let(first + turns * step), step)

    def _block(self, block: Value, first: Value, step: int, end: Value) -> None:
        kernel = self.kernel
        following = kernel.let(block + step)
        puts: list[Callable[[], None]] = []

        def meanwhile() -> None:
            with kernel.if_below(following, self.stretch.count):
                puts.append(self._load(following, step))
            if self.key_values.loads_ahead:
                self.key_values.load_next(self.head, end, turn, turns)
            with kernel.if_below(first, block):
                self._finish(kernel.let(maximum(block - step, 0)), step)

        if self.key_values.loads_ahead:
            turn, turns = kernel.let(block // step), self.stretch.count // step
            self.key_values.arrange_next(self.head, end, turn, turns)
        row = kernel.let(self._row(block))
        queries = QueryBlock(self.head, row, self.slots.block(block // step, self.queries))
        largest = self._largest_scores(queries, meanwhile)
        with kernel.if_below(following, self.stretch.count):
            puts[0]()
        with kernel.if_below(block, first + 1):
            self.key_values.begin_values(self.head)
        if self.key_values.loads_ahead:
            with kernel.if_below(self.stretch.count - 1, following):
                self.key_values.send_next(self.head, end)
        shifted = self._shifted(queries, largest)
        self._begin_total(largest, block // step)
        self._weighted_values(shifted, block // step)

    def _row(self, block: Value) -> Value:
        """The first query of a block."""
        return block * self.queries + self.stretch.start

    def _load(self, block: Value, step: int) -> Callable[[], None]:
        """Load a block of queries; returns what puts it into its slot."""
        row, number = self.kernel.let(self._row(block)), block // step
        if self.key_values.loads_ahead:  # the load may wait for the load of another head
            raw, planes = (self.kernel.buffer(name, self.slots.raw_bytes) for name in ("q_rows", "q"))
            self.slots.fetch(raw, self.head, row, self.queries)
            return lambda: self.slots.arrange(number, raw, planes, self.queries, self.plan.scale)
        loaded = self.slots.load(number, self.head, row, self.queries)
        return lambda: self.slots.put(number, loaded, self.plan.scale)

    # --- two sweeps over the keys ------------------------------------------------------------------------

    def _largest_scores(self, block: QueryBlock, meanwhile: Callable[[], None]) -> Value:
        """The first sweep: the address of the largest score of each query.

        Blocks of keys are combined position by position, and reduced once, which is one instruction a block.
        A shorter block is reduced by itself: an instruction that ended within a line would change its rest.
        """
        kernel, fmt, rows = self.kernel, self.plan.fmt, self.plan.block_keys
        several = not always(self.plan.own_blocks == 1)
        largest, last = (
            kernel.buffer(name, aligned_bytes(1, self.queries, fmt)) for name in ("largest", "last")
        )
        found = slice_buffer(kernel, "highest", fmt, Grid(rows, 1, rows), self.queries)
        if several:
            kernel.emit(f"td.memset.{fmt.token}", dst=found.base, value=_LOWEST[fmt], n=found.elements)
        shorter: list[Stretch] = []

        def reduce(into: Value, data: Aligned) -> None:
            kernel.emit(f"ct.reduce.max.{fmt.token}", dst=into, src0=data.base, shape=data.shape, dims="h")

        def use(stretch: Stretch, step: Value) -> None:
            data = self.weights.slice(step, stretch.size)
            if not several:
                reduce(largest, data)
            elif always(stretch.size == rows):
                Vector(kernel, fmt, data.elements).vv("max", found.base, found.base, data.base)
            else:
                reduce(last, data)
                shorter.append(stretch)

        self._sweep(block, False, use, meanwhile)
        if several:
            reduce(largest, found)
        if shorter:
            Vector(kernel, fmt, self.lanes).vv("max", largest, largest, last)
        return largest

    def _shifted(self, block: QueryBlock, largest: Value) -> QueryBlock:
        """The queries with the shift that the second sweep adds: minus their largest scores."""
        kernel, fmt, engine = self.kernel, self.plan.fmt, self.scores.engine
        Vector(kernel, fmt, self.lanes).vs("mul", largest, largest, -1.0)
        row = Aligned(largest, fmt, Grid(1, 1, 1), self.queries)
        if fmt is not engine:
            row = narrowed_slice(kernel, row, engine)
        return replace(block, lowest=row.base)

    def _begin_total(self, lowest: Value, turn: Value) -> None:
        """Start the sums of weights: at 0, or at infinity for queries whose keys are all hidden.

        ``lowest``: minus the largest score of each query.
        """
        kernel, fmt, (_, total) = self.kernel, self.plan.fmt, self._sums(turn)
        if not self.plan.work.spec.integer("zero_rows"):
            kernel.emit("td.memset.fp32", dst=total, value=0.0, n=self.lanes)
            return
        narrow = fmt.bits == 16
        hidden = kernel.buffer("unseen", aligned_bytes(1, self.queries, fmt)) if narrow else total
        vector = Vector(kernel, fmt, self.lanes)
        vector.vs("add", hidden, lowest, HIDDEN.get(fmt, HIDDEN[Format.FP32]) / 2)
        vector.unary("relu", hidden, hidden)
        if narrow:
            convert(kernel, total, hidden, self.lanes, fmt, Format.FP32)
        Vector(kernel, Format.FP32, self.lanes).vs("mul", total, total, _LARGEST)

    def _weighted_values(self, block: QueryBlock, turn: Value) -> None:
        """The second sweep: the sums of weighted values and of weights."""
        kernel = self.kernel
        result, total = self._sums(turn)
        kernel.emit("td.memset.fp32", dst=result.base, value=0.0, n=result.elements)

        def use(stretch: Stretch, step: Value) -> None:
            self._weigh(stretch, step, total, result)

        self._sweep(block, True, use, nothing)

    def _weigh(self, stretch: Stretch, step: Value, total: Value, result: Aligned) -> None:
        """result [E, queries] += V' weights, total += their sums; the weights are exp(scores)."""
        kernel, scores, size = self.kernel, self.scores, stretch.size
        data = self.weights.slice(step, size)
        Vector(kernel, data.fmt, data.elements).unary("exp_lp", data.base, data.base)
        weights = [part.base for part in split(kernel, data)]
        values = self.key_values.rows(VALUES, stretch, step)
        ones = Aligned(scores.tables.ones, scores.engine, Grid(size, 1, size), 1)
        for weight in weights:
            scores.multiply([ones], [weight], total, (total, Format.FP32), Format.FP32, 1, size, rt=1)
        sums = result.base, Format.FP32
        scores.multiply(values, weights, result.base, sums, Format.FP32, self.plan.e, size, lt=1, rt=1)

    def _sweep(
        self,
        block: QueryBlock,
        second: bool,
        use: Callable[[Stretch, Value], None],
        meanwhile: Callable[[], None],
    ) -> None:
        """Compute the scores of all blocks of keys; ``use`` gets each block once the next is computed."""
        ranges = self._key_ranges(block.row)
        sizes = dict.fromkeys(stretch.size for stretch, *_ in ranges) if second else {}
        shifts = {size: self.scores.shift(block, size) for size in sizes}
        for stretch, begin, end, masked in ranges:
            shifted = replace(block, shift=shifts.get(stretch.size))
            prepare = partial(self.scores.compute, shifted, stretch, self.weights, second, masked)
            self.key_values.sweep(
                KeySweep(block.head, stretch, begin, end, second, prepare, partial(use, stretch), meanwhile)
            )
            meanwhile = nothing

    def _key_ranges(self, row: Value) -> list[tuple[Stretch, Value, Value, bool]]:
        """The blocks of keys that the queries from ``row`` on see: a stretch, first and end block, and True
        if masked."""
        kernel, plan = self.kernel, self.plan
        if plan.causal is None:
            masked = plan.mask is not None
            return [(stretch, 0, stretch.count, masked) for stretch in stretches(plan.n, plan.block_keys)]
        (stretch,) = stretches(plan.n, plan.block_keys)
        first = row + plan.causal
        seen_by_all = minimum((first + 1) // plan.block_keys, plan.blocks)
        last_seen = minimum((first + (self.queries - 1)) // plan.block_keys, plan.blocks - 1)
        whole, end = kernel.let(seen_by_all), kernel.let(last_seen + 1)
        return [(stretch, 0, whole, False), (stretch, whole, end, True)]

    # --- the result --------------------------------------------------------------------------------------

    def _finish(self, block: Value, step: int) -> None:
        """Divide by the sums of the weights, transpose, store."""
        turn = block // step
        self._store(self._row(block), *self._sums(turn))

    def _store(self, row: Value, result: Aligned, total: Value) -> None:
        """Divide, transpose and store the result of the queries from ``row`` on."""
        kernel, plan, engine = self.kernel, self.plan, self.scores.engine
        Vector(kernel, Format.FP32, self.lanes).unary("recip", total, total)
        per_channel(kernel, "mul", result, total)
        fmt = plan.work.output.fmt
        rows = slice_buffer(kernel, "y", fmt, Grid(self.queries, 1, self.queries), plan.e)
        for number, part in enumerate(split(kernel, narrowed_slice(kernel, result, plan.fmt))):
            psum: dict[str, Value] = {"psum": rows.base} if number else {}
            kernel.emit(
                f"ne.gemm.{engine.token}",
                a=part.base,
                b=self.scores.tables.identity,
                out=rows.base,
                lt=1,
                rt=1,
                m=self.queries,
                k=plan.e,
                n=plan.e,
                out_format=fmt.token,
                **psum,
            )
        store_result(kernel, plan, self.head, kernel.let(row), rows)


def nothing() -> None:
    """Do nothing meanwhile; the second sweep begins."""


_LOWEST = {Format.FP16: -65504.0, Format.BF16: -3.0e38, Format.TF32: -3.0e38, Format.FP32: -3.0e38}
"""Initial value of a maximum: finite, so that its difference from itself is 0."""
_LARGEST = 3.0e38
"""Factor that makes the rest of a hidden score infinite."""
