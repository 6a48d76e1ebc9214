"""MaxUnpool: the inverse of MaxPool."""

from __future__ import annotations

import math

import numpy as np

from compiler.graph import Shape
from compiler.operators.expansion.builder import Builder
from compiler.operators.expansion.composite import composite
from compiler.operators.expansion.parts import reshaped
from compiler.operators.record import Call, Input, Output, rule
from compiler.operators.types import FLOAT, INT64, rank_within

from .geometry import PADS, POOL_SHAPE, STRIDES, lengths_match


def _unpooled(call: Call) -> Shape:
    """Return the shape of the image that a pool with these attributes reads."""
    image, kernel = call.shape(0)[2:], call.integers("kernel_shape") or ()
    strides = call.integers("strides") or (1,) * len(image)
    pads = call.integers("pads") or (0,) * (2 * len(image))
    margins = zip(pads[: len(image)], pads[len(image) :], strict=True)
    axes = zip(image, strides, kernel, margins, strict=True)
    return (*call.shape(0)[:2], *((size - 1) * step + k - sum(pad) for size, step, k, pad in axes))


def _max_unpool(build: Builder, call: Call) -> tuple[str, ...]:
    """Put each element at its index in a flat image of zeros; a larger output ends in more zeros."""
    x, count, shape = call.name(0), call.tensor(0).size, _unpooled(call)
    empty = build("Expand", build.constant(np.zeros(1), build.dtype(x)), build.ints(math.prod(shape)))
    indices = reshaped(build, call.name(1), count)
    flat = build("ScatterElements", empty, indices, reshaped(build, x, count), axis=0)
    image, wanted = reshaped(build, flat, *shape), call.value_ints(2)
    if wanted is None or wanted == shape:
        return (image,)
    missing = (size - found for size, found in zip(wanted, shape, strict=True))
    return (build("Pad", image, build.ints(*(0,) * len(shape), *missing)),)


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
    attributes=(POOL_SHAPE, PADS, STRIDES),
    rules=(rank_within("X", 3, 5, "1-D to 3-D"), lengths_match, indices_like_values, output_holds_image),
)
