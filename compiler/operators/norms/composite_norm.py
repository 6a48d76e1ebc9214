"""Composite normalizations, and rotary embedding."""

from __future__ import annotations

import math

import numpy as np

from compiler.graph import Array
from compiler.operators.expansion.builder import Builder
from compiler.operators.expansion.composite import composite
from compiler.operators.expansion.parts import (
    averaged,
    broadcast,
    permuted,
    reshaped,
    sliced,
    standardized,
    swapped,
)
from compiler.operators.linear.rotary import halves, neighbours
from compiler.operators.record import Attribute, Call, Input, Operator, Output, Types, register, rule
from compiler.operators.types import FLOAT, rank_within, same_shape
from tx8isa.numbers.limits import LARGEST_EXTENT

_EPSILON = Attribute("epsilon", "float", 1e-5)
_STASH = Attribute("stash_type", "int", 1)


def _normalized_groups(call: Call, x: Array, scale: Array, shift: Array) -> tuple[Array, ...]:
    shape, groups = call.shape(0), call.integer("groups")
    rows = x.reshape(shape[0], groups, -1)
    rows = rows - rows.mean(-1, keepdims=True)
    rows = rows / np.sqrt((rows**2).mean(-1, keepdims=True) + call.number("epsilon"))
    ones = (1,) * (len(shape) - 2)
    return (rows.reshape(shape) * scale.reshape(-1, *ones) + shift.reshape(-1, *ones),)


@rule
def one_value_per_channel(call: Call) -> str | None:
    """scale and shift must have one value for each channel of X"""
    wanted, found = call.shape(0)[1:2], [call.shape(1), call.shape(2)]
    return (
        None if found == [wanted, wanted] else f"{[list(shape) for shape in found]}, X {list(call.shape(0))}"
    )


register(
    Operator(
        name="NormalizedGroups",
        since=1,
        summary="Groups of channels brought to mean 0 and variance 1; a scale and a shift for each channel",
        inputs=(Input("X", FLOAT), Input("scale", FLOAT), Input("shift", FLOAT)),
        outputs=(Output("Y", FLOAT),),
        attributes=(Attribute("groups", "int", required=True, minimum=1), _EPSILON),
        rules=(one_value_per_channel,),
        shapes=same_shape,
        reference=_normalized_groups,
        internal=True,
    )
)

MOST_CHANNELS = LARGEST_EXTENT
"""The sums of more channels are not one row of an instruction."""


