"""Attention: scores never leave the scratchpad.

A tile takes heads, or blocks of queries of one, and sweeps twice over blocks of keys. Scores are computed
transposed, [keys, queries], so that what belongs to a query is one value per channel. The first sweep finds
the largest score of each query. Rounded to the format of the matrix engine it is subtracted where the sums of
the second sweep begin, so that weights are exp of what the engine gives, in its own format. (A softmax may
subtract any number, as long as all weights of a query have the same.) The result, [E, queries] too, is
divided by the sums of the weights; a product with the identity transposes it in the end, which is exact.

Keys of a head stay in the scratchpad if they fit, else each sweep loads them, two blocks ahead. Under a
causal mask, blocks of keys that no query of the block sees are skipped, and only those on the diagonal get a
mask.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from compiler.codegen.expr import Value, maximum, minimum
from compiler.codegen.kernel import Argument, Kernel
from compiler.codegen.slices.aligned import (
    BLOCK,
    Aligned,
    Grid,
    aligned_bytes,
    narrowed_slice,
    per_channel,
    slice_buffer,
)
from compiler.codegen.slices.lane_turner import identity
from compiler.codegen.slices.precision import PRODUCTS, engine_format, split
from compiler.codegen.slices.tensors import Stretch, stretches
from compiler.codegen.slices.vector import Vector
from compiler.codegen.teams.gather import enter
from compiler.codegen.teams.team import TileGrid
from compiler.lowering.record import Work, lowering
from compiler.operators.linear.attention_fused import matrices
from compiler.operators.record import Call
from tx8isa.numbers.division import ceil_div, round_up
from tx8isa.numbers.formats import Format
from tx8isa.numbers.layouts import LINE_BYTES, aligned_channels

from .keys import Keys, Slots, Walk
from .mask import Diagonal
from .operands import load_mask, store_result
from .plan import Problem, cuts, problem_of, shares


def _check(call: Call) -> str | None:
    """The engine's packed operands."""
    widest = max(matrices(call, 0).shape[-1], matrices(call, 2).shape[-1])
    return f"heads of at most 4096 channels; found {widest}" if widest > 4096 else None


