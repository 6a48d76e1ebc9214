"""How attention is cut: how many queries and keys are in the scratchpad at a time."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np

from compiler.codegen.kernel import Kernel, Target
from compiler.codegen.slices.aligned import BLOCK, aligned_bytes
from compiler.codegen.slices.precision import part_count
from compiler.codegen.slices.tensors import DdrTensor
from compiler.graph import Array
from compiler.lowering.record import Cut, Work
from compiler.operators.linear.attention import Strided, compact, matrices, result_order
from tx8isa.numbers.division import ceil_div, round_up
from tx8isa.numbers.formats import Format
from tx8isa.numbers.layouts import LINE_BYTES, SMALLEST_TAIL

_MOST_QUERIES, _MOST_KEYS = 256, 512
_WORTH_SHARING = 1 << 23
"""Elements that tiles load, some of them the same, from which on teams are worth a try."""
_MASKED = -1e4
"""Numbers in a mask from here down hide a key."""
HIDDEN = {Format.FP16: -3.0e4, Format.FP32: -1.0e30}
"""Masks are brought above this, that of FP32 in wider formats: an infinity times 0 would be NaN."""


@dataclass(frozen=True)
class Problem:
    """``heads`` matrices; scores of ``queries`` x ``keys`` at a time.

    ``resident``: keys and values of a head are loaded once and stay in the scratchpad. ``shared``: tiles that
    work on the same heads load them together.
    """

    work: Work
    heads: int
    m: int
    n: int
    d: int
    e: int
    queries: int
    keys: int
    resident: bool = True
    shared: bool = False

    @property
    def slots(self) -> int:
        """Blocks of keys in the scratchpad where not all stay: in use, the next, one or two on their way."""
        return 4 if self.shared else 3

    @property
    def blocks(self) -> int:
        """Blocks of keys."""
        return ceil_div(self.n, self.keys)

    @property
    def fmt(self) -> Format:
        """That of the arithmetic; operands and result may be FP32."""
        return self.work.arithmetic

    @cached_property
    def operands(self) -> tuple[Strided, ...]:
        """Where the rows of Q, K and V are."""
        return tuple(matrices(self.work.spec, index) for index in range(3))

    @cached_property
    def result(self) -> Strided:
        """Where the rows of the result are."""
        order, steps = result_order(self.work.spec), compact(self.work.output.shape).strides
        shape = (*self.operands[0].shape[:-1], self.e)
        return Strided(0, shape, tuple(steps[order.index(axis)] for axis in range(len(shape))))

    @property
    def mask(self) -> DdrTensor | None:
        """The mask, of rank 2 or more; None also when it is equal for all keys: it changes no softmax."""
        if not self.work.has(3):
            return None
        mask = self.work.input(3)
        mask = mask.viewed(*(1,) * (2 - len(mask.shape)), *mask.shape)
        return mask if mask.shape[-1] > 1 or self.n == 1 else None

    @cached_property
    def causal(self) -> int | None:
        """c, if the mask lets query i see keys 0 to i + c and nothing else, and blocks fit each other."""
        mask, reach = self.mask, self.n - self.m
        small, large = sorted((self.queries, self.keys))
        if mask is None or mask.value is None or mask.size != self.m * self.n or self.n % self.keys:
            return None
        if large % small or reach % small or self.m % self.queries or self.queries % min(BLOCK, self.queries):
            return None
        return reach if _is_causal(_Same(mask.value), self.m, self.n) else None


class _Same:
    """An array, equal to itself alone: the same mask is looked at for every cut."""

    def __init__(self, array: Array) -> None:
        self.array = array

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.array is other.array

    def __hash__(self) -> int:
        return id(self.array)


@lru_cache(maxsize=4)
def _is_causal(mask: _Same, queries: int, keys: int) -> bool:
    """Whether the last query sees all keys, each before it one less, and nothing else is in the mask."""
    values, reach = mask.array.reshape(queries, keys), keys - queries
    seen = np.tri(queries, keys, reach, dtype=bool)
    return reach >= 0 and bool(np.all(np.where(seen, values == 0, values <= _MASKED)))


def problem_of(kernel: Kernel, work: Work) -> Problem:
    """Work for all tiles if there is that much; else many queries, as they share keys."""
    queries, values = matrices(work.spec, 0).shape, matrices(work.spec, 2).shape
    (m, d), (n, e) = queries[-2:], values[-2:]
    p = Problem(work, math.prod(queries[:-2]), m, n, d, e, min(_MOST_QUERIES, m), min(_MOST_KEYS, n))
    if work.cut is not None:
        p = replace(p, queries=min(work.cut.size("queries"), m), keys=min(work.cut.size("keys"), n))
        return _settled(
            replace(p, shared=work.cut.choice("keys", "own") == "shared"), kernel.target, kernel.budget
        )
    while p.heads * ceil_div(m, p.queries) < kernel.target.tiles and p.queries > BLOCK:
        p = replace(p, queries=_halved(p.queries))
    while _bytes(p) > kernel.budget and _bytes(replace(p, resident=False)) > kernel.budget:
        if max(p.queries, p.keys) <= SMALLEST_TAIL:
            break
        if p.keys >= p.queries:
            p = replace(p, keys=min(_halved(p.keys), n))
        else:
            p = replace(p, queries=min(_halved(p.queries), m))
    return _settled(p, kernel.target, kernel.budget)


def _settled(p: Problem, target: Target, budget: int) -> Problem:
    """What stays in the scratchpad, and what is shared as far as teams go through it in step."""
    p = p if _bytes(p) <= budget else replace(p, resident=False)
    blocks = ceil_div(p.m, p.queries)
    by_blocks = shares(target.tiles, p.heads, blocks)[1]
    in_step = p.resident or (p.causal is None and blocks % by_blocks == 0)
    fits = 1 < by_blocks <= blocks and p.m % p.queries == 0 and in_step
    return replace(p, shared=p.shared and fits)


def shares(tiles: int, heads: int, blocks: int) -> tuple[int, int]:
    """In how many parts heads and blocks of queries are dealt: few steps for the busiest tile."""
    ways = [(by, tiles // by) for by in range(1, tiles + 1) if tiles % by == 0]
    return min(ways, key=lambda way: (ceil_div(heads, way[0]) * ceil_div(blocks, way[1]), -way[0]))


def _halved(extent: int) -> int:
    return max(round_up(ceil_div(extent, 2), BLOCK if extent > BLOCK else SMALLEST_TAIL), SMALLEST_TAIL)


def _bytes(p: Problem) -> int:
    """Scratchpad bytes of what must be there at once."""
    queries, keys, parts = p.queries, p.keys, part_count(p.fmt)
    wide = aligned_bytes(keys, queries, Format.FP32)
    matrix = Format.TF32 if parts > 1 else p.fmt
    block = aligned_bytes(keys, p.d, matrix) + aligned_bytes(keys, p.e, matrix)
    loaded = parts * (p.blocks if p.resident else p.slots) * (block + 2 * LINE_BYTES)
    scores = 2 * aligned_bytes(keys, queries, p.fmt) + (parts - 1) * 2 * wide + wide
    ours = 3 * aligned_bytes(queries, p.d, p.fmt) + 4 * aligned_bytes(p.e, queries, Format.FP32)
    tables = aligned_bytes(p.e, p.e, p.fmt) + 8 * aligned_bytes(1, max(queries, keys), Format.FP32)
    if p.causal is not None:
        tables += wide + (queries + keys) // min(queries, keys) * aligned_bytes(keys, queries, p.fmt)
    elif p.mask is not None:
        tables += (
            wide + 2 * parts * aligned_bytes(queries, keys, p.fmt) + aligned_bytes(queries, queries, p.fmt)
        )
    return loaded + scores + ours + tables


def cuts(target: Target, work: Work) -> Iterator[Cut]:
    """Blocks of queries and of keys; lists with few of either first."""
    shape, (n, e) = matrices(work.spec, 0).shape, matrices(work.spec, 2).shape[-2:]
    heads, (m, d) = math.prod(shape[:-2]), shape[-2:]
    for keys in sorted({min(size, n) for size in (512, 256, 1024, 128)}, key=lambda size: abs(size - 512)):
        for queries in sorted({min(size, m) for size in (64, 128, 256, 512)}):
            sizes = (("queries", queries), ("keys", keys))
            yield Cut(sizes=sizes)
            readers = shares(target.tiles, heads, ceil_div(m, queries))[1]
            if readers > 1 and heads * readers * n * (d + e) >= _WORTH_SHARING:
                yield Cut(sizes=sizes, choices=(("keys", "shared"),))
