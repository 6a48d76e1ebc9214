"""GroupQueryAttention: rows whose heads share keys, appended to a cache, with rotary embedding.

Shapes are static, so the total length must be known. It tells whether the rows are a whole prompt. If rows
follow a cache, each sequence of the batch may begin at another place, which is known only at run time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from compiler.graph import AttrValue
from compiler.operators.elements.casting import CAST_NUMBERS
from compiler.operators.expansion.builder import Builder
from compiler.operators.expansion.composite import composite
from compiler.operators.expansion.parts import permuted, reshaped
from compiler.operators.record import Attribute, Call, Input, Output, rule
from compiler.operators.types import FLOAT, INT64, rank_within

from .heads import MASK, SCALE, as_rows, columns, scale_of

GROUP_QUERY = "com.microsoft.GroupQueryAttention"
_NOT_SUPPORTED = {
    11: "head_sink",
    12: "k_scale",
    13: "v_scale",
    14: "q_norm_weight",
    15: "k_norm_weight",
    16: "query_seqlens",
}
"""Operands of newer versions, by their positions."""


@dataclass(frozen=True)
class Sizes:
    """``most``: rows of the cache after the call; ``total``: rows of it that are used."""

    batch: int
    rows: int
    heads: int
    groups: int
    size: int
    total: int
    most: int

    @property
    def is_prompt(self) -> bool:
        """True if no rows precede the call's."""
        return self.total == self.rows


def _size(call: Call) -> int:
    """Return the number of elements of a head."""
    heads, groups = call.integer("num_heads"), call.integer("kv_num_heads")
    return call.shape(0)[2] // (heads if call.has(1) else heads + 2 * groups)


def _total(call: Call) -> int:
    value = call.value_ints(6)
    if value is None or len(value) != 1:
        return 0
    return value[0]


def sizes_of(call: Call) -> Sizes:
    batch, rows, _ = call.shape(0)
    total, past = _total(call), call.shape(3)[2] if call.has(3) else 0
    heads, groups = call.integer("num_heads"), call.integer("kv_num_heads")
    return Sizes(batch, rows, heads, groups, _size(call), total, max(total, past))


@rule
def heads_are_shared(call: Call) -> str | None:
    """num_heads must be a multiple of kv_num_heads; query [batch, rows, num_heads * size], key and value
    [batch, rows, kv_num_heads * size], or all three side by side in query"""
    heads, groups, size = call.integer("num_heads"), call.integer("kv_num_heads"), _size(call)
    wanted = [heads * size, groups * size, groups * size] if call.has(1) else [(heads + 2 * groups) * size]
    shapes = [call.shape(at) for at in range(3) if call.has(at)]
    fits = [shape[2:] for shape in shapes] == [(width,) for width in wanted]
    fits = fits and all(shape[:2] == call.shape(0)[:2] for shape in shapes) and heads % groups == 0
    found = " and ".join(str(list(shape)) for shape in shapes)
    return None if fits and call.has(1) == call.has(2) else f"{found}, {heads} and {groups} heads"


@rule
def cache_fits(call: Call) -> str | None:
    """past_key and past_value must both be [batch, kv_num_heads, rows, size]"""
    if not call.has(3) and not call.has(4):
        return None
    batch, groups, size = call.shape(0)[0], call.integer("kv_num_heads"), _size(call)
    shapes = [call.shape(at) if call.has(at) else () for at in (3, 4)]
    fits = shapes[0] == shapes[1] and len(shapes[0]) == 4
    fits = fits and (*shapes[0][:2], shapes[0][3]) == (batch, groups, size)
    return None if fits else " and ".join(str(list(shape)) for shape in shapes)


@rule
def total_length_fits(call: Call) -> str | None:
    """total_sequence_length must be one number, the rows of query and at most those of the cache before them,
    and seqlens_k [batch] or [batch, 1]"""
    total, (batch, rows, _), past = _total(call), call.shape(0), call.shape(3)[2] if call.has(3) else 0
    fits = rows <= total <= max(rows, past + rows) and call.shape(5) in ((batch,), (batch, 1))
    return None if fits else f"{total} with {rows} rows, {past} before, seqlens_k {list(call.shape(5))}"


@rule
def tables_with_rotation(call: Call) -> str | None:
    """cos_cache and sin_cache must be given with do_rotary 1, and be matrices of one shape"""
    if not call.integer("do_rotary"):
        return None
    shapes = [call.shape(at) if call.has(at) else () for at in (7, 8)]
    found = " and ".join(str(list(shape)) for shape in shapes)
    return None if shapes[0] == shapes[1] and len(shapes[0]) == 2 else found


@rule
def positions_of_rows(call: Call) -> str | None:
    """position_ids must be [batch, rows]"""
    fits = not call.has(9) or call.shape(9) == call.shape(0)[:2]
    return None if fits else f"{list(call.shape(9))}"