@lowering("FusedAttention", check=_check, cuts=cuts, rounds=True, prefetch=True)
def attention(k: Kernel, work: Work) -> None:
    """Heads are dealt first, then blocks of queries, in turns: under a causal mask late ones take longer."""
    p = problem_of(k, work)
    if not p.shared:
        k.begin()
    tables: _Tables | None = None
    for stretch in stretches(p.m, p.queries):
        by_heads, by_blocks = shares(k.target.tiles, p.heads, stretch.count)
        place = k.let(k.tile // by_blocks), k.let(k.tile % by_blocks)
        team = TileGrid((by_heads, by_blocks), place).team(k, 1) if p.shared else None
        keys = Keys(k, p, team)
        if p.shared:
            enter(k, *(base for slots in keys.slots for base in slots.bases))
        tables = tables or _Tables(identity(k, p.e, engine_format(p.fmt)), _ones(k, p))
        first = k.let(place[0] * ceil_div(p.heads, by_heads))
        end = k.let(minimum(first + ceil_div(p.heads, by_heads), p.heads))
        stages = _Stages(k, p, tables, stretch, keys)
        with k.loop(end, first) as head:
            stages.head(head, place[1], by_blocks)


@dataclass(frozen=True)
class _Tables:
    """What a tile loads once: the identity that transposes results, and ones that sum up weights."""

    identity: Value
    ones: Value


def _ones(k: Kernel, p: Problem) -> Value:
    fmt, longest = engine_format(p.fmt), max(p.keys, p.queries)
    ones = k.buffer("ones", aligned_bytes(1, longest, fmt))
    k.emit(f"td.memset.{fmt.token}", dst=ones, value=1.0, n=aligned_channels(longest, BLOCK))
    return ones


class _Turned:
    """A slice with two copies, of which neighbouring blocks use one each."""

    def __init__(self, k: Kernel, name: str, like: Aligned) -> None:
        room = aligned_bytes(like.grid.room * like.grid.width, like.channels, like.fmt)
        self.span = round_up(room, LINE_BYTES)
        self.like, self.base = like, k.buffer(name, 2 * self.span)

    def at(self, block: Value, rows: int) -> Aligned:
        base = self.base + block % 2 * self.span
        return Aligned(base, self.like.fmt, Grid(rows, 1, rows), self.like.channels)


Sums = tuple[Value, Format]
"""With what the sums of a product begin, and its format."""


@dataclass(frozen=True)
class _Queries:
    """A block of queries in the scratchpad.

    ``lowest``: minus the largest score of each, as the matrix engine takes it; ``shift``: that for every key
    of a block. Neither is there in the first sweep.
    """

    head: Value
    row: Value
    parts: list[Aligned]
    lowest: Value = 0
    shift: Sums | None = None


@dataclass(frozen=True)
class _Own:
    """What neighbouring blocks of queries have two copies of: queries, result, sums; the scores of both."""

    queries: Slots
    result: _Turned
    total: _Turned
    scores: _Turned


class _Stages:
    """The work on blocks of queries of the size of ``stretch``."""

    def __init__(self, k: Kernel, p: Problem, tables: _Tables, stretch: Stretch, keys: Keys) -> None:
        self.k, self.p, self.tables, self.keys = k, p, tables, keys
        self.stretch, self.queries = stretch, stretch.size
        self.engine = engine_format(p.fmt)
        self.spreads: Value = tables.ones
        """What transposes a mask, or spreads its one row."""
        self.diagonal = Diagonal(k, p, self.queries) if p.causal is not None else None
        if self.diagonal is None and p.mask is not None and p.mask.shape[-2] > 1:
            self.spreads = identity(k, self.queries, self.engine)
        self.slots = Slots(k, p, 0, self.queries, 2)

    # --- a block of queries ------------------------------------------------------------------------------

    def head(self, head: Value, first: Value, step: int) -> None:
        """Every ``step``-th block of queries of a head.

        While one is worked on the next is loaded, and the result of the last finished.
        """
        k, p, count = self.k, self.p, self.stretch.count
        own = _Own(
            self.slots,
            _Turned(k, "result", Aligned(0, Format.FP32, Grid(p.e, 1, p.e), self.queries)),
            _Turned(k, "total", Aligned(0, Format.FP32, Grid(1, 1, 1), self.queries)),
            _Turned(k, "scores", Aligned(0, p.fmt, Grid(p.keys, 1, p.keys), self.queries)),
        )
        self.keys.load_all(0, head)
        with k.when(first, count):
            self._put(first, step, self._load(head, first, step))
        with k.loop(count, first, step) as block:
            self._block(own, head, block, first, step)
        with k.when(first, count):
            turns = (count - 1 - minimum(first, count - 1)) // step
            self._finish(own, head, k.let(first + turns * step), step)

    def _block(self, own: _Own, head: Value, block: Value, first: Value, step: int) -> None:
        k = self.k
        following = k.let(block + step)
        loaded: list[Aligned] = []

        def meanwhile() -> None:
            with k.when(following, self.stretch.count):
                loaded.append(self._load(head, following, step))
            with k.when(first, block):
                self._finish(own, head, k.let(maximum(block - step, 0)), step)

        queries = _Queries(head, k.let(self._row(block)), self.slots.block(block // step, self.queries))
        largest = self._largest_scores(queries, own.scores, meanwhile)
        with k.when(following, self.stretch.count):
            self._put(following, step, loaded[0])
        with k.when(block, first + 1):
            self.keys.load_all(1, head)
        self._result(self._shifted(queries, largest), own, block // step)

    def _row(self, block: Value) -> Value:
        return block * self.queries + self.stretch.start

    def _load(self, head: Value, block: Value, step: int) -> Aligned:
        return self.slots.load(block // step, head, self.k.let(self._row(block)), self.queries)

    def _put(self, block: Value, step: int, loaded: Aligned) -> None:
        self.slots.put(block // step, loaded, self.p.work.spec.number("scale"))

    def _largest_scores(self, block: _Queries, scores: _Turned, meanwhile: Callable[[], None]) -> Value:
        """The first sweep."""
        k, p = self.k, self.p
        largest = k.buffer("largest", aligned_bytes(1, self.queries, p.fmt))
        k.emit(f"td.memset.{p.fmt.token}", dst=largest, value=_LOWEST[p.fmt], n=self._lanes)

        def use(stretch: Stretch, step: Value) -> None:
            self._largest(scores, stretch, step, largest)

        self._sweep(block, scores, False, use, meanwhile)
        return largest

    def _result(self, block: _Queries, own: _Own, turn: Value) -> None:
        """The second sweep."""
        k, p = self.k, self.p
        result, total = own.result.at(turn, p.e), own.total.at(turn, 1).base
        k.emit("td.memset.fp32", dst=total, value=0.0, n=self._lanes)
        k.emit("td.memset.fp32", dst=result.base, value=0.0, n=result.elements)

        def use(stretch: Stretch, step: Value) -> None:
            self._weigh(own.scores, stretch, step, total, result)

        self._sweep(block, own.scores, True, use, _nothing)

    @property
    def _lanes(self) -> int:
        return aligned_channels(self.queries, BLOCK)

    def _sweep(
        self,
        block: _Queries,
        scores: _Turned,
        second: bool,
        use: Callable[[Stretch, Value], None],
        meanwhile: Callable[[], None],
    ) -> None:
        """Scores of every block of keys, each computed before those of the one before are used."""
        p, masked = self.p, self.p.mask is not None
        ways: list[tuple[Stretch, Value, Value, bool]]
        if p.causal is None:
            ways = [(stretch, 0, stretch.count, masked) for stretch in stretches(p.n, p.keys)]
        else:
            (stretch,), (whole, some) = stretches(p.n, p.keys), self._seen(block.row)
            ways = [(stretch, 0, whole, False), (stretch, whole, some, True)]
        sizes = dict.fromkeys(stretch.size for stretch, *_ in ways) if second else {}
        shifts = {size: self._shift(block, size) for size in sizes}
        for stretch, begin, end, masked in ways:
            shifted = replace(block, shift=shifts.get(stretch.size))
            prepare = partial(self._scores, shifted, stretch, scores, second, masked)
            self.keys.walk(
                Walk(block.head, stretch, begin, end, second, prepare, partial(use, stretch), meanwhile)
            )
            meanwhile = _nothing

    def _seen(self, row: Value) -> tuple[Value, Value]:
        """How many blocks of keys all queries of a block see, and how many some do."""
        k, p = self.k, self.p
        first = row + (p.causal or 0)
        whole = minimum((first + 1) // p.keys, p.blocks)
        some = minimum((first + (self.queries - 1)) // p.keys, p.blocks - 1)
        return k.let(whole), k.let(some + 1)

    # --- scores ------------------------------------------------------------------------------------------

    def _scores(
        self, block: _Queries, stretch: Stretch, scores: _Turned, second: bool, masked: bool, step: Value
    ) -> None:
        """[keys, queries] = K Q' + mask' + shift, in the format of the arithmetic."""
        k, p, sums = self.k, self.p, block.shift
        keys = self.keys.rows(0, stretch, step)
        if masked:
            begin = k.let(step * stretch.size + stretch.start)
            sums = self._masked(block, begin, stretch.size)
        # Any number near the largest will do, so the first sweep leaves the low parts of FP32 operands out.
        parts = slice(None) if second else slice(1)
        queries, target = [part.base for part in block.parts[parts]], scores.at(step, stretch.size)
        self._product(keys[parts], queries, target.base, sums, p.fmt, stretch.size, p.d)

    def _masked(self, block: _Queries, begin: Value, keys: int) -> Sums:
        """The transposed mask, plus the shift."""
        k, p = self.k, self.p
        added = k.buffer("masked", aligned_bytes(keys, self.queries, Format.FP32))
        if self.diagonal is not None:
            seen = block.row + (p.causal or 0) - begin
            table = self.diagonal.at(seen), self.diagonal.fmt
            return table if block.shift is None else self._spread(block.lowest, keys, added, table)
        sums = block.shift
        for part in load_mask(k, p, block.head, (block.row, self.queries), (begin, keys)):
            sums = self._product(
                [part], [self.spreads], added, sums, Format.FP32, keys, part.grid.room, lt=1, rt=1
            )
        assert sums is not None
        return sums

    def _product(
        self,
        left: list[Aligned],
        right: list[Value],
        out: Value,
        sums: Sums | None,
        fmt: Format,
        m: int,
        inner: int,
        **turned: Argument,
    ) -> Sums:
        """out [m, queries] = left right + sums, of all pairs of parts."""
        pairs = PRODUCTS if len(left) > 1 else PRODUCTS[:1]
        for a, b in pairs:
            added: dict[str, Argument] = {}
            if sums is not None:
                added["psum"] = sums[0]
                if sums[1] is not Format.FP32:
                    added["psum_format"] = sums[1].token
            self.k.emit(
                f"ne.gemm.{self.engine.token}",
                a=left[a].base,
                b=right[b],
                out=out,
                m=m,
                k=inner,
                n=self.queries,
                out_format=fmt.token,
                **turned,
                **added,
            )
            sums = out, fmt
        return out, fmt

    def _largest(self, scores: _Turned, stretch: Stretch, step: Value, largest: Value) -> None:
        """The largest score of each query so far."""
        k, data = self.k, scores.at(step, stretch.size)
        newest = k.buffer("newest", aligned_bytes(1, self.queries, data.fmt))
        k.emit(f"ct.reduce.max.{data.fmt.token}", dst=newest, src0=data.base, shape=data.shape, dims="h")
        Vector(k, data.fmt, self._lanes).vv("max", largest, largest, newest)

    def _shifted(self, block: _Queries, largest: Value) -> _Queries:
        """The queries as the second sweep takes them."""
        k, p = self.k, self.p
        Vector(k, p.fmt, self._lanes).vs("mul", largest, largest, -1.0)
        row = Aligned(largest, p.fmt, Grid(1, 1, 1), self.queries)
        if p.fmt is not self.engine:
            row = narrowed_slice(k, row, self.engine)
        return replace(block, lowest=row.base)

    def _shift(self, block: _Queries, keys: int) -> Sums:
        """Minus the largest score of each query, for blocks of so many keys."""
        target = self.k.buffer("shift", aligned_bytes(keys, self.queries, Format.FP32))
        return self._spread(block.lowest, keys, target, None)

    def _spread(self, lowest: Value, keys: int, target: Value, sums: Sums | None) -> Sums:
        """target = ``lowest`` for each of the keys, plus ``sums``."""
        ones = Aligned(self.tables.ones, self.engine, Grid(1, 1, 1), keys)
        return self._product([ones], [lowest], target, sums, Format.FP32, keys, 1, lt=1, rt=1)

    # --- the result --------------------------------------------------------------------------------------

    def _weigh(self, scores: _Turned, stretch: Stretch, step: Value, total: Value, result: Aligned) -> None:
        """result [E, queries] += V' weights, total += their sums; the weights are exp(scores)."""
        k, data = self.k, scores.at(step, stretch.size)
        Vector(k, data.fmt, data.elements).unary("exp_lp", data.base, data.base)
        weights = [part.base for part in split(k, data)]
        values = self.keys.rows(1, stretch, step)
        ones = Aligned(self.tables.ones, self.engine, Grid(stretch.size, 1, stretch.size), 1)
        for weight in weights:
            self._product([ones], [weight], total, (total, Format.FP32), Format.FP32, 1, stretch.size, rt=1)
        sums = result.base, Format.FP32
        self._product(values, weights, result.base, sums, Format.FP32, self.p.e, stretch.size, lt=1, rt=1)

    def _finish(self, own: _Own, head: Value, block: Value, step: int) -> None:
        """Divide by the sums, transpose, store."""
        k, p = self.k, self.p
        turn = block // step
        result, total = own.result.at(turn, p.e), own.total.at(turn, 1).base
        Vector(k, Format.FP32, self._lanes).unary("recip", total, total)
        per_channel(k, "mul", result, total)
        fmt = p.work.output.fmt
        rows = slice_buffer(k, "y", fmt, Grid(self.queries, 1, self.queries), p.e)
        for number, part in enumerate(split(k, narrowed_slice(k, result, p.fmt))):
            psum: dict[str, Value] = {"psum": rows.base} if number else {}
            k.emit(
                f"ne.gemm.{self.engine.token}",
                a=part.base,
                b=self.tables.identity,
                out=rows.base,
                lt=1,
                rt=1,
                m=self.queries,
                k=p.e,
                n=p.e,
                out_format=fmt.token,
                **psum,
            )
        store_result(k, p, head, k.let(self._row(block)), rows)


def _nothing() -> None:
    """What there is to do while the second sweep begins."""


_LOWEST = {Format.FP16: -65504.0, Format.BF16: -3.0e38, Format.TF32: -3.0e38, Format.FP32: -3.0e38}
"""What a maximum begins with: finite, so that its difference from itself is 0."""
