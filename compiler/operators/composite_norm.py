"""Composite normalizations, and rotary embedding."""

from __future__ import annotations

import math

import numpy as np

from compiler.operators.composite_shapes import _operator, name_of
from compiler.operators.expansion import Builder
from compiler.operators.parts import averaged, broadcast, normalized, permuted, reshaped, swapped
from compiler.operators.record import Attribute, Call, Input, Output, Types, rule
from compiler.operators.types import (
    FLOAT,
    rank_within,
)

_EPSILON = Attribute("epsilon", "float", 1e-5)
_STASH = Attribute("stash_type", "int", 1)


def _scaled(b: Builder, x: str, scale: str, shift: str, rank: int) -> str:
    """x * scale + shift, one value of each per channel (axis 1)."""
    ones = (1,) * (rank - 2)
    scale, shift = (reshaped(b, name, *b.shape(name), *ones) for name in (scale, shift))
    return b("Add", b("Mul", x, scale), shift)


def _instance(b: Builder, call: Call) -> tuple[str, ...]:
    rank = call.tensor(0).rank
    x = normalized(b, name_of(call, 0), tuple(range(2, rank)), call.number("epsilon"))[0]
    return (_scaled(b, x, name_of(call, 1), name_of(call, 2), rank),)


_operator(
    "InstanceNormalization",
    6,
    "Every channel of every image brought to mean 0 and variance 1, scaled and shifted",
    (Input("input", FLOAT), Input("scale", FLOAT), Input("B", FLOAT)),
    (Output("output", FLOAT),),
    _instance,
    (_EPSILON,),
    (rank_within("input", 3, None, "[N, C, ...]"),),
)


