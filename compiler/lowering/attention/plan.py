"""Plans of attention: blocks of queries and keys in the scratchpad, and the loads that tiles share."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np

from compiler.codegen.kernel import Kernel, Target
from compiler.codegen.slices.aligned import aligned_bytes
from compiler.codegen.slices.precision import part_count
from compiler.codegen.slices.tensors import BLOCK, DdrTensor
from compiler.codegen.slices.vector import WORD
from compiler.codegen.teams.collective import WAYS
from compiler.evaluation.sizes import Size, always, ever, here
from compiler.graph import Array
from compiler.lowering.record import Cut, Work
from compiler.operators.linear.attention import HIDES, matrices, result_order
from compiler.operators.linear.strided import StridedView, compact
from tx8isa.numbers.division import ceil_div, round_up
from tx8isa.numbers.formats import Format
from tx8isa.numbers.layouts import LINE_BYTES, SMALLEST_TAIL, aligned_channels

_MOST_QUERIES, _MOST_KEYS = 256, 512
"""Queries and keys of a block where no cut says otherwise."""
_MOST_SIZED = BLOCK
"""Queries of a block whose mask has a dynamic size: the transposed mask is one plane."""
_WORTH_SHARING = 1 << 23
"""Least elements, loaded by all tiles together, for which the search tries teams."""
_LEAST_TURNS = 4
"""Blocks of queries that a tile has of each head where it loads the next head between them."""
_HIDDEN = {Format.FP16: -3.0e4}
_HIDDEN_WIDE = -(2.0**100)


def hidden_score(fmt: Format) -> float:
    """The lowest number of a mask in the scratchpad. Infinity times 0 would be NaN.

    Every format has it, and a sum with it rounds scores away. So the largest score of a query whose keys are
    all hidden is exactly this number.
    """
    return _HIDDEN.get(fmt, _HIDDEN_WIDE)


@dataclass(frozen=True)
class AttentionPlan:
    """Q [heads, m, d], K [heads, n, d] and V [heads, n, e], and the sizes of their blocks."""

    work: Work
    heads: int
    m: int
    n: int
    d: int
    e: int
    block_queries: int
    block_keys: int
    resident: bool = True
    """True if keys and values of a head stay in the scratchpad."""
    team: int = 1
    """Number of tiles that load keys and values together, because they work on the same heads."""
    heads_in_room: int = 1
    """Heads whose keys and values are in the scratchpad: 2 if teams load the next while they compute one."""
    parts: int = 1
    """Number of tiles that share the keys of a head, each with equally many blocks of them."""
    exchange: str = WAYS[0]
    """The way in which these tiles exchange their results, one of ``WAYS``."""

    @property
    def slots(self) -> int:
        """Number of blocks of keys in the scratchpad unless all stay: one in use, the next, and one or two
        being loaded."""
        return 4 if self.team > 1 else 3

    @property
    def blocks(self) -> int:
        """Blocks of keys."""
        return ceil_div(self.n, self.block_keys)

    @property
    def whole_blocks(self) -> int:
        """Blocks of queries that are not shorter than others; where sizes depend on the run, all."""
        return _whole_blocks(self.m, self.block_queries)

    @property
    def last_keys(self) -> int:
        """The keys of the last block."""
        return self.block_keys if isinstance(self.n, Size) else self.n - (self.blocks - 1) * self.block_keys

    @property
    def own_rows(self) -> list[int]:
        """Most keys of each of the blocks that one tile of a team loads."""
        loads = range(0, here(self.blocks), self.team)
        return [self.last_keys if first == here(self.blocks) - 1 else self.block_keys for first in loads]

    @property
    def own_blocks(self) -> int:
        """Blocks of keys of one tile."""
        return self.blocks if self.parts == 1 else self.blocks // self.parts

    @property
    def partial_elements(self) -> int:
        """FP32 words of the result of a part of the keys: a line of sums of weights, and the values."""
        return LINE_BYTES // WORD + self.e * aligned_channels(self.m, BLOCK)

    @property
    def fmt(self) -> Format:
        """The format of the arithmetic; operands and result may be FP32 in DDR."""
        return self.work.arithmetic

    @property
    def cap(self) -> float:
        """The softcap of the scores; 0 if they have none."""
        return self.work.spec.number("softcap")

    @property
    def scale(self) -> float:
        """The factor of Q: capped scores are computed as multiples of the cap."""
        return self.work.spec.number("scale") / (self.cap or 1.0)

    def direct(self, index: int) -> bool:
        """True if the matrix engine reads operand ``index`` in the format that it has in DDR."""
        return part_count(self.fmt) == 1 and self.work.input(index).fmt is self.fmt

    @cached_property
    def operands(self) -> tuple[StridedView, ...]:
        """The rows of Q, K and V in DDR."""
        return tuple(matrices(self.work.spec, index) for index in range(3))

    @cached_property
    def result(self) -> StridedView:
        """The rows of the result in DDR."""
        order, steps = result_order(self.work.spec), compact(self.work.output.shape).strides
        shape = (*self.operands[0].shape[:-1], self.e)
        return StridedView(0, shape, tuple(steps[order.index(axis)] for axis in range(len(shape))))

    @property
    def mask(self) -> DdrTensor | None:
        """The mask, of rank 2 or more; None if it is equal for all keys, because it then changes no
        softmax."""
        if not self.work.has(3):
            return None
        mask = self.work.input(3)
        mask = mask.viewed(*(1,) * (2 - len(mask.shape)), *mask.shape)
        return mask if ever(mask.shape[-1] > 1) or always(self.n == 1) else None

    @property
    def mask_rows(self) -> bool:
        """True if the mask has a row for each query."""
        return self.mask is not None and ever(self.mask.shape[-2] > 1)

    @property
    def sized_mask(self) -> bool:
        """True if the number or the length of the mask's rows depends on the sizes of a run."""
        return self.mask_rows and (isinstance(self.m, Size) or isinstance(self.n, Size))

    @property
    def mask_lanes(self) -> int:
        """Number of stored keys in a block of such a mask, in one plane or in whole ones."""
        if self.block_keys > BLOCK:
            return round_up(self.block_keys, BLOCK)
        return aligned_channels(self.block_keys, BLOCK)

    @cached_property
    def causal(self) -> int | None:
        """c if the mask lets query i see exactly the keys 0 to i + c."""
        mask, reach = self.mask, self.n - self.m
        if mask is None or mask.value is None or mask.size != self.m * self.n:
            return None
        return reach if _is_causal(_IdentityKey(mask.value), self.m, self.n) else None


