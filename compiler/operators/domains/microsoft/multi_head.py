"""MultiHeadAttention of onnxruntime: attention of projected rows, which may be packed into one operand."""

from __future__ import annotations

from compiler.operators.expansion.builder import Builder
from compiler.operators.expansion.composite import composite
from compiler.operators.expansion.parts import permuted, reshaped, sliced
from compiler.operators.record import Call, Input, Output, rule
from compiler.operators.types import FLOAT

from .heads import (
    CAUSAL,
    FILTER,
    HEADS,
    MASK,
    SCALE,
    AttentionOperands,
    as_rows,
    before,
    columns,
    hidden,
    is_positive,
    scale_of,
)

_RANKS = {(3, 3, 3), (3, 4, 4), (3, 5, 0), (5, 0, 0)}
"""Supported ranks of query, key and value, 0 for one that is omitted."""


def _packed_in(call: Call) -> int | None:
    """Return the position of the operand that packs several of Q, K and V; None if there is none."""
    return next((at for at in range(2) if call.has(at) and call.tensor(at).rank == 5), None)


@rule
def operands_are_known(call: Call) -> str | None:
    """query must be [batch, rows, columns], key and value the same or [batch, num_heads, rows, size], or key
    both, [batch, rows, num_heads, 2, size]; or query is all three, [batch, rows, num_heads, 3, size]"""
    shapes = [call.shape(at) if call.has(at) else () for at in range(3)]
    found = " and ".join(str(list(shape)) for shape in shapes if shape)
    if tuple(map(len, shapes)) not in _RANKS:
        return found
    heads, packed = call.integer("num_heads"), _packed_in(call)
    fits = all(shape[2] % heads == 0 for shape in shapes if len(shape) == 3)
    fits = fits and all(shape[1] == heads for shape in shapes if len(shape) == 4)
    if packed is not None:
        fits = fits and shapes[packed][2:4] == (heads, 3 - packed)
    return None if fits else f"{found} with num_heads {heads}"


@rule
def bias_fits(call: Call) -> str | None:
    """bias must have an element for each column of Q, K and V"""
    if not call.has(3):
        return None
    wanted = sum(_widths(call))
    return None if call.shape(3) == (wanted,) else f"{list(call.shape(3))} with {wanted} columns"


@rule
def caches_are_plain(call: Call) -> str | None:
    """past_sequence_length and cache_indirection, of buffers that calls share, are not supported"""
    return next((f"'{call.name(at)}'" for at in (8, 9) if call.has(at)), None)


@rule
def padding_fits(call: Call) -> str | None:
    """key_padding_mask must be [batch], [batch, keys] or [batch, rows, keys]"""
    if not call.has(4):
        return None
    (batch, rows), keys, shape = call.shape(0)[:2], _keys(call), call.shape(4)
    allowed = ((batch,), (batch, keys), (batch, rows, keys))
    return None if shape in allowed else f"{list(shape)} with {batch} x {rows} x {keys}"


def _keys(call: Call) -> int:
    """Return the number of keys that a query sees, earlier calls included."""
    past = call.shape(6)[2] if call.has(6) and call.tensor(6).rank == 4 else 0
    source = call.shape(1) if call.has(1) else call.shape(0)
    return past + (source[2] if len(source) == 4 else source[1])


def _widths(call: Call) -> tuple[int, int, int]:
    """Return the numbers of columns of Q, K and V."""
    heads, widths = call.integer("num_heads"), []
    for at in range(3):
        shape = call.shape(at) if call.has(at) else call.shape(_packed_in(call) or 0)
        widths.append(shape[2] if len(shape) == 3 else heads * shape[-1])
    return widths[0], widths[1], widths[2]


def _operands(build: Builder, call: Call) -> list[str]:
    """Return Q, K and V separately, with their biases; keys of four axes have no bias."""
    packed = _packed_in(call)
    parts = [call.name(at) for at in range(3 if packed is None else packed)]
    if packed is not None:
        source = call.name(packed)
        batch, rows, heads, count, size = build.shape(source)
        for at in range(count):
            parts.append(reshaped(build, sliced(build, source, 3, at, at + 1), batch, rows, heads * size))
    if not call.has(3):
        return parts
    biases = columns(build, call.name(3), _widths(call))
    return [
        build("Add", part, bias) if len(build.shape(part)) == 3 else part
        for part, bias in zip(parts, biases, strict=True)
    ]


def _masks(build: Builder, call: Call) -> tuple[str, ...]:
    """Return the mask that is added to the scores."""
    masks, dtype = [], call.tensor(0).dtype
    if call.has(4):
        (batch, rows), keys, rank = call.shape(0)[:2], _keys(call), call.tensor(4).rank
        if rank == 1:
            seen = before(build, call.name(4), keys)
        else:
            mask = reshaped(build, call.name(4), batch, 1, rows if rank == 3 else 1, keys)
            seen = is_positive(build, mask)
        masks.append(hidden(build, call, seen, dtype))
    return (*masks, call.name(5)) if call.has(5) else tuple(masks)


def _attention(build: Builder, call: Call) -> tuple[str, ...]:
    q, k, v = _operands(build, call)
    heads = call.integer("num_heads")
    split = len(build.shape(k)) == 4
    if split:
        q = as_rows(build, q, heads)
    past = (call.name(6), call.name(7))
    operands = AttentionOperands(q, k, v, heads, _masks(build, call), past)
    wanted = 3 if call.wants(1) or call.wants(2) else 1
    attrs = {"is_causal": call.integer("unidirectional"), **scale_of(call)}
    y, *present = operands.result(build, wanted, **attrs)
    if split:
        batch, _, rows, size = build.shape(y)
        y = reshaped(build, permuted(build, y, 0, 2, 1, 3), batch, rows, heads * size)
    return (y, *present, *[""] * (2 - len(present)))


@rule
def scores_are_not_given(call: Call) -> str | None:
    """The output qk is not supported; omit it"""
    return f"output '{call.outputs[3]}'" if call.wants(3) else None


composite(
    name="com.microsoft.MultiHeadAttention",
    since=1,
    summary="Attention of projected rows, with their biases, masks and the keys and values of earlier calls",
    inputs=(
        Input("query", FLOAT),
        Input("key", FLOAT, optional=True),
        Input("value", FLOAT, optional=True),
        Input("bias", FLOAT, optional=True),
        Input("key_padding_mask", MASK, optional=True),
        Input("attention_bias", FLOAT, optional=True),
        Input("past_key", FLOAT, optional=True),
        Input("past_value", FLOAT, optional=True),
        Input("past_sequence_length", MASK, optional=True),
        Input("cache_indirection", MASK, optional=True),
    ),
    outputs=(
        Output("output", FLOAT),
        Output("present_key", FLOAT, optional=True),
        Output("present_value", FLOAT, optional=True),
        Output("qk", FLOAT.named("QK"), optional=True),
    ),
    expansion=_attention,
    attributes=(FILTER, HEADS, SCALE, CAUSAL),
    rules=(operands_are_known, bias_fits, caches_are_plain, padding_fits, scores_are_not_given),
)
