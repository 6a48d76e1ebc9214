"""Convolution."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from compiler.graph import Array, AttrValue, Box, Shape
from compiler.operators.boxes.forms import of_batch
from compiler.operators.expansion.builder import Builder
from compiler.operators.expansion.parts import permuted, reshaped, sliced
from compiler.operators.record import Attribute, Call, Contraction, Input, Operator, Output, register, rule
from compiler.operators.types import FLOAT, rank_within
from tx8isa.numbers.limits import LARGEST_PAD

from .geometry import (
    AUTO_PAD,
    DILATIONS,
    PADS,
    STRIDES,
    Window,
    lengths_match,
    pads_or_auto_pad,
    window_fits,
    window_of,
)
from .large import conv_of_blocks, large_axis
from .taps import padded, taps

CONVOLVED = Contraction(lambda call: math.prod(call.shape(1)[1:]), lambda call: 0)
"""A sum has the weights of one channel of the result, which is axis 0 of the weights."""
GROUP = Attribute("group", "int", 1, minimum=1)
KERNEL_SHAPE = Attribute("kernel_shape", "ints", minimum=1)


def conv_window(call: Call) -> Window:
    """Return the geometry of a Conv that satisfies the rules."""
    return window_of(call, call.shape(1)[2:])


@rule
def weight_rank(call: Call) -> str | None:
    """W must have the rank of X"""
    return None if call.tensor(1).rank == call.tensor(0).rank else f"shape {list(call.shape(1))}"


@rule
def weights_not_empty(call: Call) -> str | None:
    """W must have at least one element"""
    return None if call.tensor(1).size else f"shape {list(call.shape(1))}"


@rule
def channels_match(call: Call) -> str | None:
    """The channels of X (axis 1) must be group times axis 1 of W"""
    channels, per_group, group = call.shape(0)[1], call.shape(1)[1], call.integer("group")
    found = f"{channels} channels, group {group}, W {list(call.shape(1))}"
    return None if channels == group * per_group else found


@rule
def group_divides(call: Call) -> str | None:
    """Axis 0 of W must be a multiple of group"""
    maps, group = call.shape(1)[0], call.integer("group")
    return None if maps % group == 0 else f"W {list(call.shape(1))} with group {group}"


@rule
def kernel_shape_is_that_of_weights(call: Call) -> str | None:
    """kernel_shape, if given, must be the spatial shape of W"""
    given = call.integers("kernel_shape")
    found = f"kernel_shape {list(given or ())}, W {list(call.shape(1))}"
    return None if given in (None, call.shape(1)[2:]) else found


@rule
def bias_shape(call: Call) -> str | None:
    """B must have one element per output channel, shape [M]"""
    if not call.has(2) or call.shape(2) == call.shape(1)[:1]:
        return None
    return f"shape {list(call.shape(2))} with M = {call.shape(1)[0]}"


def _shapes(call: Call) -> tuple[Shape, ...]:
    return ((call.shape(0)[0], call.shape(1)[0], *conv_window(call).output),)


def conv_needs(call: Call, number: int, box: Box) -> tuple[Box, ...]:
    """Return the channels of X in the groups of the wanted maps, and these maps of W and B."""
    batch, (first, end), *positions = box.intervals
    maps, channels = call.shape(1)[0] // call.integer("group"), call.shape(1)[1]
    groups = (first // maps * channels, -(-end // maps) * channels)
    image = conv_window(call).reached(Box(tuple(positions)))
    weights = Box.whole(call.shape(1)).along(0, first, end)
    return Box((batch, groups, *image.intervals)), weights, Box(((first, end),))


_MOST_MOVED = 1 << 23
"""The most elements of shifted images that are multiplied at once; with few taps at once, products are
slow."""


def conv_sums(call: Call, x: Array, w: Array, b: Array | None = None) -> Array:
    """Sum in binary64 over the taps of the kernel, for each group: weights of taps @ shifted images."""
    window, group = conv_window(call), call.integer("group")
    batch, maps, channels, size = x.shape[0], w.shape[0], w.shape[1], math.prod(window.output)
    image, places = window.padded(x, 0.0), list(window.taps())
    # Weights of a tap are contiguous: NumPy multiplies matrices with gaps without the library for products.
    weights = np.ascontiguousarray(w.reshape(group, maps // group, channels, -1).transpose(0, 1, 3, 2))
    total = np.zeros((batch, group, maps // group, size))
    step = max(1, _MOST_MOVED // max(x.shape[0] * x.shape[1] * size, 1))
    for first in range(0, len(places), step):
        some = places[first : first + step]
        moved = np.empty((batch, group, len(some), channels, size))
        for at, place in enumerate(some):
            moved[:, :, at] = image[place].reshape(batch, group, channels, size)
        part = weights[:, :, first : first + step].reshape(group, maps // group, -1)
        total += part @ moved.reshape(batch, group, -1, size)
    result = total.reshape(batch, maps, *window.output)
    if b is not None:
        result += b.reshape(-1, *(1,) * len(window.output))
    return np.asarray(result)


def _conv(call: Call, x: Array, w: Array, b: Array | None = None) -> tuple[Array, ...]:
    return (conv_sums(call, x, w, b),)


def _expand_conv(build: Builder, call: Call) -> tuple[str, ...] | None:
    """Expand volumes, windows that are all padding, and windows too large for the engines.

    The lowering computes all other calls.
    """
    window = conv_window(call)
    axis = large_axis(window) if len(window.image) < 3 else None
    if axis is not None:
        return (conv_of_blocks(build, call, window, axis),)
    return (_conv_of_padded if len(window.image) < 3 else _conv_of_volume)(build, call, window)


def _conv_of_padded(build: Builder, call: Call, window: Window) -> tuple[str, ...] | None:
    """Write the padding as a Pad if a whole window fits into it, or if the engines cannot take it."""
    pads = zip(window.extents, window.pads_begin, window.pads_end, strict=True)
    if all(max(before, after) < min(extent, LARGEST_PAD + 1) for extent, before, after in pads):
        return None
    x, rest = padded(build, call.name(0), window, 0.0), [call.name(at) for at in (1, 2) if call.has(at)]
    group = call.integer("group")
    return (build("Conv", x, *rest, strides=window.strides, dilations=window.dilations, group=group),)


def _conv_of_volume(build: Builder, call: Call, window: Window) -> tuple[str, ...]:
    """Sum convolutions of images with a slice of the kernel each, over the depth of the kernel."""
    depth, height, width = window.output
    along_depth = replace(
        window,
        pads_begin=(window.pads_begin[0], 0, 0),
        output=(depth, *window.image[1:]),
        strides=(window.strides[0], 1, 1),
        dilations=(window.dilations[0], 1, 1),
        kernel=(window.kernel[0], 1, 1),
    )
    attrs: dict[str, AttrValue] = {
        "strides": window.strides[1:],
        "dilations": window.dilations[1:],
        "pads": (*window.pads_begin[1:], *window.pads_end[1:]),
        "group": call.integer("group"),
    }
    (batch, channels), (maps, per_group) = call.shape(0)[:2], call.shape(1)[:2]
    image, weights, parts = padded(build, call.name(0), along_depth, 0.0), call.name(1), []
    for at, volume in enumerate(taps(build, image, along_depth)):
        images = permuted(build, volume, 0, 2, 1, 3, 4)
        images = reshaped(build, images, batch * depth, channels, *window.image[1:])
        kernel = sliced(build, weights, 2, at, at + 1)
        kernel = reshaped(build, kernel, maps, per_group, *window.kernel[1:])
        bias = [call.name(2)] if call.has(2) and not at else []
        parts.append(build("Conv", images, kernel, *bias, **attrs))
    total = parts[0] if len(parts) == 1 else build("Sum", *parts)
    return (permuted(build, reshaped(build, total, batch, depth, maps, height, width), 0, 2, 1, 3, 4),)


register(
    Operator(
        name="Conv",
        since=11,
        summary="Convolution of [N, C, ...], 1-D to 3-D, with weights [M, C/group, ...], plus a bias",
        inputs=(Input("X", FLOAT), Input("W", FLOAT), Input("B", FLOAT, optional=True)),
        outputs=(Output("Y", FLOAT),),
        attributes=(AUTO_PAD, DILATIONS, GROUP, KERNEL_SHAPE, PADS, STRIDES),
        rules=(
            rank_within("X", 3, 5, "1-D to 3-D convolution"),
            weight_rank,
            weights_not_empty,
            channels_match,
            group_divides,
            kernel_shape_is_that_of_weights,
            bias_shape,
            lengths_match,
            pads_or_auto_pad,
            window_fits(conv_window),
        ),
        shapes=_shapes,
        reference=_conv,
        expansion=_expand_conv,
        needs=conv_needs,
        product=CONVOLVED,
        window=conv_window,
        uniform=of_batch,
    )
)
