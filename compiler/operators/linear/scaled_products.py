"""The operator Attention of ONNX, expanded into the operators that exporters use without it.

A rewrite then makes one phase of it, as for graphs of these exporters. Only masks and rows without any key
need a special case: the result of such a row is 0.
"""

from __future__ import annotations

from functools import partial, reduce

import numpy as np

from compiler.graph import Shape
from compiler.operators.elements.casting import CAST_NUMBERS
from compiler.operators.expansion.builder import Builder
from compiler.operators.expansion.composite import composite
from compiler.operators.expansion.parts import broadcast, permuted, reshaped
from compiler.operators.record import Attribute, Call, Input, Output, Types, rule
from compiler.operators.types import FLOAT, INT64, broadcast_shapes

_VALUES = FLOAT.named("T2")
_MASK = Types("U", (*FLOAT.allowed, "bool"))
_COUNTED = ("Q", "K", "V")
_HEADS = ("q_num_heads", "kv_num_heads", "kv_num_heads")
_SCORES, _CAPPED, _MASKED, _WEIGHTS = range(4)
"""Values of ``qk_matmul_output_mode``: the scores that become the output."""


def _heads(call: Call, index: int) -> Shape:
    """Return the shape of Q, K or V as [batch, heads, rows, channels]."""
    shape = call.shape(index)
    if len(shape) == 4:
        return shape
    count = call.integer(_HEADS[index])
    return shape[0], count, shape[1], shape[2] // count


def _past(call: Call) -> int:
    """Return the number of keys before K."""
    return call.shape(4)[2] if call.has(4) else 0


def _scores(call: Call) -> Shape:
    """Return the shape [batch, heads, queries, keys] of the scores."""
    batch, heads, rows, _ = _heads(call, 0)
    return batch, heads, rows, _past(call) + _heads(call, 1)[2]


# --- rules -----------------------------------------------------------------------------------------------


@rule
def ranks_agree(call: Call) -> str | None:
    """Q, K and V must all be [batch, heads, rows, channels], or all [batch, rows, channels]"""
    ranks = [call.tensor(index).rank for index in range(3)]
    return None if ranks in ([3] * 3, [4] * 3) else str([list(call.shape(index)) for index in range(3)])


@rule
def heads_are_counted(call: Call) -> str | None:
    """With operands of rank 3, q_num_heads and kv_num_heads must be given, and divide the channels"""
    if call.tensor(0).rank == 4:
        return None
    for index, name in enumerate(_HEADS):
        count, channels = call.attrs.get(name), call.shape(index)[2]
        if not isinstance(count, int) or channels % count:
            return f"{name} {count} with {_COUNTED[index]} {list(call.shape(index))}"
    return None


@rule
def heads_share_keys(call: Call) -> str | None:
    """Q must have the heads of K and V or a multiple, its batch, the channels of K; V has the rows of K"""
    q, k, v = (_heads(call, index) for index in range(3))
    fits = q[0] == k[0] == v[0] and k[1] == v[1] and q[1] % k[1] == 0 and q[3] == k[3] and k[2] == v[2]
    return None if fits else f"{list(q)}, {list(k)} and {list(v)}"


@rule
def past_comes_in_pairs(call: Call) -> str | None:
    """past_key and past_value must be given together, [batch, heads, rows, channels] as K and V"""
    if not call.has(4) and not call.has(5):
        return None
    shapes = [call.shape(index) if call.has(index) else () for index in (4, 5)]
    wanted = [_heads(call, index) for index in (1, 2)]
    fits = all(
        len(one) == 4 and (one[:2], one[3]) == (other[:2], other[3])
        for one, other in zip(shapes, wanted, strict=True)
    )
    return None if fits and shapes[0][2] == shapes[1][2] else " and ".join(str(list(one)) for one in shapes)


@rule
def lengths_are_of_one_cache(call: Call) -> str | None:
    """nonpad_kv_seqlen must have a number for each of the batch, and excludes past_key and past_value"""
    if not call.has(6):
        return None
    if call.has(4):
        return "past_key as well"
    return None if call.shape(6) == call.shape(0)[:1] else f"shape {list(call.shape(6))}"