class _IdentityKey:
    """An array as the key of a cache, compared by identity: every cut asks about the same mask."""

    def __init__(self, array: Array) -> None:
        self.array = array

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _IdentityKey) and self.array is other.array

    def __hash__(self) -> int:
        return id(self.array)


@lru_cache(maxsize=4)
def _is_causal(mask: _IdentityKey, queries: int, keys: int) -> bool:
    """True if a mask is causal: the last query sees all keys, and each query before it one key less than the
    next."""
    values, reach = mask.array.reshape(queries, keys), keys - queries
    seen = np.tri(queries, keys, reach, dtype=bool)
    return reach >= 0 and bool(np.all(np.where(seen, values == 0, values <= HIDES)))


def plan_of(kernel: Kernel, work: Work) -> AttentionPlan:
    """The plan of a cut; without a cut, blocks as large as fit, but smaller ones if there are too few for all
    tiles."""
    rows_of, values = matrices(work.spec, 0).shape, matrices(work.spec, 2).shape
    (m, d), (n, e) = rows_of[-2:], values[-2:]
    most = _lanes_of(m, _MOST_QUERIES), min(_MOST_KEYS, here(n))
    plan = AttentionPlan(work, math.prod(rows_of[:-2]), m, n, d, e, *most)
    if plan.sized_mask:
        plan = replace(plan, block_queries=_lanes_of(m, _MOST_SIZED))
    if work.cut is not None:
        queries = min(work.cut.size("queries"), _MOST_SIZED) if plan.sized_mask else work.cut.size("queries")
        plan = replace(
            plan,
            block_queries=_lanes_of(m, queries),
            block_keys=work.cut.size("keys") if isinstance(n, Size) else min(work.cut.size("keys"), n),
        )
        plan = replace(plan, parts=work.cut.parts("keys"), exchange=work.cut.choice("exchange", WAYS[0]))
        return _placed(plan, kernel.target, kernel.budget, work.cut.choice("keys", "own") == "shared")
    heads, rows, keys = here(plan.heads), here(m), here(n)
    while heads * ceil_div(rows, plan.block_queries) < kernel.target.tiles and plan.block_queries > BLOCK:
        plan = replace(plan, block_queries=_halved_block(plan.block_queries))
    while not _fits(plan, kernel.budget) and not _fits(replace(plan, resident=False), kernel.budget):
        if max(plan.block_queries, plan.block_keys) <= SMALLEST_TAIL:
            break
        if plan.block_keys >= plan.block_queries:
            plan = replace(plan, block_keys=min(_halved_block(plan.block_keys), keys))
        else:
            plan = replace(plan, block_queries=_lanes_of(m, _halved_block(plan.block_queries)))
    return _placed(plan, kernel.target, kernel.budget)