def _group(b: Builder, call: Call) -> tuple[str, ...]:
    shape, groups, x = call.shape(0), call.integer("num_groups"), name_of(call, 0)
    flat = reshaped(b, x, shape[0], groups, math.prod(shape[1:]) // groups)
    even = reshaped(b, normalized(b, flat, (2,), call.number("epsilon"))[0], *shape)
    scale, shift = name_of(call, 1), name_of(call, 2)
    if call.opset < 21:  # one value per group
        scale, shift = (
            reshaped(b, broadcast(b, reshaped(b, n, groups, 1), (groups, shape[1] // groups)), shape[1])
            for n in (scale, shift)
        )
    return (_scaled(b, even, scale, shift, len(shape)),)


@rule
def groups_divide_channels(call: Call) -> str | None:
    """The channels must be a multiple of num_groups"""
    channels, groups = call.shape(0)[1], call.integer("num_groups")
    return f"{channels} channels, {groups} groups" if channels % groups else None


_operator(
    "GroupNormalization",
    18,
    "Every group of channels brought to mean 0 and variance 1, scaled and shifted",
    (Input("X", FLOAT), Input("scale", FLOAT), Input("bias", FLOAT)),
    (Output("Y", FLOAT),),
    _group,
    (
        Attribute("num_groups", "int", required=True, minimum=1),
        _EPSILON,
        Attribute("stash_type", "int", 1, since=21),
    ),
    (rank_within("X", 3, None, "[N, C, ...]"), groups_divide_channels),
)


def _mean_variance(b: Builder, call: Call) -> tuple[str, ...]:
    x, axes = name_of(call, 0), call.integers("axes") or ()
    mean = averaged(b, x, axes)
    centred = b("Sub", x, mean)
    deviation = b("Sqrt", averaged(b, b("Mul", centred, centred), axes))
    return (b("Div", centred, b("Add", deviation, b.like(x, 1e-9))),)


_operator(
    "MeanVarianceNormalization",
    13,
    "(x - mean) / deviation over axes",
    (Input("X", FLOAT),),
    (Output("Y", FLOAT),),
    _mean_variance,
    (Attribute("axes", "ints", (0, 2, 3)),),
)


@rule
def channels_are_few(call: Call) -> str | None:
    """There must be at most 8192 channels: which ones are neighbours is a matrix"""
    return None if call.shape(0)[1] <= 8192 else f"X {list(call.shape(0))}"


def _lrn(b: Builder, call: Call) -> tuple[str, ...]:
    """The sum of squares over neighbouring channels is a product with a band matrix."""
    x, shape, size = name_of(call, 0), call.shape(0), call.integer("size")
    channels = np.arange(shape[1])
    distance = channels[:, None] - channels[None, :]
    band = (-((size - 1) // 2) <= distance) & (distance <= size - 1 - (size - 1) // 2)
    squares = swapped(b, b("Mul", x, x), 1)
    factor = call.number("alpha") / size
    total = swapped(b, b("MatMul", squares, b.constant(band * factor, b.dtype(x))), 1)
    return (
        b(
            "Div",
            x,
            b("FloatPow", b("Add", total, b.like(x, call.number("bias"))), b.like(x, call.number("beta"))),
        ),
    )


_operator(
    "LRN",
    1,
    "The operand divided by a power of the sum of squares over neighbouring channels",
    (Input("X", FLOAT),),
    (Output("Y", FLOAT),),
    _lrn,
    (
        Attribute("alpha", "float", 1e-4),
        Attribute("beta", "float", 0.75),
        Attribute("bias", "float", 1.0),
        Attribute("size", "int", required=True, minimum=1),
    ),
    (rank_within("X", 3, None, "[N, C, ...]"), channels_are_few),
)


def _global_max(b: Builder, call: Call) -> tuple[str, ...]:
    return (b("ReduceMax", name_of(call, 0), axes=tuple(range(2, call.tensor(0).rank))),)


_operator(
    "GlobalMaxPool",
    1,
    "The largest of all positions of each channel",
    (Input("X", FLOAT),),
    (Output("Y", FLOAT),),
    _global_max,
    rules=(rank_within("X", 3, None, "[N, C, ...]"),),
)


def _rotary(b: Builder, call: Call) -> tuple[str, ...]:
    """Pairs of features turned by an angle; x of [B, H, S, D] or [B, S, H * D]."""
    x, flat = name_of(call, 0), call.tensor(0).rank == 3
    if flat:
        batch, length, hidden = call.shape(0)
        heads = call.integer("num_heads")
        x = permuted(b, reshaped(b, x, batch, length, heads, hidden // heads), 0, 2, 1, 3)
    batch, heads, length, size = b.shape(x)
    turned = call.integer("rotary_embedding_dim") or size
    caches = [name_of(call, 1), name_of(call, 2)]
    if call.has(3):
        caches = [b("Gather", cache, name_of(call, 3), axis=0) for cache in caches]
    cosine, sine = (reshaped(b, cache, batch, 1, length, turned // 2) for cache in caches)
    head = b("Slice", x, b.ints(0), b.ints(turned), b.ints(3))
    interleaved = call.integer("interleaved")
    if interleaved:
        apart = reshaped(b, head, batch, heads, length, turned // 2, 2)
        halves = [
            reshaped(
                b, b("Slice", apart, b.ints(i), b.ints(i + 1), b.ints(4)), batch, heads, length, turned // 2
            )
            for i in (0, 1)
        ]
    else:
        halves = [
            b("Slice", head, b.ints(i * turned // 2), b.ints((i + 1) * turned // 2), b.ints(3))
            for i in (0, 1)
        ]
    real = b("Sub", b("Mul", cosine, halves[0]), b("Mul", sine, halves[1]))
    imaginary = b("Add", b("Mul", sine, halves[0]), b("Mul", cosine, halves[1]))
    if interleaved:
        wide = [reshaped(b, part, batch, heads, length, turned // 2, 1) for part in (real, imaginary)]
        result = reshaped(b, b("Concat", *wide, axis=4), batch, heads, length, turned)
    else:
        result = b("Concat", real, imaginary, axis=3)
    if turned < size:
        result = b("Concat", result, b("Slice", x, b.ints(turned), b.ints(size), b.ints(3)), axis=3)
    if flat:
        result = reshaped(b, permuted(b, result, 0, 2, 1, 3), *call.shape(0))
    return (result,)


@rule
def heads_given(call: Call) -> str | None:
    """num_heads must be given for X of rank 3"""
    return "num_heads absent" if call.tensor(0).rank == 3 and not call.attrs.get("num_heads") else None


_operator(
    "RotaryEmbedding",
    23,
    "Pairs of features turned by angles that depend on the position",
    (
        Input("X", FLOAT),
        Input("cos_cache", FLOAT),
        Input("sin_cache", FLOAT),
        Input("position_ids", Types("M", ("int64",)), optional=True),
    ),
    (Output("Y", FLOAT),),
    _rotary,
    (
        Attribute("interleaved", "int", 0, allowed=(0, 1)),
        Attribute("num_heads", "int"),
        Attribute("rotary_embedding_dim", "int", 0),
    ),
    (rank_within("X", 3, 4, "[B, S, H D] or [B, H, S, D]"), heads_given),
)