@rule
def mask_fits(call: Call) -> str | None:
    """attn_mask must broadcast to [batch, heads, queries, keys]; its last axis may be shorter"""
    if not call.has(3):
        return None
    shape, scores = call.shape(3), _scores(call)
    short = len(shape) > 0 and 1 < shape[-1] < scores[-1]
    full = (*shape[:-1], scores[-1]) if short else shape
    return None if broadcast_shapes(full, scores) == scores else f"{list(shape)} with {list(scores)}"


# --- expansion -------------------------------------------------------------------------------------------


def _attention(build: Builder, call: Call) -> tuple[str, ...]:
    q, k, v = (_operand(build, call, index) for index in range(3))
    if call.has(4):
        k, v = (build("Concat", call.name(4 + at), x, axis=2) for at, x in enumerate((k, v)))
    scale = call.attrs.get("scale")
    factor = float(scale) if isinstance(scale, int | float) else build.shape(q)[-1] ** -0.5
    keys, values = (_for_queries(build, x, build.shape(q)[1]) for x in (k, _cast(build, v, build.dtype(q))))
    scores = build("MatMul", build("Mul", q, build.like(q, factor)), permuted(build, keys, 0, 1, 3, 2))
    steps = [scores, _capped(build, scores, call.number("softcap"))]
    mask = _mask(build, call, build.dtype(q))
    steps.append(steps[-1] if mask is None else build("Add", steps[-1], mask))
    steps.append(_weights(build, steps[-1], mask))
    result = build("MatMul", steps[_WEIGHTS], values)
    if call.tensor(0).rank == 3:
        batch, heads, rows, channels = build.shape(result)
        result = reshaped(build, permuted(build, result, 0, 2, 1, 3), batch, rows, heads * channels)
    return result, k, v, steps[call.integer("qk_matmul_output_mode")]


def _operand(build: Builder, call: Call, index: int) -> str:
    """Return Q, K or V with an axis of heads before the rows."""
    batch, heads, rows, channels = _heads(call, index)
    if call.tensor(index).rank == 4:
        return call.name(index)
    return permuted(build, reshaped(build, call.name(index), batch, rows, heads, channels), 0, 2, 1, 3)


