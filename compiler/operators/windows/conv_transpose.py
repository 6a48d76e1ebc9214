"""Transposed convolution."""

from __future__ import annotations

import numpy as np

from compiler.graph import Shape
from compiler.operators.expansion.builder import Builder
from compiler.operators.expansion.composite import composite
from compiler.operators.expansion.parts import gathered, permuted, reshaped
from compiler.operators.images.upsampling import MOST_TIMES
from compiler.operators.record import Attribute, Call, Input, Output, rule
from compiler.operators.types import FLOAT, rank_within

from .conv import GROUP, KERNEL_SHAPE
from .geometry import AUTO_PAD, DILATIONS, STRIDES


def _transposed_pads(call: Call) -> tuple[list[tuple[int, int]], list[int]]:
    """Return the elements cut off the full result before and after each axis, and the output_padding."""
    image, kernel = call.shape(0)[2:], call.shape(1)[2:]
    ones = (1,) * len(image)
    strides, dilations = call.integers("strides") or ones, call.integers("dilations") or ones
    added = list(call.integers("output_padding") or (0,) * len(image))
    auto = call.string("auto_pad")
    wanted = call.integers("output_shape")
    if wanted is not None:
        wanted = wanted[-len(image) :]
    elif auto.startswith("SAME"):
        wanted = tuple(size * step for size, step in zip(image, strides, strict=True))
    if wanted is None:
        flat = call.integers("pads") or (0,) * (2 * len(image))
        return list(zip(flat[: len(image)], flat[len(image) :], strict=True)), added
    found = []
    for axis, size in enumerate(image):
        extent = (kernel[axis] - 1) * dilations[axis] + 1
        total = strides[axis] * (size - 1) + added[axis] + extent - wanted[axis]
        small, large = total // 2, total - total // 2
        found.append((small, large) if auto == "SAME_UPPER" else (large, small))
    return found, added


def _conv_transpose(build: Builder, call: Call) -> tuple[str, ...]:
    """Convolve, with the kernel mirrored, the image with zeros between its elements."""
    x, weights, group = call.name(0), call.name(1), call.integer("group")
    channels, image = call.shape(0)[1], call.shape(0)[2:]
    maps, kernel = call.shape(1)[1], call.shape(1)[2:]
    ones = (1,) * len(image)
    strides, dilations = call.integers("strides") or ones, call.integers("dilations") or ones
    cuts, added = _transposed_pads(call)
    if max(strides) > 1:
        x = _with_zeros(build, x, call.shape(0), strides)
    before, after = [], []
    for axis, (begin, end) in enumerate(cuts):
        margin = (kernel[axis] - 1) * dilations[axis]
        before.append(margin - begin)
        after.append(margin - end + added[axis] - (strides[axis] - 1))
    pads = (*before, *after)
    if min(pads) < 0:
        x = build("Pad", x, build.ints(0, 0, *before, 0, 0, *after))
        pads = (0,) * len(pads)
    for axis, size in enumerate(kernel):
        if size > 1:
            weights = gathered(build, weights, 2 + axis, np.arange(size)[::-1])
    weights = reshaped(build, weights, group, channels // group, maps, *kernel)
    weights = permuted(build, weights, 0, 2, 1, *range(3, 3 + len(kernel)))
    weights = reshaped(build, weights, group * maps, channels // group, *kernel)
    bias = [call.name(2)] if call.has(2) else []
    return (build("Conv", x, weights, *bias, dilations=dilations, group=group, pads=pads, strides=ones),)


def _with_zeros(build: Builder, x: str, shape: Shape, strides: tuple[int, ...]) -> str:
    """Insert strides - 1 zeros after each element of X of a shape."""
    (batch, channels), image = shape[:2], shape[2:]
    if len(image) <= 2 and max(strides) <= MOST_TIMES:
        return build("InsertZeros", x, times=strides)
    with_ones = reshaped(build, x, batch, channels, *(part for size in image for part in (size, 1)))
    ends = [part for step in strides for part in (0, step - 1)]
    spread = build("Pad", with_ones, build.ints(*(0,) * (2 + len(ends)), 0, 0, *ends))
    return reshaped(
        build, spread, batch, channels, *(n * step for n, step in zip(image, strides, strict=True))
    )


@rule
def transposed_channels(call: Call) -> str | None:
    """Axis 0 of W must be the channels of X, a multiple of group, and W must have the rank of X"""
    found = f"X {list(call.shape(0))}, W {list(call.shape(1))}, group {call.integer('group')}"
    if call.tensor(0).rank != call.tensor(1).rank or call.shape(0)[1] != call.shape(1)[0]:
        return found
    return found if call.shape(1)[0] % call.integer("group") else None


composite(
    name="ConvTranspose",
    since=11,
    summary="Transposed convolution: every element of X adds a multiple of W to the result",
    inputs=(Input("X", FLOAT), Input("W", FLOAT), Input("B", FLOAT, optional=True)),
    outputs=(Output("Y", FLOAT),),
    expansion=_conv_transpose,
    attributes=(
        AUTO_PAD,
        DILATIONS,
        GROUP,
        KERNEL_SHAPE,
        Attribute("output_padding", "ints", minimum=0),
        Attribute("output_shape", "ints", minimum=1),
        Attribute("pads", "ints"),
        STRIDES,
    ),
    rules=(rank_within("X", 3, 5, "1-D to 3-D"), transposed_channels),
)