def _placed(plan: AttentionPlan, target: Target, budget: int, shared: bool = False) -> AttentionPlan:
    """The plan with resident keys if there is room; teams load them if ``shared`` and tiles keep in step."""
    plan = plan if _divides_keys(plan, target, budget) else replace(plan, parts=1)
    plan = plan if _fits(plan, budget) else replace(plan, resident=False)
    if not shared or isinstance(plan.m, Size) or isinstance(plan.n, Size):
        return plan  # with sizes of a run, the tiles of a team would take different numbers of steps
    blocks = plan.whole_blocks
    by_blocks = divide_tiles(target.tiles, plan.heads, blocks)[1]
    in_step = plan.causal is None and blocks % by_blocks == 0 and plan.m % plan.block_queries == 0
    if not (1 < by_blocks <= blocks and (plan.resident or in_step)):
        return plan
    ahead = replace(plan, team=by_blocks, heads_in_room=2)
    if plan.resident and blocks >= _LEAST_TURNS * by_blocks and _fits(ahead, budget):
        return ahead
    return replace(ahead, heads_in_room=1)


def _divides_keys(plan: AttentionPlan, target: Target, budget: int) -> bool:
    """True if tiles can share the keys of each head evenly, for few queries that are one block."""
    if isinstance(plan.m, Size) or isinstance(plan.n, Size) or plan.m > min(BLOCK, plan.block_queries):
        return False
    even = plan.n % (plan.parts * plan.block_keys) == 0 and plan.heads * plan.parts <= target.tiles
    return even and plan.causal is None and _fits(plan, budget)


def _lanes_of(queries: int, most: int) -> int:
    """The queries of a block: at most ``most``, and no more than there are.

    Queries are channels, which engines store in few widths. Where their number depends on the sizes of a run,
    a block has one of these widths; lanes after the last query compute nothing that is used.
    """
    if not isinstance(queries, Size):
        return min(most, queries)
    return aligned_channels(min(most, queries.here), BLOCK)


def _fits(plan: AttentionPlan, budget: int) -> bool:
    """True if the buffers of a plan have room, for all sizes of a run."""
    return always(_spm_bytes(plan) <= budget)


