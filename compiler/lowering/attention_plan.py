"""How attention is cut: how many queries and keys are in the scratchpad at a time."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from compiler.codegen.aligned import BLOCK, aligned_bytes
from compiler.codegen.expr import ceil_div, round_up
from compiler.codegen.kernel import Kernel, Target
from compiler.codegen.precision import part_count
from compiler.codegen.tensors import DdrTensor
from compiler.lowering.record import Cut, Work
from compiler.operators.attention_fused import Strided, compact, matrices, result_order
from tx8isa.formats import Format
from tx8isa.layouts import SMALLEST_TAIL

_MOST_QUERIES, _MOST_KEYS = 256, 2048


@dataclass(frozen=True)
class Problem:
    """``heads`` matrices; scores of ``queries`` x ``keys`` at a time, which is all keys if that fits."""

    work: Work
    heads: int
    m: int
    n: int
    d: int
    e: int
    queries: int
    keys: int

    @property
    def fmt(self) -> Format:
        """That of the arithmetic; operands and result may be FP32."""
        compute: Format = self.work.extra["compute"]
        return compute

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


def problem_of(k: Kernel, work: Work) -> Problem:
    """All keys, if that leaves room for 64 queries; else many queries, as they share keys."""
    queries, values = matrices(work.spec, 0).shape, matrices(work.spec, 2).shape
    (m, d), (n, e) = queries[-2:], values[-2:]
    p = Problem(work, math.prod(queries[:-2]), m, n, d, e, min(_MOST_QUERIES, m), n)
    if work.cut is not None:
        return replace(p, queries=min(work.cut.size("queries"), m), keys=min(work.cut.size("keys"), n))
    while p.heads * ceil_div(m, p.queries) < k.target.tiles and p.queries > BLOCK:
        p = replace(p, queries=_halved(p.queries))
    whole = p
    while _bytes(whole) > k.budget and whole.queries > BLOCK:
        whole = replace(whole, queries=_halved(whole.queries))
    if n <= _MOST_KEYS and _bytes(whole) <= k.budget:
        return whole
    p = replace(p, keys=min(_MOST_KEYS, n))
    while _bytes(p) > k.budget and max(p.queries, p.keys) > SMALLEST_TAIL:
        if p.keys >= p.queries:
            p = replace(p, keys=_halved(p.keys))
        else:
            p = replace(p, queries=_halved(p.queries))
    return replace(p, queries=min(p.queries, m), keys=min(p.keys, n))


def _halved(extent: int) -> int:
    return max(round_up(ceil_div(extent, 2), BLOCK if extent > BLOCK else SMALLEST_TAIL), SMALLEST_TAIL)


def _bytes(p: Problem) -> int:
    """Scratchpad bytes of what must be there at once, and of scores and weights twice."""
    queries, keys = p.queries, p.keys
    copies = 3 if part_count(p.fmt) > 1 else 1
    wide = aligned_bytes(keys, queries, Format.FP32)
    weights = copies * aligned_bytes(keys, queries, p.fmt)
    matrices = copies * (aligned_bytes(keys, p.d, p.fmt) + aligned_bytes(keys, p.e, p.fmt))
    ours = copies * aligned_bytes(queries, p.d, p.fmt) + 4 * aligned_bytes(p.e, queries, Format.FP32)
    tables = aligned_bytes(p.e, p.e, p.fmt) + 16 * aligned_bytes(1, max(queries, keys), Format.FP32)
    if p.mask is not None:
        tables += 2 * aligned_bytes(queries, keys, p.fmt) + aligned_bytes(queries, queries, p.fmt)
    return 2 * (wide + weights) + matrices + ours + tables


def cuts(target: Target, work: Work) -> Iterator[Cut]:
    """Blocks of queries and of keys; lists with few of either first."""
    m, n = matrices(work.spec, 0).shape[-2], matrices(work.spec, 1).shape[-2]
    for keys in sorted({min(size, n) for size in (_MOST_KEYS, 1024, 512, 256)}, reverse=True):
        for queries in sorted({min(size, m) for size in (64, 128, 256, 512)}):
            yield Cut(sizes=(("queries", queries), ("keys", keys)))
