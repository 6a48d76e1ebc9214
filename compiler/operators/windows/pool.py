"""Pooling."""

from __future__ import annotations

import math

import numpy as np

from compiler.graph import FLOATS, Array, Shape
from compiler.operators.record import Attribute, Call, Input, Operator, Output, Types, register, rule
from compiler.operators.types import FLOAT, INT64, rank_within
from compiler.operators.windows.geometry import (
    AUTO_PAD,
    CEIL_MODE,
    DILATIONS,
    PADS,
    STRIDES,
    Window,
    lengths_match,
    pads_or_auto_pad,
    window_fits,
    window_of,
    windows_touch_image,
)

_POOLED = Types("T", (*FLOATS, "int8", "uint8"))
_KERNEL_SHAPE = Attribute("kernel_shape", "ints", required=True, minimum=1)
_RULES = (rank_within("X", 3, 5, "1-D to 3-D pooling"), lengths_match, pads_or_auto_pad)


def pool_window(call: Call) -> Window:
    """The geometry of a MaxPool or AveragePool that satisfies the rules."""
    return window_of(call, call.integers("kernel_shape") or ())


_GEOMETRY = (window_fits(pool_window), windows_touch_image(pool_window))


def _shapes(call: Call) -> tuple[Shape, ...]:
    shape = (*call.shape(0)[:2], *pool_window(call).output)
    return shape, shape


def _max_pool(call: Call, x: Array) -> tuple[Array, ...]:
    window = pool_window(call)
    lowest = np.iinfo(x.dtype).min if x.dtype.kind in "iu" else -np.inf
    image = window.padded(x, lowest)
    result = np.full((*x.shape[:2], *window.output), lowest, x.dtype)
    for places in window.taps():
        np.maximum(result, image[places], out=result)
    if not call.wants(1):
        return (result,)
    numbers: Array = np.arange(math.prod(window.image), dtype=np.int64)
    row_major = not call.integer("storage_order")
    numbers = numbers.reshape(window.image) if row_major else numbers.reshape(window.image[::-1]).T
    planes = np.arange(math.prod(x.shape[:2])).reshape(*x.shape[:2], *(1,) * len(window.image))
    found, spread = np.zeros(result.shape, np.int64), window.padded(numbers[None, None], 0)
    for places in reversed(list(window.taps())):
        index = spread[places] + planes * numbers.size
        found = np.where(image[places] == result, index, found)
    return (result, found)


def _average_pool(call: Call, x: Array) -> tuple[Array, ...]:
    """Sum over the window divided by the elements counted: those of the image, or also those of the padding.

    What ceil_mode reaches beyond the padding is never counted (ONNX AveragePool 19; PyTorch does the same).
    """
    window = pool_window(call)
    image = window.padded(x, 0.0)
    counted = np.zeros((1, 1, *image.shape[2:]))
    margins = zip(window.image, window.pads_begin, window.pads_end, strict=True)
    if call.integer("count_include_pad"):
        inside = [slice(0, begin + size + end) for size, begin, end in margins]
    else:
        inside = [slice(begin, begin + size) for size, begin, _ in margins]
    counted[(slice(None), slice(None), *inside)] = 1.0
    total = np.zeros((*x.shape[:2], *window.output))
    count = np.zeros((1, 1, *window.output))
    for places in window.taps():
        total += image[places]
        count += counted[places]
    return (total / count,)


@rule
def image_not_empty(call: Call) -> str | None:
    """The spatial axes must not be empty"""
    return f"shape {list(call.shape(0))}" if 0 in call.shape(0)[2:] else None


def _global_shapes(call: Call) -> tuple[Shape, ...]:
    shape = call.shape(0)
    return ((*shape[:2], *(1,) * len(shape[2:])),)


def _global_average_pool(call: Call, x: Array) -> tuple[Array, ...]:
    return (x.mean(axis=tuple(range(2, x.ndim)), keepdims=True),)


MAX_POOL = register(
    Operator(
        name="MaxPool",
        since=12,
        summary="Maximum over a sliding window of [N, C, L] or [N, C, H, W]",
        inputs=(Input("X", _POOLED),),
        outputs=(Output("Y", _POOLED), Output("Indices", INT64, optional=True)),
        attributes=(
            AUTO_PAD,
            CEIL_MODE,
            DILATIONS,
            _KERNEL_SHAPE,
            PADS,
            Attribute("storage_order", "int", 0, allowed=(0, 1)),
            STRIDES,
        ),
        rules=(*_RULES, *_GEOMETRY),
        shapes=_shapes,
        reference=_max_pool,
    )
)

AVERAGE_POOL = register(
    Operator(
        name="AveragePool",
        since=11,
        summary="Average over a sliding window of [N, C, L] or [N, C, H, W]",
        inputs=(Input("X", FLOAT),),
        outputs=(Output("Y", FLOAT),),
        attributes=(
            AUTO_PAD,
            CEIL_MODE,
            Attribute("count_include_pad", "int", 0, allowed=(0, 1)),
            Attribute("dilations", "ints", minimum=1, since=19),
            _KERNEL_SHAPE,
            PADS,
            STRIDES,
        ),
        rules=(*_RULES, *_GEOMETRY),
        shapes=_shapes,
        reference=_average_pool,
    )
)

GLOBAL_AVERAGE_POOL = register(
    Operator(
        name="GlobalAveragePool",
        since=1,
        summary="Average over all spatial axes of [N, C, ...]",
        inputs=(Input("X", FLOAT),),
        outputs=(Output("Y", FLOAT),),
        rules=(rank_within("X", 3, None, "batch, channels, space"), image_not_empty),
        shapes=_global_shapes,
        reference=_global_average_pool,
    )
)
