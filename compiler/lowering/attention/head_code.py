"""Writes attention for one head: blocks of queries, each with two sweeps over the keys."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import NamedTuple

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
from .plan import hidden_score
from .query_share import QueryShare
from .scores import DoubleBuffer, QueryBlock, Scores
from .slots import BlockSlots


class KeyRange(NamedTuple):
    """Blocks of keys of a stretch, from ``begin`` to below ``end``; from ``masked_from`` on with a mask."""

    stretch: Stretch
    begin: Value
    end: Value
    masked_from: Value | None


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

    def run(self, share: QueryShare, end: Value) -> None:
        """Loop over the blocks of queries of a tile; ``end`` bounds the heads of the tile.

        While a block is computed, the next is loaded and the result of the one before is finished.
        """
        kernel = self.kernel
        turns = kernel.let(share.turns(self.head))
        with kernel.if_below(0, turns):
            self._load(share, 0)()
        with kernel.loop(turns) as turn:
            self._block(turn, turns, share, end)
        with kernel.if_below(0, turns):
            self._finish(kernel.let(maximum(turns - 1, 0)), share)

    def _block(self, turn: Value, turns: Value, share: QueryShare, end: Value) -> None:
        kernel, ahead = self.kernel, self.key_values.loads_ahead and not share.follows
        following = kernel.let(turn + 1)
        puts: list[Callable[[], None]] = []

        def meanwhile() -> None:
            with kernel.if_below(following, turns):
                puts.append(self._load(share, following))
            if ahead:
                self.key_values.load_next(self.head, end, turn, share.whole_turns)

        def finish() -> None:
            with kernel.if_below(0, turn):
                self._finish(kernel.let(maximum(turn - 1, 0)), share)

        if ahead:
            self.key_values.arrange_next(self.head, end, turn, share.whole_turns)
        row = kernel.let(self._row(turn, share))
        queries = QueryBlock(self.head, row, self.slots.block(turn, self.queries))
        largest = self._largest_scores(queries, meanwhile)
        with kernel.if_below(following, turns):
            puts[0]()
        if not share.follows:
            with kernel.if_below(turn, 1):
                self.key_values.begin_values(self.head)
        if ahead:
            with kernel.if_below(turns - 1, following):
                self.key_values.send_next(self.head, end)
        shifted = self._shifted(queries, largest)
        self._begin_total(largest, turn)
        self._weighted_values(shifted, turn, finish)

    def _row(self, turn: Value, share: QueryShare) -> Value:
        """The first query of a block."""
        return share.block(turn, self.head) * self.queries + self.stretch.start

    def _load(self, share: QueryShare, turn: Value) -> Callable[[], None]:
        """Load the block of queries of a turn; returns what puts it into its slot."""
        row = self.kernel.let(self._row(turn, share))
        if self.key_values.loads_ahead:  # the load may wait for the load of another head
            raw, planes = (
                self.kernel.buffer(name, self.slots.raw_bytes(self.queries)) for name in ("q_rows", "q")
            )
            self.slots.fetch(raw, self.head, row, self.queries)
            return lambda: self.slots.arrange(turn, raw, planes, self.queries, self.plan.scale)
        loaded = self.slots.load(turn, self.head, row, self.queries)
        return lambda: self.slots.put(turn, loaded, self.plan.scale)

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
        if (
            self.plan.causal is not None and self.plan.n % rows
        ):  # the queries may see no key of the last block
            kernel.emit(f"td.memset.{fmt.token}", dst=last, value=_LOWEST[fmt], n=self.lanes)
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
        vector.vs("add", hidden, lowest, hidden_score(fmt) / 2)
        vector.unary("relu", hidden, hidden)
        if narrow:
            convert(kernel, total, hidden, self.lanes, fmt, Format.FP32)
        Vector(kernel, Format.FP32, self.lanes).vs("mul", total, total, _LARGEST)

    def _weighted_values(self, block: QueryBlock, turn: Value, meanwhile: Callable[[], None]) -> None:
        """The second sweep: the sums of weighted values and of weights."""
        kernel = self.kernel
        result, total = self._sums(turn)
        kernel.emit("td.memset.fp32", dst=result.base, value=0.0, n=result.elements)

        def use(stretch: Stretch, step: Value) -> None:
            self._weigh(stretch, step, total, result)

        self._sweep(block, True, use, meanwhile)

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
        for stretch, begin, end, masked_from in ranges:
            shifted = replace(block, shift=shifts.get(stretch.size))
            prepare = partial(self.scores.compute, shifted, stretch, self.weights, second, masked_from)
            self.key_values.sweep(
                KeySweep(block.head, stretch, begin, end, second, prepare, partial(use, stretch), meanwhile)
            )
            meanwhile = nothing

    def _key_ranges(self, row: Value) -> list[KeyRange]:
        """The blocks of keys that the queries from ``row`` on see."""
        plan = self.plan
        found = stretches(plan.n, plan.block_keys)
        if plan.causal is None:
            masked_from = 0 if plan.mask is not None else None
            return [KeyRange(stretch, 0, stretch.count, masked_from) for stretch in found]
        first = row + (plan.causal + 1)  # the first query sees the keys before this one
        return [
            KeyRange(
                stretch,
                0,
                self._blocks_before(stretch, first + (self.queries + stretch.size - 2)),
                self._blocks_before(stretch, first),
            )
            for stretch in found
        ]

    def _blocks_before(self, stretch: Stretch, end: Value) -> Value:
        """The number of a stretch's blocks that lie before key ``end``."""
        return self.kernel.let(minimum(maximum(end - stretch.start, 0) // stretch.size, stretch.count))

    # --- the result --------------------------------------------------------------------------------------

    def _finish(self, turn: Value, share: QueryShare) -> None:
        """Divide the result of a turn by the sums of its weights, transpose, store."""
        self._store(self._row(turn, share), *self._sums(turn))

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
    """Do nothing meanwhile."""


_LOWEST = {Format.FP16: -65504.0, Format.BF16: -3.0e38, Format.TF32: -3.0e38, Format.FP32: -3.0e38}
"""Initial value of a maximum: finite, so that its difference from itself is 0."""
_LARGEST = 3.0e38
"""Factor that makes the rest of a hidden score infinite."""
