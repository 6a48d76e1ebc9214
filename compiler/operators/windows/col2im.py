"""Col2Im: overlapping blocks summed to an image."""

from __future__ import annotations

import math

import numpy as np

from compiler.graph import Shape
from compiler.operators.expansion.builder import Builder
from compiler.operators.expansion.composite import composite
from compiler.operators.expansion.parts import reshaped
from compiler.operators.record import Call, Input, Output, rule
from compiler.operators.types import FLOAT, INT64

from .geometry import DILATIONS, PADS, STRIDES


def _geometry(call: Call) -> tuple[Shape, Shape, Shape, Shape, Shape, Shape]:
    """Return shapes of image and block, block positions per axis, strides, dilations, pads."""
    image, block = call.value_ints(1) or (), call.value_ints(2) or ()
    ones = (1,) * len(image)
    strides, dilations = call.integers("strides") or ones, call.integers("dilations") or ones
    pads = call.integers("pads") or (0,) * (2 * len(image))
    spans = zip(image, block, strides, dilations, pads, pads[len(image) :], strict=False)
    counts = ((size + pad + end - ((k - 1) * d + 1)) // step + 1 for size, k, step, d, pad, end in spans)
    return image, block, tuple(counts), strides, dilations, pads


def _col2im(build: Builder, call: Call) -> tuple[str, ...]:
    """Expand to a transposed convolution; the kernel of each block element is 1 at its place, 0 elsewhere."""
    image, block, counts, strides, dilations, pads = _geometry(call)
    area, x = math.prod(block), call.name(0)
    channels = call.shape(0)[1] // area
    ones = np.tile(np.eye(area).reshape(area, 1, *block), (channels, *(1,) * (1 + len(block))))
    spans = zip(image, counts, strides, block, dilations, pads, pads[len(image) :], strict=False)
    missing = (
        size + pad + end - ((count - 1) * step + (k - 1) * d + 1)
        for size, count, step, k, d, pad, end in spans
    )
    blocks = reshaped(build, x, call.shape(0)[0], channels * area, *counts)
    image_of_blocks = build(
        "ConvTranspose",
        blocks,
        build.constant(ones, build.dtype(x)),
        group=channels,
        strides=strides,
        dilations=dilations,
        pads=pads,
        output_padding=tuple(missing),
    )
    return (image_of_blocks,)


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