@rule
def bias_of_scores(call: Call) -> str | None:
    """attention_bias must be [batch or 1, num_heads or 1, rows, total_sequence_length]"""
    if not call.has(10):
        return None
    batch, rows, shape, total = *call.shape(0)[:2], call.shape(10), _total(call)
    fits = len(shape) == 4 and shape[0] in (1, batch) and shape[1] in (1, call.integer("num_heads"))
    return None if fits and shape[2:] == (rows, total) else f"{list(shape)} with {rows} x {total}"


@rule
def operands_of_newer_versions(call: Call) -> str | None:
    """head_sink, scales of quantised caches, norms of Q and K, and query_seqlens are not supported"""
    return next((f"{name} '{call.name(at)}'" for at, name in _NOT_SUPPORTED.items() if call.has(at)), None)


@rule
def window_is_causal(call: Call) -> str | None:
    """local_window_size must be 1 or more, and needs causal 1"""
    window = call.integer("local_window_size")
    fits = window == -1 or (window >= 1 and call.integer("causal"))
    return None if fits else f"{window} with causal {call.integer('causal')}"


@rule
def weights_are_not_given(call: Call) -> str | None:
    """The output output_qk is not supported; omit it"""
    return f"output '{call.outputs[3]}'" if call.wants(3) else None


# --- expansion -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Places:
    """Return the place of the first row of each sequence, [batch, 1] int64, and its value if it is a single
    constant."""

    first: str
    known: int | None


def _places(build: Builder, call: Call, sizes: Sizes) -> _Places:
    """Return the places of the first rows: the rows end at the last place of each sequence."""
    if sizes.is_prompt:
        return _Places(build.constant(np.zeros((sizes.batch, 1)), "int64"), 0)
    first = build("Sub", last_places(build, call, sizes), build.constant(np.array(sizes.rows - 1), "int64"))
    value = build.constants.get(first)
    known = None if value is None or (value != value.flat[0]).any() else int(value.flat[0])
    return _Places(first, known)


def last_places(build: Builder, call: Call, sizes: Sizes) -> str:
    """Return the place of the last row of each sequence, [batch, 1] int64, given by seqlens_k."""
    return reshaped(build, build("Cast", call.name(5), to=CAST_NUMBERS["int64"]), sizes.batch, 1)


def rotated(build: Builder, call: Call, x: str, sizes: Sizes, positions: str) -> str:
    """Rotate rows [batch, heads, rows, size] by their positions [batch, rows]."""
    turned = 2 * call.shape(7)[1]
    attrs: dict[str, AttrValue] = {
        "interleaved": call.integer("rotary_interleaved"),
        "rotary_embedding_dim": turned if turned < sizes.size else 0,
    }
    return build("RotaryEmbedding", x, call.name(7), call.name(8), positions, **attrs)


def _filled(build: Builder, x: str, rows: int) -> str:
    """Append zeros to rows [batch, groups, ..., size], up to ``rows`` in all."""
    batch, groups, found, size = build.shape(x)
    if found == rows:
        return x
    zeros = build.constant(np.zeros((batch, groups, rows - found, size)), build.dtype(x))
    return build("Concat", x, zeros, axis=2)


def _cache(build: Builder, new: str, past: str, sizes: Sizes, places: _Places) -> str:
    """Return the cache after the call: the rows before the first new one, the new rows, zeros."""
    if sizes.is_prompt:
        return _filled(build, new, sizes.most)
    if places.known is not None:
        ends = build.ints(places.known)
        kept = build("Slice", past, build.ints(0), ends, build.ints(2), build.ints(1))
        return _filled(build, build("Concat", kept, new, axis=2), sizes.most)
    first = reshaped(build, places.first, sizes.batch, 1, 1, 1)
    rows = build.constant(np.arange(sizes.most)[:, None], "int64")
    zero = build.like(new, 0.0)
    kept = build("Where", build("Less", rows, first), _filled(build, past, sizes.most), zero)
    if sizes.rows == 1:
        return build("Where", build("Equal", rows, first), new, kept)
    taken = build("Add", first, build.constant(np.arange(sizes.rows), "int64"))
    chosen = build("Cast", build("Equal", rows, taken), to=CAST_NUMBERS[build.dtype(new)])
    return build("Add", kept, build("MatMul", chosen, new))  # one factor of each sum is 1, the other is 0


def _attended(build: Builder, call: Call, operands: list[str], sizes: Sizes, places: _Places) -> str:
    """Expand Attention. The keys of a prompt are its own rows; other keys end with the last row."""
    mask = call.name(10)
    if mask and not sizes.is_prompt and sizes.most > sizes.total:
        shape = (*build.shape(mask)[:3], sizes.most - sizes.total)
        mask = build("Concat", mask, build.constant(np.zeros(shape), build.dtype(mask)), axis=3)
    if sizes.is_prompt:
        given = [*operands, *([mask] if mask else [])]
    else:
        ends = build("Add", places.first, build.constant(np.array(sizes.rows), "int64"))
        given = [*operands, mask, "", "", reshaped(build, ends, sizes.batch)]
    return build("Attention", *given, **attributes_of(call))


