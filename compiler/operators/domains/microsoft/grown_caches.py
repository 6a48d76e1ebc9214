"""GroupQueryAttention whose cache grows: new rows are appended after all earlier rows.

So it is Attention that appends to its cache. Only at run time could ``seqlens_k`` ask for another place; the
program then stops.
"""

from __future__ import annotations

import numpy as np

from compiler.graph import GraphError
from compiler.operators.elements.casting import CAST_NUMBERS
from compiler.operators.expansion.builder import Builder
from compiler.operators.expansion.parts import reshaped
from compiler.operators.record import Call

from .group_query import Sizes, attributes_of, heads_of, joined_heads, last_places, rotated, sizes_of


def _before(call: Call) -> int:
    """Return the number of rows of the cache before the call."""
    return call.shape(3)[2] if call.has(3) else 0


def _padding(build: Builder, call: Call, sizes: Sizes) -> str:
    """Return [1] int64, always 0; the program stops if seqlens_k is not the last of all rows."""
    last = build.constant(np.array([sizes.total - 1]), "int64")
    apart = build("Abs", build("Sub", last_places(build, call, sizes), last))
    most = reshaped(build, build("ReduceMax", apart, axes=(0, 1), keepdims=0), 1)
    what = " is how far seqlens_k is from past + new - 1, the last row; a cache that grows allows at most "
    return build("Bounded", most, most=0, what=what)


def appended_group_query(build: Builder, call: Call) -> tuple[str, ...]:
    """Expand GroupQueryAttention whose cache grows by the call's rows; GraphError for other caches."""
    sizes, before = sizes_of(call), _before(call)
    if sizes.total != before + sizes.rows:
        wanted = f"the {sizes.rows} rows of query after the {before} of the growing cache"
        raise GraphError([f"total_sequence_length must be {wanted}; found {sizes.total}"])
    q, k, v = heads_of(build, call, sizes)
    nothing = _padding(build, call, sizes)
    if call.integer("do_rotary"):
        counted = build.constant(np.tile(np.arange(before, sizes.total), (sizes.batch, 1)), "int64")
        positions = call.name(9) or build("Add", counted, nothing)
        q, k = (rotated(build, call, x, sizes, positions) for x in (q, k))
    nothing = build("Cast", nothing, to=CAST_NUMBERS[build.dtype(k)])
    k = build("Add", k, nothing)  # so that no step continues after a wrong seqlens_k
    operands = (q, k, v, call.name(10), call.name(3), call.name(4))
    y, *caches = build.several("Attention", 3, *operands, **attributes_of(call))
    return joined_heads(build, y, sizes), *caches, ""
