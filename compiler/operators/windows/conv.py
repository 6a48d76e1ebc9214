"""Convolution."""

from __future__ import annotations

import math

import numpy as np

from compiler.graph import Array, Shape
from compiler.operators.record import Attribute, Call, Input, Operator, Output, register, rule
from compiler.operators.types import FLOAT, rank_within
from compiler.operators.windows.geometry import (
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


def conv_window(call: Call) -> Window:
    """The geometry of a Conv that satisfies the rules."""
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


def _reference(call: Call, x: Array, w: Array, b: Array | None = None) -> tuple[Array, ...]:
    """Sum over the taps of the kernel: weights of the tap @ image shifted by the tap, group by group."""
    window, group = conv_window(call), call.integer("group")
    batch, maps, channels = x.shape[0], w.shape[0], w.shape[1]
    image = window.padded(x, 0.0)
    weights = w.reshape(group, maps // group, channels, -1)
    total = np.zeros((batch, group, maps // group, math.prod(window.output)))
    for tap, places in enumerate(window.taps()):
        total += weights[..., tap] @ image[places].reshape(batch, group, channels, total.shape[-1])
    result = total.reshape(batch, maps, *window.output)
    if b is not None:
        result += b.reshape(-1, *(1,) * len(window.output))
    return (result,)


CONV = register(
    Operator(
        name="Conv",
        since=11,
        summary="Convolution of [N, C, L] or [N, C, H, W] with weights [M, C/group, ...], plus a bias",
        inputs=(Input("X", FLOAT), Input("W", FLOAT), Input("B", FLOAT, optional=True)),
        outputs=(Output("Y", FLOAT),),
        attributes=(
            AUTO_PAD,
            DILATIONS,
            Attribute("group", "int", 1, minimum=1),
            Attribute("kernel_shape", "ints", minimum=1),
            PADS,
            STRIDES,
        ),
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
        reference=_reference,
    )
)
