"""Attention: scores never leave the scratchpad.

A tile takes heads, or blocks of queries of one head, and sweeps twice over blocks of keys. Scores are
computed transposed, [keys, queries], so that a number for each query is one value per channel. The first
sweep finds the largest score of each query. The initial sums of the second sweep subtract it, rounded to the
format of the matrix engine, so that weights are exp of the engine's result. (A softmax may subtract any
number that is the same for all weights of a query.) The result, [E, queries] too, is divided by the sums of
the weights. In the end a product with the identity transposes it exactly.

Keys of a head stay in the scratchpad if they fit, else each sweep loads them, two blocks ahead. Under a
causal mask, blocks of keys that no query of the block sees are skipped, and only those on the diagonal get a
mask.
"""

from __future__ import annotations

from compiler.codegen.expr import Value, minimum
from compiler.codegen.kernel import Kernel
from compiler.codegen.slices.aligned import aligned_bytes
from compiler.codegen.slices.precision import engine_format
from compiler.codegen.slices.row_transposer import identity
from compiler.codegen.slices.tensors import BLOCK, Stretch, stretches
from compiler.codegen.teams.gather import enter
from compiler.codegen.teams.team import TileGrid
from compiler.evaluation.sizes import Size
from compiler.lowering.record import Engine, Work, lowering
from compiler.operators.linear.attention import matrices
from compiler.operators.record import Call
from tx8isa.numbers.division import ceil_div
from tx8isa.numbers.layouts import aligned_channels
from tx8isa.numbers.limits import LARGEST_EXTENT

from .head_code import HeadCode
from .key_parts import attention_of_parts
from .key_values import KeyValues
from .plan import AttentionPlan, attention_cuts, divide_tiles, plan_of
from .query_share import QueryShare
from .scores import Scores, Tables
from .slots import BlockSlots


def _check(call: Call) -> str | None:
    """The limit of the engines' packed operands."""
    widest = max(matrices(call, 0).shape[-1], matrices(call, 2).shape[-1])
    return f"heads of at most {LARGEST_EXTENT} channels; found {widest}" if widest > LARGEST_EXTENT else None


@lowering(
    "FusedAttention",
    check=_check,
    cuts=attention_cuts,
    takes_fp32=True,
    prefetch=True,
    engines=(Engine.MATRIX, Engine.VECTOR),
)
def attention(kernel: Kernel, work: Work) -> None:
    """Tiles take heads first, then every n-th block of queries: under a causal mask late ones take longer."""
    plan = plan_of(kernel, work)
    if plan.parts > 1:
        kernel.await_earlier_phases()
        attention_of_parts(kernel, plan, _tables(kernel, plan))
        return
    if plan.team == 1:
        kernel.await_earlier_phases()
    by_heads, by_blocks = divide_tiles(kernel.target.tiles, plan.heads, plan.whole_blocks)
    place = kernel.let(kernel.tile // by_blocks), kernel.let(kernel.tile % by_blocks)
    team = TileGrid((by_heads, by_blocks), place).team(kernel, 1) if plan.team > 1 else None
    key_values = KeyValues(kernel, plan, team)
    if team is not None:
        enter(kernel, *(base for slots in key_values.slots for base in slots.bases))
    tables = _tables(kernel, plan)
    first = kernel.let(place[0] * ceil_div(plan.heads, by_heads))
    end = kernel.let(minimum(first + ceil_div(plan.heads, by_heads), plan.heads))
    blocks = [
        (
            stretch,
            Scores(kernel, plan, tables, key_values, stretch.size),
            BlockSlots(kernel, plan, 0, stretch.size, 2),
        )
        for stretch in _query_stretches(plan)
    ]
    key_values.begin(first, end)
    with kernel.loop(end, first) as head:
        key_values.begin_head(head)
        before = 0
        for stretch, scores, queries in blocks:
            share = QueryShare(stretch.count, by_blocks, place[1], plan.causal is not None, before)
            HeadCode(scores, queries, stretch, head).run(share, end)
            before += stretch.count
        key_values.end_head()


def _query_stretches(plan: AttentionPlan) -> list[Stretch]:
    """Blocks of queries. Where their number depends on the sizes of a run, the last one may have fewer."""
    if not isinstance(plan.m, Size):
        return stretches(plan.m, plan.block_queries)
    return [Stretch(0, plan.block_queries, ceil_div(plan.m, plan.block_queries))]


def _tables(kernel: Kernel, plan: AttentionPlan) -> Tables:
    return Tables(identity(kernel, plan.e, engine_format(plan.fmt)), _ones(kernel, plan))


def _ones(kernel: Kernel, plan: AttentionPlan) -> Value:
    keys = plan.mask_lanes if plan.sized_mask else plan.block_keys
    fmt, longest = engine_format(plan.fmt), max(keys, plan.block_queries)
    ones = kernel.buffer("ones", aligned_bytes(1, longest, fmt))
    kernel.emit(f"td.memset.{fmt.token}", dst=ones, value=1.0, n=aligned_channels(longest, BLOCK))
    return ones