def _whole_blocks(rows: int, queries: int) -> int:
    return ceil_div(rows, queries) if isinstance(rows, Size) else max(rows // queries, 1)


def divide_tiles(tiles: int, heads: int, blocks: int) -> tuple[int, int]:
    """The numbers of parts of heads and of blocks of queries: few blocks for the busiest tile."""
    heads, blocks = here(heads), here(blocks)
    ways = [(parts, tiles // parts) for parts in range(1, tiles + 1) if tiles % parts == 0]
    return min(ways, key=lambda way: (ceil_div(heads, way[0]) * ceil_div(blocks, way[1]), -way[0]))


def _halved_block(extent: int) -> int:
    """About half the rows of a block: whole planes, or a tail that can be stored."""
    unit = BLOCK if extent > BLOCK else SMALLEST_TAIL
    return max(round_up(ceil_div(extent, 2), unit), SMALLEST_TAIL)


def _spm_bytes(plan: AttentionPlan) -> int:
    """Scratchpad bytes of all buffers that are alive at the same time."""
    queries, keys, parts = plan.block_queries, plan.block_keys, part_count(plan.fmt)
    per_query = 3 * aligned_bytes(queries, plan.d, plan.fmt) + 4 * aligned_bytes(plan.e, queries, Format.FP32)
    tables = aligned_bytes(plan.e, plan.e, plan.fmt) + 8 * aligned_bytes(1, max(queries, keys), Format.FP32)
    if plan.causal is not None:
        tables += aligned_bytes(2 * keys + BLOCK, BLOCK, plan.fmt)
    elif plan.mask is not None:
        tables += 2 * parts * aligned_bytes(queries, keys, plan.fmt)
        tables += aligned_bytes(queries, queries, plan.fmt)
    if plan.sized_mask:
        tables += 4 * aligned_bytes(queries, plan.mask_lanes, Format.FP32)
    return _loaded_bytes(plan) + _score_bytes(plan) + per_query + tables


def _loaded_bytes(plan: AttentionPlan) -> int:
    """Bytes of the blocks of keys and values, and of what tiles exchange."""
    parts, keys = part_count(plan.fmt), plan.block_keys
    matrix = Format.TF32 if parts > 1 else plan.fmt
    block = aligned_bytes(keys, plan.d, matrix) + aligned_bytes(keys, plan.e, matrix)
    if plan.resident:
        last = aligned_bytes(plan.last_keys, plan.d, matrix) + aligned_bytes(plan.last_keys, plan.e, matrix)
        head = (plan.own_blocks - 1) * (block + 2 * LINE_BYTES) + last + 2 * LINE_BYTES
        loaded = parts * plan.heads_in_room * head
    else:
        loaded = parts * plan.slots * (block + 2 * LINE_BYTES)
    if plan.heads_in_room > 1:  # the rows of the next head, and the planes that they become
        widest = max((plan.work.input(index).fmt for index in (1, 2)), key=lambda fmt: fmt.bits)
        rows = plan.own_rows + ([] if plan.direct(1) and plan.direct(2) else [keys])
        loaded += sum(aligned_bytes(count, max(plan.d, plan.e), widest) for count in rows)
    if plan.parts > 1:
        loaded += 2 * WORD * (plan.parts + 1) * (plan.partial_elements + BLOCK)
    return loaded


def _score_bytes(plan: AttentionPlan) -> int:
    """Bytes of two blocks of scores, of a mask, and of the largest scores or what the second sweep adds."""
    narrow, wide = (
        aligned_bytes(plan.block_keys, plan.block_queries, fmt) for fmt in (plan.fmt, Format.FP32)
    )
    masked = 0 if plan.mask is None else wide if plan.causal is None else narrow
    return 2 * narrow + (part_count(plan.fmt) - 1) * 2 * wide + narrow + masked


def attention_cuts(target: Target, work: Work) -> Iterator[Cut]:
    """Cuts for the search: block sizes near the default first, without and with shared keys."""
    shape, (n, e) = matrices(work.spec, 0).shape, matrices(work.spec, 2).shape[-2:]
    heads, (m, d) = math.prod(shape[:-2]), shape[-2:]
    for keys in sorted({min(size, n) for size in (512, 256, 1024, 128)}, key=lambda size: abs(size - 512)):
        for queries in sorted({min(size, m) for size in (64, 128, 256, 512)}):
            sizes = (("queries", queries), ("keys", keys))
            yield Cut(sizes=sizes)
            readers = divide_tiles(target.tiles, heads, _whole_blocks(m, queries))[1]
            if readers > 1 and heads * readers * n * (d + e) >= _WORTH_SHARING:
                yield Cut(sizes=sizes, choices=(("keys", "shared"),))
    if m <= BLOCK:
        yield from _cuts_by_keys(target.tiles // heads, m, n)


def _cuts_by_keys(most: int, queries: int, keys: int) -> Iterator[Cut]:
    """Yield cuts in which at most ``most`` tiles share the keys of a head."""
    for parts in (16, 8, 4, 2):
        if parts <= most and keys % parts == 0 and keys // parts >= SMALLEST_TAIL:
            block = keys // parts
            while block > _MOST_KEYS and block % 2 == 0:
                block //= 2
            for way in WAYS:
                sizes = (("queries", queries), ("keys", block))
                yield Cut((("keys", parts),), sizes, (("exchange", way),))
