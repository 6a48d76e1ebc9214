"""Attention of onnxruntime, which includes the projection of its input; QAttention has it in bytes."""

from __future__ import annotations

from compiler.operators.expansion.builder import Builder
from compiler.operators.expansion.composite import composite
from compiler.operators.expansion.parts import reshaped, sliced
from compiler.operators.record import Attribute, Call, Input, Output, Rule, Types, rule
from compiler.operators.types import BYTES, FLOAT, rank_within

from .bytes import one_value_each
from .heads import (
    CAUSAL,
    FILTER,
    HEADS,
    MASK,
    SCALE,
    AttentionOperands,
    before,
    columns,
    halves_of,
    hidden,
    is_positive,
    scale_of,
    together,
)

_SHARED = Attribute("past_present_share_buffer", "int", 0, allowed=(0,))
_UNTURNED = Attribute("do_rotary", "int", 0, allowed=(0,))


def _widths(call: Call) -> tuple[int, ...]:
    """Return the numbers of columns of Q, K and V in the merged weights."""
    return call.integers("qkv_hidden_sizes") or (call.shape(1)[1] // 3,) * 3


@rule
def projection_fits(call: Call) -> str | None:
    """The weights must be [columns of input, columns of Q, K and V], each a multiple of num_heads"""
    heads, shape = call.integer("num_heads"), call.shape(1)
    found = f"input {list(call.shape(0))}, weights {list(shape)}, {heads} heads"
    if len(shape) != 2 or shape[0] != call.shape(0)[2]:
        return found
    widths = _widths(call)
    fits = (
        len(widths) == 3
        and sum(widths) == shape[1]
        and widths[0] == widths[1]
        and not any(width % heads for width in widths)
    )
    return None if fits else found


def mask_known(at: int) -> Rule:
    """Make the rule that a mask has one of the forms that :func:`added_mask` knows."""

    def check(call: Call) -> str | None:
        if not call.has(at):
            return None
        batch, rows, past = call.shape(0)[0], call.shape(0)[1], _past_rows(call)
        keys, shape = rows + past, call.shape(at)
        allowed = ((batch,), (2 * batch,), (batch, keys), (batch, rows, keys))
        return None if shape in allowed else f"{list(shape)} with {batch} x {rows} x {keys}"

    text = "must be [batch], [2 batch] (ends, then beginnings), [batch, keys] or [batch, rows, keys]"
    return Rule(f"mask_index {text}", check)


def _past_at(call: Call) -> int:
    """Return the position of the operand ``past``: QAttention has quantisation before it."""
    return 4 if call.tensor(0).is_float else 8


def _past_rows(call: Call) -> int:
    at = _past_at(call)
    return call.shape(at)[3] if call.has(at) and call.tensor(at).rank == 5 else 0


@rule
def past_fits(call: Call) -> str | None:
    """past must be [2, batch, num_heads, rows, size of a head]; K and V then have heads of one size"""
    at, widths, heads = _past_at(call), _widths(call), call.integer("num_heads")
    if not call.has(at):
        return None
    shape, size = call.shape(at), widths[0] // heads
    fits = len(shape) == 5 and (*shape[:3], shape[4]) == (2, call.shape(0)[0], heads, size)
    return None if fits and widths[1] == widths[2] else f"{list(shape)}"


@rule
def length_of_past(call: Call) -> str | None:
    """past_sequence_length belongs to buffers that past and present share, which are not supported"""
    return f"'{call.name(6)}'" if call.has(6) else None


def added_mask(build: Builder, call: Call, mask: str, rows: int, keys: int, dtype: str) -> str:
    """Return the addend of the scores for a mask: [batch, 1, rows or 1, keys]."""
    shape, batch = build.shape(mask), call.shape(0)[0]
    if len(shape) == 1:
        seen = before(build, sliced(build, mask, 0, 0, batch), keys)
        if shape[0] == 2 * batch:
            early = before(build, sliced(build, mask, 0, batch, 2 * batch), keys)
            seen = build("And", seen, build("Not", early))
        return hidden(build, call, seen, dtype)
    mask = reshaped(build, mask, batch, 1, rows if len(shape) == 3 else 1, keys)
    return hidden(build, call, is_positive(build, mask), dtype)


def _attended(build: Builder, call: Call, projected: str, mask: int, bias: int | None) -> tuple[str, ...]:
    """Attend from projected rows [batch, rows, columns of Q, K and V]; return the result, keys and values."""
    q, k, v = columns(build, projected, _widths(call))
    rows, at = call.shape(0)[1], _past_at(call)
    masks, dtype = [], build.dtype(projected)
    if call.has(mask):
        masks.append(added_mask(build, call, call.name(mask), rows, rows + _past_rows(call), dtype))
    if bias is not None and call.has(bias):
        masks.append(call.name(bias))
    past = halves_of(build, call.name(at)) if call.has(at) else ("", "")
    operands = AttentionOperands(q, k, v, call.integer("num_heads"), tuple(masks), past)
    attrs = {"is_causal": call.integer("unidirectional"), **scale_of(call)}
    if not call.wants(1):
        return *operands.result(build, 1, **attrs), ""
    y, keys, values = operands.result(build, 3, **attrs)
    return y, together(build, keys, values)


def _attention(build: Builder, call: Call) -> tuple[str, ...]:
    projected = build("MatMul", call.name(0), call.name(1))
    if call.has(2):
        projected = build("Add", projected, call.name(2))
    return _attended(build, call, projected, 3, 5)


composite(
    name="com.microsoft.Attention",
    since=1,
    summary="Attention of the rows of the input, projected to Q, K and V by merged weights",
    inputs=(
        Input("input", FLOAT),
        Input("weights", FLOAT),
        Input("bias", FLOAT, optional=True),
        Input("mask_index", MASK, optional=True),
        Input("past", FLOAT, optional=True),
        Input("attention_bias", FLOAT, optional=True),
        Input("past_sequence_length", MASK, optional=True),
    ),
    outputs=(Output("output", FLOAT), Output("present", FLOAT, optional=True)),
    expansion=_attention,
    attributes=(
        _UNTURNED,
        FILTER,
        HEADS,
        _SHARED,
        Attribute("qkv_hidden_sizes", "ints", minimum=1),
        Attribute("rotary_embedding_dim", "int", 0, allowed=(0,)),
        SCALE,
        CAUSAL,
    ),
    rules=(
        rank_within("input", 3, 3, "[batch, rows, columns]"),
        projection_fits,
        past_fits,
        mask_known(3),
        length_of_past,
    ),
)

_X, _W, _F = Types("T1", BYTES), Types("T2", BYTES), Types("T3", ("float32",))


def _quantised(build: Builder, call: Call) -> tuple[str, ...]:
    names = (0, 1, 3, 4, 6, 7, 2)
    operands = [call.name(at) for at in names]
    projected = build("com.microsoft.MatMulIntegerToFloat", *operands)
    return _attended(build, call, projected, 5, None)


composite(
    name="com.microsoft.QAttention",
    since=1,
    summary="Attention of quantised rows, projected to Q, K and V by quantised merged weights",
    inputs=(
        Input("input", _X),
        Input("weight", _W),
        Input("bias", _F),
        Input("input_scale", _F),
        Input("weight_scale", _F),
        Input("mask_index", Types("T4", ("int32",)), optional=True),
        Input("input_zero_point", _X, optional=True),
        Input("weight_zero_point", _W, optional=True),
        Input("past", _F, optional=True),
    ),
    outputs=(Output("output", _F), Output("present", _F, optional=True)),
    expansion=_quantised,
    attributes=(_UNTURNED, FILTER, HEADS, _SHARED, SCALE, CAUSAL),
    rules=(
        rank_within("input", 3, 3, "[batch, rows, columns]"),
        projection_fits,
        past_fits,
        mask_known(5),
        one_value_each(3, 6),
    ),
)
