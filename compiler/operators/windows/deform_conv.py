"""DeformConv: a convolution whose taps are displaced by computed offsets."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np

from compiler.operators.expansion.builder import Builder
from compiler.operators.expansion.composite import composite
from compiler.operators.expansion.parts import permuted, reshaped, sliced
from compiler.operators.images.sampling import corners, first_rows, images_are_addressable, zero_outside
from compiler.operators.record import Attribute, Call, Input, Output, rule
from compiler.operators.types import FLOAT, rank_within

from .conv import (
    GROUP,
    KERNEL_SHAPE,
    channels_match,
    conv_window,
    group_divides,
    kernel_shape_is_that_of_weights,
    weight_rank,
    weights_not_empty,
)
from .geometry import DILATIONS, PADS, STRIDES, Window, lengths_match, window_fits


def _window(call: Call) -> Window:
    """Return the geometry; DeformConv has no auto_pad."""
    return conv_window(replace(call, attrs={**call.attrs, "auto_pad": "NOTSET"}))


def _place(build: Builder, call: Call, window: Window, axis: int) -> str:
    """Return coordinates [batch * groups * taps * positions] along an axis: a Conv's plus the offsets."""
    groups, taps = call.integer("offset_group"), math.prod(window.kernel)
    tap = np.array([at[axis] for at in itertools.product(*map(range, window.kernel))])
    step = np.array([at[axis] for at in itertools.product(*map(range, window.output))])
    regular = tap[:, None] * window.dilations[axis] + step[None, :] * window.strides[axis]
    batch, positions = call.shape(0)[0], math.prod(window.output)
    offsets = reshaped(build, call.name(2), batch * groups, taps, 2, positions)
    offset = reshaped(build, sliced(build, offsets, 2, axis, axis + 1), batch * groups, taps, positions)
    place = build("Add", offset, build.constant(regular[None] - window.pads_begin[axis], build.dtype(offset)))
    return reshaped(build, place, batch * groups * taps * positions)


def _deform_conv(build: Builder, call: Call) -> tuple[str, ...]:
    """Expand to samples of the image at every tap and position, and their product with the weights."""
    window, groups, group = _window(call), call.integer("offset_group"), call.integer("group")
    (batch, channels, *image), (maps, per_group) = call.shape(0), call.shape(1)[:2]
    taps, positions, own = math.prod(window.kernel), math.prod(window.output), channels // groups
    x = reshaped(build, call.name(0), batch * groups, own, *image)
    places = [_place(build, call, window, axis) for axis in range(2)]
    first = first_rows(build, batch * groups, math.prod(image), taps * positions)
    rows = build("Sum", *corners(build, x, first, places, "linear", zero_outside))
    if call.has(4):
        rows = build("Mul", rows, reshaped(build, call.name(4), -1, 1))
    columns = permuted(build, reshaped(build, rows, batch * groups, taps, positions, own), 0, 3, 1, 2)
    columns = reshaped(build, columns, batch, channels * taps, *window.output)
    weights = reshaped(build, call.name(1), maps, per_group * taps, 1, 1)
    bias = [call.name(3)] if call.has(3) else []
    return (build("Conv", columns, weights, *bias, group=group),)


@rule
def offsets_fit(call: Call) -> str | None:
    """offset must be [N, 2 offset_group taps, *output], mask [N, offset_group taps, *output], B one element
    per map, and offset_group must divide the channels"""
    window, groups = _window(call), call.integer("offset_group")
    count, batch = groups * math.prod(window.kernel), call.shape(0)[0]
    if call.shape(0)[1] % groups:
        return f"X {list(call.shape(0))}, offset_group {groups}"
    for name, at, shape in (
        ("offset", 2, (batch, 2 * count, *window.output)),
        ("mask", 4, (batch, count, *window.output)),
        ("B", 3, call.shape(1)[:1]),
    ):
        if call.has(at) and call.shape(at) != shape:
            return f"{name} {list(call.shape(at))}, needed {list(shape)}"
    return None


composite(
    name="DeformConv",
    since=19,
    summary="Convolution whose taps are displaced by offsets and weighted by a mask",
    inputs=(
        Input("X", FLOAT),
        Input("W", FLOAT),
        Input("offset", FLOAT),
        Input("B", FLOAT, optional=True),
        Input("mask", FLOAT, optional=True),
    ),
    outputs=(Output("Y", FLOAT),),
    expansion=_deform_conv,
    attributes=(
        DILATIONS,
        GROUP,
        KERNEL_SHAPE,
        Attribute("offset_group", "int", 1, minimum=1),
        PADS,
        STRIDES,
    ),
    rules=(
        rank_within("X", 4, 4, "[N, C, H, W]"),
        images_are_addressable,
        weight_rank,
        weights_not_empty,
        channels_match,
        group_divides,
        kernel_shape_is_that_of_weights,
        lengths_match,
        window_fits(_window),
        offsets_fit,
    ),
    precise=True,
)
