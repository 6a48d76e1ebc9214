"""DeformConv: a convolution whose taps are moved by computed offsets."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np

from compiler.operators.expansion import Builder
from compiler.operators.images.composite_sampling import (
    corners,
    first_rows,
    images_are_addressable,
    zero_outside,
)
from compiler.operators.parts import cut, permuted, reshaped
from compiler.operators.record import Attribute, Call, Input, Output, rule
from compiler.operators.shapes.composite_shapes import _operator, name_of
from compiler.operators.types import FLOAT, rank_within
from compiler.operators.window import DILATIONS, PADS, STRIDES, Window, lengths_match, window_fits

from .conv import (
    channels_match,
    conv_window,
    group_divides,
    kernel_shape_is_that_of_weights,
    weight_rank,
    weights_not_empty,
)


def _window(call: Call) -> Window:
    """The geometry; DeformConv has no auto_pad."""
    return conv_window(replace(call, attrs={**call.attrs, "auto_pad": "NOTSET"}))


def _place(b: Builder, call: Call, window: Window, axis: int) -> str:
    """Places [batch * groups * taps * positions] along an axis: those of a Conv, and the offsets."""
    groups, taps = call.integer("offset_group"), math.prod(window.kernel)
    tap = np.array([at[axis] for at in itertools.product(*map(range, window.kernel))])
    step = np.array([at[axis] for at in itertools.product(*map(range, window.output))])
    even = tap[:, None] * window.dilations[axis] + step[None, :] * window.strides[axis]
    batch, positions = call.shape(0)[0], math.prod(window.output)
    offsets = reshaped(b, name_of(call, 2), batch * groups, taps, 2, positions)
    offset = reshaped(b, cut(b, offsets, 2, axis, axis + 1), batch * groups, taps, positions)
    place = b("Add", offset, b.constant(even[None] - window.pads_begin[axis], b.dtype(offset)))
    return reshaped(b, place, batch * groups * taps * positions)


def _deform_conv(b: Builder, call: Call) -> tuple[str, ...]:
    """A sample for every tap and position, then a product with the weights."""
    window, groups, group = _window(call), call.integer("offset_group"), call.integer("group")
    (batch, channels, *image), (maps, per_group) = call.shape(0), call.shape(1)[:2]
    taps, positions, own = math.prod(window.kernel), math.prod(window.output), channels // groups
    x = reshaped(b, name_of(call, 0), batch * groups, own, *image)
    places = [_place(b, call, window, axis) for axis in range(2)]
    first = first_rows(b, batch * groups, math.prod(image), taps * positions)
    rows = b("Sum", *corners(b, x, first, places, "linear", zero_outside))
    if call.has(4):
        rows = b("Mul", rows, reshaped(b, name_of(call, 4), -1, 1))
    columns = permuted(b, reshaped(b, rows, batch * groups, taps, positions, own), 0, 3, 1, 2)
    columns = reshaped(b, columns, batch, channels * taps, *window.output)
    weights = reshaped(b, name_of(call, 1), maps, per_group * taps, 1, 1)
    bias = [name_of(call, 3)] if call.has(3) else []
    return (b("Conv", columns, weights, *bias, group=group),)


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


_operator(
    "DeformConv",
    19,
    "Convolution whose taps are moved by offsets and weighed by a mask",
    (
        Input("X", FLOAT),
        Input("W", FLOAT),
        Input("offset", FLOAT),
        Input("B", FLOAT, optional=True),
        Input("mask", FLOAT, optional=True),
    ),
    (Output("Y", FLOAT),),
    _deform_conv,
    (
        DILATIONS,
        Attribute("group", "int", 1, minimum=1),
        Attribute("kernel_shape", "ints", minimum=1),
        Attribute("offset_group", "int", 1, minimum=1),
        PADS,
        STRIDES,
    ),
    (
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
