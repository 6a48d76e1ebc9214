"""Attention of few queries over many keys: tiles share the keys of each head.

Every tile sweeps over its own blocks of keys. Before the second sweep the tiles of a head exchange their
largest scores, so that all subtract the same number. After it the first tile adds up the sums of weights
and of weighted values. So enough tiles read a cache of keys to use the full rate of DDR.
"""

from __future__ import annotations

from dataclasses import dataclass

from compiler.codegen.expr import Value
from compiler.codegen.kernel import Kernel
from compiler.codegen.slices.aligned import Aligned, Grid, aligned_bytes
from compiler.codegen.slices.tensors import BLOCK, Stretch, stretches
from compiler.codegen.slices.vector import convert, widened
from compiler.codegen.teams.collective import Exchange
from compiler.codegen.teams.team import Team, tile_grid
from tx8isa.numbers.formats import Format
from tx8isa.numbers.layouts import LINE_BYTES, aligned_channels

from .head_code import HeadCode, KeyRange, nothing
from .key_values import KEYS, VALUES, KeyValues
from .plan import AttentionPlan
from .query_share import QueryShare
from .scores import QueryBlock, Scores, Tables
from .slots import BlockSlots


@dataclass(frozen=True)
class _Exchanges:
    """Exchanges results among the tiles of a head: largest scores go to all of them, sums to the first."""

    largest: Exchange
    sums: Exchange


def attention_of_parts(kernel: Kernel, plan: AttentionPlan, tables: Tables) -> None:
    """A team of ``plan.parts`` tiles for each head."""
    lanes = aligned_channels(plan.m, BLOCK)
    exchanges = _Exchanges(
        Exchange(kernel, plan.exchange, plan.parts, lanes, lanes),
        Exchange(kernel, plan.exchange, plan.parts, plan.partial_elements, lanes, 1),
    )
    with tile_grid(kernel, (plan.heads, plan.parts)) as grid:
        head, part = grid.position
        key_values = KeyValues(kernel, plan, None, part)
        (queries,) = stretches(plan.m, plan.block_queries)
        scores, slots = (
            Scores(kernel, plan, tables, key_values, plan.m),
            BlockSlots(kernel, plan, 0, plan.m, 1),
        )
        _PartCode(scores, slots, queries, kernel.let(head), grid.team(kernel, 1), exchanges).run_part()


class _PartCode(HeadCode):
    """Writes attention for the queries of one head and a part of its keys."""

    def __init__(
        self,
        scores: Scores,
        slots: BlockSlots,
        queries: Stretch,
        head: Value,
        team: Team,
        exchanges: _Exchanges,
    ) -> None:
        super().__init__(scores, slots, queries, head)
        self.team, self.exchanges = team, exchanges
        size = LINE_BYTES + aligned_bytes(self.plan.e, self.queries, Format.FP32)
        self.partial = self.kernel.buffer("partial", size)
        """A line with the sums of weights, and the weighted values."""

    def _results(self) -> tuple[()]:
        return ()

    def _sums(self, turn: Value) -> tuple[Aligned, Value]:
        return self._parts_of(self.partial)

    def _parts_of(self, base: Value) -> tuple[Aligned, Value]:
        grid = Grid(self.plan.e, 1, self.plan.e)
        return Aligned(base + LINE_BYTES, Format.FP32, grid, self.queries), base

    def _key_ranges(self, row: Value) -> list[KeyRange]:
        first, plan = self.key_values.first, self.plan
        (stretch,) = stretches(plan.n, plan.block_keys)
        masked_from = 0 if plan.mask is not None else None
        return [KeyRange(stretch, first, self.kernel.let(first + plan.own_blocks), masked_from)]

    def run_part(self) -> None:
        """Load the keys, sweep, exchange scores, sweep again, add the sums; the first tile stores the
        result."""
        kernel, exchanges = self.kernel, self.exchanges
        self.key_values.load_all(KEYS, self.head)
        self._load(QueryShare(1, 1, 0), 0)()
        self.key_values.load_all(VALUES, self.head)
        kernel.emit("td.memset.fp32", dst=self.partial, value=0.0, n=self.plan.partial_elements)
        block = QueryBlock(self.head, 0, self.slots.block(0, self.queries))
        largest = self._largest_of_all(self._largest_scores(block, nothing))
        shifted = self._shifted(block, largest)
        self._begin_total(largest, 0)
        self._weighted_values(shifted, 0, nothing)
        exchanges.sums.exchange(self.team, self.partial)
        with kernel.if_zero(self.team.member):
            self._store(0, *self._parts_of(exchanges.sums.folded(self.team, "sum")))

    def _largest_of_all(self, largest: Value) -> Value:
        """The largest scores of all keys, in the format of the arithmetic."""
        kernel, fmt, lanes = self.kernel, self.plan.fmt, self.lanes
        self.exchanges.largest.exchange(self.team, widened(kernel, largest, lanes, lanes, fmt))
        found = self.exchanges.largest.folded(self.team, "max")
        if fmt.bits > 16:
            return found
        convert(kernel, largest, found, lanes, Format.FP32, fmt)
        return largest
