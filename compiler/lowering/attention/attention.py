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
from compiler.operators.linear.attention import matrices
from compiler.operators.record import Call
from tx8isa.numbers.division import ceil_div, round_up
from tx8isa.numbers.formats import Format
from tx8isa.numbers.layouts import LINE_BYTES, aligned_channels
from tx8isa.numbers.limits import LARGEST_EXTENT

from .keys import Keys, Slots, Walk
from .mask import Diagonal
from .operands import load_mask, store_result
from .plan import Problem, cuts, problem_of, shares


def _check(call: Call) -> str | None:
    """The engine's packed operands."""
    widest = max(matrices(call, 0).shape[-1], matrices(call, 2).shape[-1])
    return f"heads of at most {LARGEST_EXTENT} channels; found {widest}" if widest > LARGEST_EXTENT else None


@lowering("FusedAttention", check=_check, cuts=cuts, rounds=True, prefetch=True)
def attention(kernel: Kernel, work: Work) -> None:
    """Heads are dealt first, then blocks of queries, in turns: under a causal mask late ones take longer."""
    p = problem_of(kernel, work)
    if not p.shared:
        kernel.begin()
    tables: _Tables | None = None
    for stretch in stretches(p.m, p.queries):
        by_heads, by_blocks = shares(kernel.target.tiles, p.heads, stretch.count)
        place = kernel.let(kernel.tile // by_blocks), kernel.let(kernel.tile % by_blocks)
        team = TileGrid((by_heads, by_blocks), place).team(kernel, 1) if p.shared else None
        keys = Keys(kernel, p, team)
        if p.shared:
            enter(kernel, *(base for slots in keys.slots for base in slots.bases))
        tables = tables or _Tables(identity(kernel, p.e, engine_format(p.fmt)), _ones(kernel, p))
        first = kernel.let(place[0] * ceil_div(p.heads, by_heads))
        end = kernel.let(minimum(first + ceil_div(p.heads, by_heads), p.heads))
        stages = _Stages(kernel, p, tables, stretch, keys)
        with kernel.loop(end, first) as head:
            stages.head(head, place[1], by_blocks)


@dataclass(frozen=True)
class _Tables:
    """What a tile loads once: the identity that transposes results, and ones that sum up weights."""

    identity: Value
    ones: Value


def _ones(kernel: Kernel, p: Problem) -> Value:
    fmt, longest = engine_format(p.fmt), max(p.keys, p.queries)
    ones = kernel.buffer("ones", aligned_bytes(1, longest, fmt))
    kernel.emit(f"td.memset.{fmt.token}", dst=ones, value=1.0, n=aligned_channels(longest, BLOCK))
    return ones


class _Turned:
    """A slice with two copies, of which neighbouring blocks use one each."""

    def __init__(self, kernel: Kernel, name: str, like: Aligned) -> None:
        room = aligned_bytes(like.grid.room * like.grid.width, like.channels, like.fmt)
        self.span = round_up(room, LINE_BYTES)
        self.like, self.base = like, kernel.buffer(name, 2 * self.span)

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

    def __init__(self, kernel: Kernel, p: Problem, tables: _Tables, stretch: Stretch, keys: Keys) -> None:
        self.kernel, self.p, self.tables, self.keys = kernel, p, tables, keys
        self.stretch, self.queries = stretch, stretch.size
        self.engine = engine_format(p.fmt)
        self.spreads: Value = tables.ones
        """What transposes a mask, or spreads its one row."""
        self.diagonal = Diagonal(kernel, p, self.queries) if p.causal is not None else None
        if self.diagonal is None and p.mask is not None and p.mask.shape[-2] > 1:
            self.spreads = identity(kernel, self.queries, self.engine)
        self.slots = Slots(kernel, p, 0, self.queries, 2)

    # --- a block of queries ------------------------------------------------------------------------------

    def head(self, head: Value, first: Value, step: int) -> None:
        """Every ``step``-th block of queries of a head.

        While one is worked on the next is loaded, and the result of the last finished.
        """
        kernel, p, count = self.kernel, self.p, self.stretch.count
        own = _Own(
            self.slots,
            _Turned(kernel, "result", Aligned(0, Format.FP32, Grid(p.e, 1, p.e), self.queries)),
            _Turned(kernel, "total", Aligned(0, Format.FP32, Grid(1, 1, 1), self.queries)),
            _Turned(kernel, "scores", Aligned(0, p.fmt, Grid(p.keys, 1, p.keys), self.queries)),
        )
        self.keys.load_all(0, head)
        with kernel.if_below(first, count):
            self._put(first, step, self._load(head, first, step))
        with kernel.loop(count, first, step) as block:
            self._block(own, head, block, first, step)
        with kernel.if_below(first, count):
            turns = (count - 1 - minimum(first, count - 1)) // step
            self._finish(own, head, kernel.let(first + turns * step), step)

    def _block(self, own: _Own, head: Value, block: Value, first: Value, step: int) -> None:
        kernel = self.kernel
        following = kernel.let(block + step)
        loaded: list[Aligned] = []

        def meanwhile() -> None:
            with kernel.if_below(following, self.stretch.count):
                loaded.append(self._load(head, following, step))
            with kernel.if_below(first, block):
                self._finish(own, head, kernel.let(maximum(block - step, 0)), step)

        queries = _Queries(head, kernel.let(self._row(block)), self.slots.block(block // step, self.queries))
        largest = self._largest_scores(queries, own.scores, meanwhile)
        with kernel.if_below(following, self.stretch.count):
            self._put(following, step, loaded[0])
        with kernel.if_below(block, first + 1):
            self.keys.load_all(1, head)
        self._result(self._shifted(queries, largest), own, block // step)

    def _row(self, block: Value) -> Value:
        return block * self.queries + self.stretch.start

    def _load(self, head: Value, block: Value, step: int) -> Aligned:
        return self.slots.load(block // step, head, self.kernel.let(self._row(block)), self.queries)

    def _put(self, block: Value, step: int, loaded: Aligned) -> None:
        self.slots.put(block // step, loaded, self.p.work.spec.number("scale"))

    def _largest_scores(self, block: _Queries, scores: _Turned, meanwhile: Callable[[], None]) -> Value:
        """The first sweep."""
        kernel, p = self.kernel, self.p
        largest = kernel.buffer("largest", aligned_bytes(1, self.queries, p.fmt))
        kernel.emit(f"td.memset.{p.fmt.token}", dst=largest, value=_LOWEST[p.fmt], n=self._lanes)

        def use(stretch: Stretch, step: Value) -> None:
            self._largest(scores, stretch, step, largest)

        self._sweep(block, scores, False, use, meanwhile)
        return largest

    def _result(self, block: _Queries, own: _Own, turn: Value) -> None:
        """The second sweep."""
        kernel, p = self.kernel, self.p
        result, total = own.result.at(turn, p.e), own.total.at(turn, 1).base
        kernel.emit("td.memset.fp32", dst=total, value=0.0, n=self._lanes)
        kernel.emit("td.memset.fp32", dst=result.base, value=0.0, n=result.elements)

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
        kernel, p = self.kernel, self.p
        first = row + (p.causal or 0)
        whole = minimum((first + 1) // p.keys, p.blocks)
        some = minimum((first + (self.queries - 1)) // p.keys, p.blocks - 1)
        return kernel.let(whole), kernel.let(some + 1)

    # --- scores ------------------------------------------------------------------------------------------

    def _scores(
        self, block: _Queries, stretch: Stretch, scores: _Turned, second: bool, masked: bool, step: Value
    ) -> None:
        """[keys, queries] = K Q' + mask' + shift, in the format of the arithmetic."""
        kernel, p, sums = self.kernel, self.p, block.shift
        keys = self.keys.rows(0, stretch, step)
        if masked:
            begin = kernel.let(step * stretch.size + stretch.start)
            sums = self._masked(block, begin, stretch.size)
        # Any number near the largest will do, so the first sweep leaves the low parts of FP32 operands out.
        parts = slice(None) if second else slice(1)
        queries, target = [part.base for part in block.parts[parts]], scores.at(step, stretch.size)
        self._product(keys[parts], queries, target.base, sums, p.fmt, stretch.size, p.d)

    def _masked(self, block: _Queries, begin: Value, keys: int) -> Sums:
        """The transposed mask, plus the shift."""
        kernel, p = self.kernel, self.p
        added = kernel.buffer("masked", aligned_bytes(keys, self.queries, Format.FP32))
        if self.diagonal is not None:
            seen = block.row + (p.causal or 0) - begin
            table = self.diagonal.at(seen), self.diagonal.fmt
            return table if block.shift is None else self._spread(block.lowest, keys, added, table)
        sums = block.shift
        for part in load_mask(kernel, p, block.head, (block.row, self.queries), (begin, keys)):
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
            self.kernel.emit(
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
        kernel, data = self.kernel, scores.at(step, stretch.size)
        newest = kernel.buffer("newest", aligned_bytes(1, self.queries, data.fmt))
        kernel.emit(f"ct.reduce.max.{data.fmt.token}", dst=newest, src0=data.base, shape=data.shape, dims="h")
        Vector(kernel, data.fmt, self._lanes).vv("max", largest, largest, newest)

    def _shifted(self, block: _Queries, largest: Value) -> _Queries:
        """The queries as the second sweep takes them."""
        kernel, p = self.kernel, self.p
        Vector(kernel, p.fmt, self._lanes).vs("mul", largest, largest, -1.0)
        row = Aligned(largest, p.fmt, Grid(1, 1, 1), self.queries)
        if p.fmt is not self.engine:
            row = narrowed_slice(kernel, row, self.engine)
        return replace(block, lowest=row.base)

    def _shift(self, block: _Queries, keys: int) -> Sums:
        """Minus the largest score of each query, for blocks of so many keys."""
        target = self.kernel.buffer("shift", aligned_bytes(keys, self.queries, Format.FP32))
        return self._spread(block.lowest, keys, target, None)

    def _spread(self, lowest: Value, keys: int, target: Value, sums: Sums | None) -> Sums:
        """target = ``lowest`` for each of the keys, plus ``sums``."""
        ones = Aligned(self.tables.ones, self.engine, Grid(1, 1, 1), keys)
        return self._product([ones], [lowest], target, sums, Format.FP32, keys, 1, lt=1, rt=1)

    # --- the result --------------------------------------------------------------------------------------

    def _weigh(self, scores: _Turned, stretch: Stretch, step: Value, total: Value, result: Aligned) -> None:
        """result [E, queries] += V' weights, total += their sums; the weights are exp(scores)."""
        kernel, data = self.kernel, scores.at(step, stretch.size)
        Vector(kernel, data.fmt, data.elements).unary("exp_lp", data.base, data.base)
        weights = [part.base for part in split(kernel, data)]
        values = self.keys.rows(1, stretch, step)
        ones = Aligned(self.tables.ones, self.engine, Grid(stretch.size, 1, stretch.size), 1)
        for weight in weights:
            self._product([ones], [weight], total, (total, Format.FP32), Format.FP32, 1, stretch.size, rt=1)
        sums = result.base, Format.FP32
        self._product(values, weights, result.base, sums, Format.FP32, self.p.e, stretch.size, lt=1, rt=1)

    def _finish(self, own: _Own, head: Value, block: Value, step: int) -> None:
        """Divide by the sums, transpose, store."""
        kernel, p = self.kernel, self.p
        turn = block // step
        result, total = own.result.at(turn, p.e), own.total.at(turn, 1).base
        Vector(kernel, Format.FP32, self._lanes).unary("recip", total, total)
        per_channel(kernel, "mul", result, total)
        fmt = p.work.output.fmt
        rows = slice_buffer(kernel, "y", fmt, Grid(self.queries, 1, self.queries), p.e)
        for number, part in enumerate(split(kernel, narrowed_slice(kernel, result, p.fmt))):
            psum: dict[str, Value] = {"psum": rows.base} if number else {}
            kernel.emit(
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
        store_result(kernel, p, head, kernel.let(self._row(block)), rows)


def _nothing() -> None:
    """What there is to do while the second sweep begins."""


_LOWEST = {Format.FP16: -65504.0, Format.BF16: -3.0e38, Format.TF32: -3.0e38, Format.FP32: -3.0e38}
"""What a maximum begins with: finite, so that its difference from itself is 0."""