def _for_queries(build: Builder, x: str, heads: int) -> str:
    """Repeat each head of K or V for the heads of queries that share it."""
    batch, groups, *matrix = build.shape(x)
    if groups == heads:
        return x
    apart = reshaped(build, x, batch, groups, 1, *matrix)
    return reshaped(
        build, broadcast(build, apart, (batch, groups, heads // groups, *matrix)), batch, heads, *matrix
    )


def _capped(build: Builder, scores: str, cap: float) -> str:
    """Limit scores to ``cap``; 0 is no limit."""
    if cap == 0:
        return scores
    inner = build("Tanh", build("Mul", scores, build.like(scores, 1 / cap)))
    return build("Mul", inner, build.like(scores, cap))


def _mask(build: Builder, call: Call, dtype: str) -> str | None:
    """Return the mask that is added to the scores; None if there is none."""
    conditions, added = _conditions(build, call), []
    if call.has(3):
        given = _to_all_keys(build, call.name(3), _scores(call)[-1])
        if build.dtype(given) == "bool":
            conditions.insert(0, given)
        else:
            added.append(_cast(build, given, dtype))
    if conditions:
        seen, least = reduce(partial(build, "And"), conditions), build.constant(np.array(-np.inf), dtype)
        added.append(build("Where", seen, build.constant(np.array(0.0), dtype), least))
    return reduce(partial(build, "Add"), added) if added else None


def _to_all_keys(build: Builder, mask: str, keys: int) -> str:
    """Extend a mask to all keys; keys beyond its last one are hidden."""
    shape = build.shape(mask)
    if not shape or shape[-1] in (1, keys):
        return mask
    missing, dtype = (*shape[:-1], keys - shape[-1]), build.dtype(mask)
    hidden = np.full(missing, False if dtype == "bool" else -np.inf)
    return build("Concat", mask, build.constant(hidden, dtype), axis=-1)


def _window(call: Call) -> tuple[int | None, int | None]:
    """Return the numbers of keys before and after its own that a query sees; None means all."""
    left, right = (call.attrs.get(f"{side}_window_size", -1) for side in ("left", "right"))
    bounds = [int(size) if isinstance(size, int) and size >= 0 else None for size in (left, right)]
    return bounds[0], 0 if call.integer("is_causal") else bounds[1]


def _conditions(build: Builder, call: Call) -> list[str]:
    """Return truth values that broadcast to the scores: the keys that a query sees by its place."""
    rows, keys = _scores(call)[2:]
    left, right = _window(call)
    after = np.arange(keys) - np.arange(rows)[:, None]  # key 0 belongs to query 0
    if not call.has(6):
        lowest = -rows if left is None else _past(call) - left
        seen = (after >= lowest) & (after <= (keys if right is None else _past(call) + right))
        return [] if seen.all() else [build.constant(seen, "bool")]
    lengths = reshaped(build, call.name(6), -1, 1, 1, 1)  # the last query has the last key of all
    conditions = [build("Less", build.constant(np.arange(keys), "int64"), lengths)]
    if right is not None:
        conditions.append(build("Less", build.constant(after + rows - 1 - right, "int64"), lengths))
    if left is not None:
        conditions.append(build("Less", lengths, build.constant(after + rows + 1 + left, "int64")))
    return conditions


def _weights(build: Builder, scores: str, mask: str | None) -> str:
    """Return the softmax of the scores; 0 in a row whose keys the mask hides entirely."""
    weights = build("Softmax", scores, axis=-1)
    known = build.constants.get(mask) if mask is not None else None
    if mask is None or (known is not None and np.all(known.max(-1) > -np.inf)):
        return weights
    least = build("ReduceMax", mask, axes=(-1,), keepdims=1)
    empty = build("Equal", least, build.like(least, -np.inf))
    return build("Where", empty, build.like(weights, 0.0), weights)


def _cast(build: Builder, value: str, dtype: str) -> str:
    return value if build.dtype(value) == dtype else build("Cast", value, to=CAST_NUMBERS[dtype])


def _of_heads(call: Call, axis: int) -> bool:
    """Return True along the batch, and along heads that have an axis of their own."""
    return axis < (2 if call.tensor(0).rank == 4 else 1)


composite(
    name="Attention",
    since=23,
    summary="softmax(Q K' scale + mask) V of heads, with the keys and values of earlier calls",
    inputs=(
        Input("Q", FLOAT),
        Input("K", FLOAT),
        Input("V", _VALUES),
        Input("attn_mask", _MASK, optional=True),
        Input("past_key", FLOAT, optional=True),
        Input("past_value", _VALUES, optional=True),
        Input("nonpad_kv_seqlen", INT64, optional=True, since=24),
    ),
    outputs=(
        Output("Y", FLOAT),
        Output("present_key", FLOAT, optional=True),
        Output("present_value", _VALUES, optional=True),
        Output("qk_matmul_output", FLOAT, optional=True),
    ),
    expansion=_attention,
    attributes=(
        Attribute("is_causal", "int", 0, allowed=(0, 1)),
        Attribute("kv_num_heads", "int", minimum=1),
        Attribute("left_window_size", "int", -1, minimum=-1, since=25),
        Attribute("q_num_heads", "int", minimum=1),
        Attribute("qk_matmul_output_mode", "int", 0, allowed=(0, 1, 2, 3)),
        Attribute("right_window_size", "int", -1, minimum=-1, since=25),
        Attribute("scale", "float"),
        Attribute("softcap", "float", 0.0),
        Attribute("softmax_precision", "int", allowed=(1, 10, 11, 16)),
    ),
    rules=(
        ranks_agree,
        heads_are_counted,
        heads_share_keys,
        past_comes_in_pairs,
        lengths_are_of_one_cache,
        mask_fits,
    ),
    written_out=True,
    uniform=_of_heads,
)
