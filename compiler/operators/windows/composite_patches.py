"""Windows again: LpPool, and the ways back from windows to images: MaxUnpool, Col2Im."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from compiler.graph import Shape
from compiler.operators.expansion.builder import Builder
from compiler.operators.expansion.composite import composite
from compiler.operators.expansion.parts import reshaped
from compiler.operators.record import Attribute, Call, Input, Output, rule
from compiler.operators.types import FLOAT, INT64, rank_within
from compiler.operators.windows.geometry import (
    AUTO_PAD,
    CEIL_MODE,
    DILATIONS,
    PADS,
    STRIDES,
    lengths_match,
    pads_or_auto_pad,
    window_fits,
)

from .composite_windows import padded, taps
from .pool import pool_window

_KERNEL_SHAPE = Attribute("kernel_shape", "ints", required=True, minimum=1)


def power_of(build: Builder, x: str, p: float) -> str:
    """x**p for x >= 0."""
    if p == 1:
        return x
    return build("Mul", x, x) if p == 2 else build("FloatPow", x, build.like(x, p))


def root_of(build: Builder, x: str, p: float) -> str:
    """The p-th root of x >= 0."""
    if p == 1:
        return x
    return build("Sqrt", x) if p == 2 else build("FloatPow", x, build.like(x, 1 / p))


def _lp_pool(build: Builder, call: Call) -> tuple[str, ...]:
    window, p = pool_window(call), call.integer("p")
    powers = power_of(build, build("Abs", call.name(0)), p)
    return (root_of(build, build("Sum", *taps(build, padded(build, powers, window, 0.0), window)), p),)


composite(
    name="LpPool",
    since=2,
    summary="The p-norm of all elements in a window",
    inputs=(Input("X", FLOAT),),
    outputs=(Output("Y", FLOAT),),
    expansion=_lp_pool,
    attributes=(
        AUTO_PAD,
        replace(CEIL_MODE, since=18),
        replace(DILATIONS, since=18),
        _KERNEL_SHAPE,
        Attribute("p", "int", 2, minimum=1),
        PADS,
        STRIDES,
    ),
    rules=(
        rank_within("X", 3, 5, "1-D to 3-D pooling"),
        lengths_match,
        pads_or_auto_pad,
        window_fits(pool_window),
    ),
    precise=True,
)


def _global_lp_pool(build: Builder, call: Call) -> tuple[str, ...]:
    p, axes = call.integer("p"), tuple(range(2, call.tensor(0).rank))
    return (root_of(build, build("ReduceSum", power_of(build, build("Abs", call.name(0)), p), axes=axes), p),)


composite(
    name="GlobalLpPool",
    since=2,
    summary="The p-norm of all positions of each channel",
    inputs=(Input("X", FLOAT),),
    outputs=(Output("Y", FLOAT),),
    expansion=_global_lp_pool,
    attributes=(Attribute("p", "int", 2, minimum=1),),
    rules=(rank_within("X", 3, None, "[N, C, ...]"),),
    precise=True,
)

# --- MaxUnpool -------------------------------------------------------------------------------------------


def _unpooled(call: Call) -> Shape:
    """The shape of the image that a pool with these attributes has read."""
    image, kernel = call.shape(0)[2:], call.integers("kernel_shape") or ()
    strides = call.integers("strides") or (1,) * len(image)
    pads = call.integers("pads") or (0,) * (2 * len(image))
    margins = zip(pads[: len(image)], pads[len(image) :], strict=True)
    axes = zip(image, strides, kernel, margins, strict=True)
    return (*call.shape(0)[:2], *((size - 1) * step + k - sum(pad) for size, step, k, pad in axes))


def _max_unpool(build: Builder, call: Call) -> tuple[str, ...]:
    """Zeros, and each element at its index in the flat image; a larger output has more zeros behind."""
    x, count, shape = call.name(0), call.tensor(0).size, _unpooled(call)
    empty = build("Expand", build.constant(np.zeros(1), build.dtype(x)), build.ints(math.prod(shape)))
    flat = build(
        "ScatterElements", empty, reshaped(build, call.name(1), count), reshaped(build, x, count), axis=0
    )
    image, wanted = reshaped(build, flat, *shape), call.value_ints(2)
    if wanted is None or wanted == shape:
        return (image,)
    behind = (after - before for before, after in zip(shape, wanted, strict=True))
    return (build("Pad", image, build.ints(*(0,) * len(shape), *behind)),)


@rule
def indices_like_values(call: Call) -> str | None:
    """I must have the shape of X"""
    return None if call.shape(0) == call.shape(1) else f"{list(call.shape(1))} and {list(call.shape(0))}"


@rule
def output_holds_image(call: Call) -> str | None:
    """The image must have elements, and output_shape, if given, must be no smaller on any axis"""
    shape, wanted = _unpooled(call), call.value_ints(2)
    holds = wanted is None or (len(wanted) == len(shape) and all(map(int.__ge__, wanted, shape)))
    return None if holds and min(shape) > 0 else f"image {list(shape)}, output_shape {list(wanted or ())}"


composite(
    name="MaxUnpool",
    since=9,
    summary="An image of zeros but for the maxima that a MaxPool has found",
    inputs=(
        Input("X", FLOAT),
        Input("I", INT64.named("T2")),
        Input("output_shape", INT64.named("T2"), optional=True, constant=True),
    ),
    outputs=(Output("output", FLOAT),),
    expansion=_max_unpool,
    attributes=(_KERNEL_SHAPE, PADS, STRIDES),
    rules=(rank_within("X", 3, 5, "1-D to 3-D"), lengths_match, indices_like_values, output_holds_image),
)

# --- Col2Im ----------------------------------------------------------------------------------------------


def _geometry(call: Call) -> tuple[Shape, Shape, Shape, Shape, Shape, Shape]:
    """Image, block, positions per axis, strides, dilations, pads."""
    image, block = call.value_ints(1) or (), call.value_ints(2) or ()
    ones = (1,) * len(image)
    strides, dilations = call.integers("strides") or ones, call.integers("dilations") or ones
    pads = call.integers("pads") or (0,) * (2 * len(image))
    spans = zip(image, block, strides, dilations, pads, pads[len(image) :], strict=False)
    counts = ((size + pad + end - ((k - 1) * d + 1)) // step + 1 for size, k, step, d, pad, end in spans)
    return image, block, tuple(counts), strides, dilations, pads


def _col2im(build: Builder, call: Call) -> tuple[str, ...]:
    """A transposed convolution whose kernel has a 1 at the place of each element of a block."""
    image, block, counts, strides, dilations, pads = _geometry(call)
    area, x = math.prod(block), call.name(0)
    channels = call.shape(0)[1] // area
    ones = np.tile(np.eye(area).reshape(area, 1, *block), (channels, *(1,) * (1 + len(block))))
    spans = zip(image, counts, strides, block, dilations, pads, pads[len(image) :], strict=False)
    missing = (
        size + pad + end - ((count - 1) * step + (k - 1) * d + 1)
        for size, count, step, k, d, pad, end in spans
    )
    return (
        build(
            "ConvTranspose",
            reshaped(build, x, call.shape(0)[0], channels * area, *counts),
            build.constant(ones, build.dtype(x)),
            group=channels,
            strides=strides,
            dilations=dilations,
            pads=pads,
            output_padding=tuple(missing),
        ),
    )


@rule
def blocks_are_small(call: Call) -> str | None:
    """A block must have at most 1024 elements"""
    block = call.value_ints(2) or ()
    return None if math.prod(block) <= 1024 else f"block_shape {list(block)}"


@rule
def blocks_fill_image(call: Call) -> str | None:
    """input must be [N, C times the block's size, positions], for 1-D to 3-D images whose blocks, with
    strides, dilations and pads, have as many positions"""
    shape, image, block = call.shape(0), call.value_ints(1) or (), call.value_ints(2) or ()
    found = f"input {list(shape)}, image_shape {list(image)}, block_shape {list(block)}"
    if len(shape) != 3 or not 1 <= len(image) <= 3 or len(block) != len(image) or min(*image, *block) < 1:
        return found
    for name, factor in (("strides", 1), ("dilations", 1), ("pads", 2)):
        value = call.integers(name)
        if value is not None and len(value) != factor * len(image):
            return f"{name} {list(value)} for image_shape {list(image)}"
    counts = _geometry(call)[2]
    fits = min(counts) >= 1 and math.prod(counts) == shape[2] and shape[1] % math.prod(block) == 0
    return None if fits else f"{found}, positions {list(counts)}"


composite(
    name="Col2Im",
    since=18,
    summary="The sum of overlapping blocks of an image",
    inputs=(
        Input("input", FLOAT),
        Input("image_shape", INT64, constant=True),
        Input("block_shape", INT64, constant=True),
    ),
    outputs=(Output("output", FLOAT),),
    expansion=_col2im,
    attributes=(DILATIONS, PADS, STRIDES),
    rules=(blocks_are_small, blocks_fill_image),
)