def attributes_of(call: Call) -> dict[str, AttrValue]:
    """Return the attributes of Attention."""
    attrs = {"is_causal": call.integer("causal"), "softcap": call.number("softcap"), **scale_of(call)}
    if call.integer("local_window_size") > 0:
        attrs["left_window_size"] = call.integer("local_window_size") - 1
    return attrs


def heads_of(build: Builder, call: Call, sizes: Sizes) -> tuple[str, ...]:
    """Return the rows of query, key and value, [batch, heads, rows, size] each."""
    counts = (sizes.heads, sizes.groups, sizes.groups)
    widths = [count * sizes.size for count in counts]
    parts = [call.name(at) for at in range(3)] if call.has(1) else columns(build, call.name(0), widths)
    return tuple(as_rows(build, x, count) for x, count in zip(parts, counts, strict=True))


def _attention(build: Builder, call: Call) -> tuple[str, ...]:
    sizes = sizes_of(call)
    q, k, v = heads_of(build, call, sizes)
    places = _places(build, call, sizes)
    if call.integer("do_rotary"):
        rows = build.constant(np.arange(sizes.rows), "int64")
        positions = call.name(9) or build("Add", places.first, rows)
        q, k = (rotated(build, call, x, sizes, positions) for x in (q, k))
    caches = [_cache(build, x, call.name(at), sizes, places) for x, at in ((k, 3), (v, 4))]
    operands = [q, k, v] if sizes.is_prompt else [q, *caches]
    return joined_heads(build, _attended(build, call, operands, sizes, places), sizes), *caches, ""


def joined_heads(build: Builder, y: str, sizes: Sizes) -> str:
    """Reshape a result [batch, heads, rows, size] to [batch, rows, heads * size]."""
    rows = permuted(build, y, 0, 2, 1, 3)
    return reshaped(build, rows, sizes.batch, sizes.rows, sizes.heads * sizes.size)


composite(
    name=GROUP_QUERY,
    since=1,
    summary="Attention of heads that share keys, over a cache of keys and values, with rotary embedding",
    inputs=(
        Input("query", FLOAT),
        Input("key", FLOAT, optional=True),
        Input("value", FLOAT, optional=True),
        Input("past_key", FLOAT, optional=True),
        Input("past_value", FLOAT, optional=True),
        Input("seqlens_k", MASK),
        Input("total_sequence_length", MASK, constant=True),
        Input("cos_cache", FLOAT, optional=True),
        Input("sin_cache", FLOAT, optional=True),
        Input("position_ids", INT64, optional=True),
        Input("attention_bias", FLOAT, optional=True),
        Input("head_sink", FLOAT, optional=True),
        Input("k_scale", FLOAT.named("T_KV_SCALE"), optional=True),
        Input("v_scale", FLOAT.named("T_KV_SCALE"), optional=True),
        Input("q_norm_weight", FLOAT, optional=True),
        Input("k_norm_weight", FLOAT, optional=True),
        Input("query_seqlens", MASK, optional=True),
    ),
    outputs=(
        Output("output", FLOAT),
        Output("present_key", FLOAT, optional=True),
        Output("present_value", FLOAT, optional=True),
        Output("output_qk", FLOAT, optional=True),
    ),
    expansion=_attention,
    attributes=(
        Attribute("causal", "int", 1, allowed=(0, 1)),
        Attribute("do_rotary", "int", 0, allowed=(0, 1)),
        Attribute("k_norm_epsilon", "float"),
        Attribute("k_quant_type", "string", "NONE", allowed=("NONE",)),
        Attribute("kv_cache_bit_width", "int", 0, allowed=(0,)),
        Attribute("kv_num_heads", "int", required=True, minimum=1),
        Attribute("local_window_size", "int", -1),
        Attribute("num_heads", "int", required=True, minimum=1),
        Attribute("q_norm_epsilon", "float"),
        Attribute("qk_norm_epsilon", "float", 1e-6),
        Attribute("qk_output", "int", 0, allowed=(0,)),
        Attribute("rotary_interleaved", "int", 0, allowed=(0, 1)),
        SCALE,
        Attribute("sliding_window_cache", "int", 0, allowed=(0,)),
        Attribute("smooth_softmax", "int", -1, allowed=(-1, 0)),
        Attribute("softcap", "float", 0.0),
        Attribute("v_quant_type", "string", "NONE", allowed=("NONE",)),
    ),
    rules=(
        rank_within("query", 3, 3, "[batch, rows, columns]"),
        heads_are_shared,
        operands_of_newer_versions,
        cache_fits,
        total_length_fits,
        tables_with_rotation,
        positions_of_rows,
        bias_of_scores,
        window_is_causal,
        weights_are_not_given,
    ),
)
