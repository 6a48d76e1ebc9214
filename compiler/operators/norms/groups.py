"""Normalization of groups of channels; a group may be a single channel."""

from __future__ import annotations

import math

import numpy as np

from compiler.graph import Array, Box
from compiler.operators.boxes.forms import of_batch, of_channels, whole_along
from compiler.operators.expansion.builder import Builder
from compiler.operators.expansion.composite import composite
from compiler.operators.expansion.parts import broadcast, reshaped, standardized
from compiler.operators.record import Attribute, Call, Input, Operator, Output, register, rule
from compiler.operators.types import FLOAT, rank_within, same_shape
from tx8isa.numbers.limits import LARGEST_EXTENT

_EPSILON = Attribute("epsilon", "float", 1e-5)


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
    if found == [wanted, wanted]:
        return None
    return f"{[list(shape) for shape in found]}, X {list(call.shape(0))}"


def _needs_of_groups(call: Call, number: int, box: Box) -> tuple[Box, ...]:
    """Return the boxes of whole groups."""
    channels, each = box.intervals[1], call.shape(0)[1] // call.integer("groups")
    whole = whole_along(box, call.shape(0), range(2, call.tensor(0).rank))
    values = Box((channels,))
    return whole.along(1, channels[0] // each * each, -(-channels[1] // each) * each), values, values


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
        needs=_needs_of_groups,
        internal=True,
    )
)


MOST_CHANNELS = LARGEST_EXTENT
"""The most channels, because an instruction sums them as one row."""


def _by_groups(build: Builder, call: Call, groups: int, scale: str, shift: str) -> str:
    """Normalize groups; ``scale`` and ``shift`` have one value per channel (axis 1)."""
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
    uniform=of_channels,
)


def _group(build: Builder, call: Call) -> tuple[str, ...]:
    channels, groups = call.shape(0)[1], call.integer("num_groups")
    scale, shift = call.name(1), call.name(2)
    if call.opset < 21:  # one value per group
        scale, shift = (_per_channel(build, name, groups, channels) for name in (scale, shift))
    return (_by_groups(build, call, groups, scale, shift),)


def _per_channel(build: Builder, name: str, groups: int, channels: int) -> str:
    """Repeat one value per group to one value per channel."""
    repeated = broadcast(build, reshaped(build, name, groups, 1), (groups, channels // groups))
    return reshaped(build, repeated, channels)


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
    uniform=of_batch,
)