def _by_groups(build: Builder, call: Call, groups: int, scale: str, shift: str) -> str:
    """``scale`` and ``shift`` have one value per channel (axis 1)."""
    shape, x, epsilon = call.shape(0), call.name(0), call.number("epsilon")
    if 0 in shape:
        return build("Identity", x)
    if shape[1] <= MOST_CHANNELS:
        return build("NormalizedGroups", x, scale, shift, groups=groups, epsilon=epsilon)
    flat = reshaped(build, x, shape[0], groups, math.prod(shape[1:]) // groups)
    even = reshaped(build, standardized(build, flat, (2,), epsilon)[0], *shape)
    ones = (1,) * (len(shape) - 2)
    scale, shift = (reshaped(build, name, *build.shape(name), *ones) for name in (scale, shift))
    return build("Add", build("Mul", even, scale), shift)


def _instance(build: Builder, call: Call) -> tuple[str, ...]:
    return (_by_groups(build, call, call.shape(0)[1], call.name(1), call.name(2)),)


composite(
    name="InstanceNormalization",
    since=6,
    summary="Every channel of every image brought to mean 0 and variance 1, scaled and shifted",
    inputs=(Input("input", FLOAT), Input("scale", FLOAT), Input("B", FLOAT)),
    outputs=(Output("output", FLOAT),),
    expansion=_instance,
    attributes=(_EPSILON,),
    rules=(rank_within("input", 3, None, "[N, C, ...]"),),
)


def _group(build: Builder, call: Call) -> tuple[str, ...]:
    channels, groups = call.shape(0)[1], call.integer("num_groups")
    scale, shift = call.name(1), call.name(2)
    if call.opset < 21:  # one value per group
        scale, shift = (
            reshaped(
                build, broadcast(build, reshaped(build, n, groups, 1), (groups, channels // groups)), channels
            )
            for n in (scale, shift)
        )
    return (_by_groups(build, call, groups, scale, shift),)


@rule
def groups_divide_channels(call: Call) -> str | None:
    """The channels must be a multiple of num_groups"""
    channels, groups = call.shape(0)[1], call.integer("num_groups")
    return f"{channels} channels, {groups} groups" if channels % groups else None


composite(
    name="GroupNormalization",
    since=18,
    summary="Every group of channels brought to mean 0 and variance 1, scaled and shifted",
    inputs=(Input("X", FLOAT), Input("scale", FLOAT), Input("bias", FLOAT)),
    outputs=(Output("Y", FLOAT),),
    expansion=_group,
    attributes=(
        Attribute("num_groups", "int", required=True, minimum=1),
        _EPSILON,
        Attribute("stash_type", "int", 1, since=21),
    ),
    rules=(rank_within("X", 3, None, "[N, C, ...]"), groups_divide_channels),
)


def _mean_variance(build: Builder, call: Call) -> tuple[str, ...]:
    x, axes = call.name(0), call.integers("axes") or ()
    mean = averaged(build, x, axes)
    centred = build("Sub", x, mean)
    deviation = build("Sqrt", averaged(build, build("Mul", centred, centred), axes))
    return (build("Div", centred, build("Add", deviation, build.like(x, 1e-9))),)


composite(
    name="MeanVarianceNormalization",
    since=13,
    summary="(x - mean) / deviation over axes",
    inputs=(Input("X", FLOAT),),
    outputs=(Output("Y", FLOAT),),
    expansion=_mean_variance,
    attributes=(Attribute("axes", "ints", (0, 2, 3)),),
)


@rule
def channels_are_few(call: Call) -> str | None:
    """There must be at most 8192 channels: which ones are neighbours is a matrix"""
    return None if call.shape(0)[1] <= 8192 else f"X {list(call.shape(0))}"


def _lrn(build: Builder, call: Call) -> tuple[str, ...]:
    """The sum of squares over neighbouring channels is a product with a band matrix."""
    x, shape, size = call.name(0), call.shape(0), call.integer("size")
    channels = np.arange(shape[1])
    distance = channels[:, None] - channels[None, :]
    band = (-((size - 1) // 2) <= distance) & (distance <= size - 1 - (size - 1) // 2)
    squares = swapped(build, build("Mul", x, x), 1)
    factor = call.number("alpha") / size
    total = swapped(build, build("MatMul", squares, build.constant(band * factor, build.dtype(x))), 1)
    return (
        build(
            "Div",
            x,
            build(
                "FloatPow",
                build("Add", total, build.like(x, call.number("bias"))),
                build.like(x, call.number("beta")),
            ),
        ),
    )


composite(
    name="LRN",
    since=1,
    summary="The operand divided by a power of the sum of squares over neighbouring channels",
    inputs=(Input("X", FLOAT),),
    outputs=(Output("Y", FLOAT),),
    expansion=_lrn,
    attributes=(
        Attribute("alpha", "float", 1e-4),
        Attribute("beta", "float", 0.75),
        Attribute("bias", "float", 1.0),
        Attribute("size", "int", required=True, minimum=1),
    ),
    rules=(rank_within("X", 3, None, "[N, C, ...]"), channels_are_few),
)


def _global_max(build: Builder, call: Call) -> tuple[str, ...]:
    return (build("ReduceMax", call.name(0), axes=tuple(range(2, call.tensor(0).rank))),)


composite(
    name="GlobalMaxPool",
    since=1,
    summary="The largest of all positions of each channel",
    inputs=(Input("X", FLOAT),),
    outputs=(Output("Y", FLOAT),),
    expansion=_global_max,
    rules=(rank_within("X", 3, None, "[N, C, ...]"),),
)


def _rotary(build: Builder, call: Call) -> tuple[str, ...]:
    """Pairs of features turned by an angle; x of [B, H, S, D] or [B, S, H * D]."""
    x, flat = call.name(0), call.tensor(0).rank == 3
    if flat:
        batch, length, hidden = call.shape(0)
        heads = call.integer("num_heads")
        x = permuted(build, reshaped(build, x, batch, length, heads, hidden // heads), 0, 2, 1, 3)
    batch, heads, length, size = build.shape(x)
    turned = call.integer("rotary_embedding_dim") or size
    caches = [call.name(1), call.name(2)]
    if call.has(3):
        caches = [build("Gather", cache, call.name(3), axis=0) for cache in caches]
    interleaved = bool(call.integer("interleaved"))
    tables = [_spread_over_features(build, cache, (batch, length, turned), interleaved) for cache in caches]
    head = x if turned == size else sliced(build, x, 3, 0, turned)
    result = build("Rotary", head, *tables, turn=neighbours(turned) if interleaved else halves(turned))
    if turned < size:
        result = build("Concat", result, sliced(build, x, 3, turned, size), axis=3)
    if flat:
        result = reshaped(build, permuted(build, result, 0, 2, 1, 3), *call.shape(0))
    return (result,)


def _spread_over_features(build: Builder, cache: str, sizes: tuple[int, int, int], interleaved: bool) -> str:
    """A table of one value for each pair [B, S, D / 2] as [B, 1, S, D]."""
    batch, length, turned = sizes
    if not interleaved:
        half = reshaped(build, cache, batch, 1, length, turned // 2)
        return build("Concat", half, half, axis=3)
    single = reshaped(build, cache, batch, length, turned // 2, 1)
    return reshaped(build, build("Concat", single, single, axis=3), batch, 1, length, turned)


@rule
def heads_given(call: Call) -> str | None:
    """num_heads must be given for X of rank 3"""
    return "num_heads absent" if call.tensor(0).rank == 3 and not call.attrs.get("num_heads") else None


composite(
    name="RotaryEmbedding",
    since=23,
    summary="Pairs of features turned by angles that depend on the position",
    inputs=(
        Input("X", FLOAT),
        Input("cos_cache", FLOAT),
        Input("sin_cache", FLOAT),
        Input("position_ids", Types("M", ("int64",)), optional=True),
    ),
    outputs=(Output("Y", FLOAT),),
    expansion=_rotary,
    attributes=(
        Attribute("interleaved", "int", 0, allowed=(0, 1)),
        Attribute("num_heads", "int"),
        Attribute("rotary_embedding_dim", "int", 0),
    ),
    rules=(rank_within("X", 3, 4, "[B, S, H D] or [B, H, S, D]"), heads_given),
)
