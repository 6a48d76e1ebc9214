"""MaxPool and AveragePool."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from compiler.graph import FLOATS, Array, Box, Shape
from compiler.operators.expansion.builder import Builder
from compiler.operators.record import Attribute, Call, Input, Law, Operator, Output, Types, register
from compiler.operators.types import FLOAT, INT64, rank_within

from .geometry import (
    AUTO_PAD,
    CEIL_MODE,
    DILATIONS,
    PADS,
    POOL_SHAPE,
    STRIDES,
    Window,
    lengths_match,
    pads_or_auto_pad,
    window_fits,
    window_of,
    windows_touch_image,
)
from .large import large_axis, pools_of_parts
from .taps import padded, taps

_POOLED = Types("T", (*FLOATS, "int8", "uint8"))
_RULES = (rank_within("X", 3, 5, "1-D to 3-D pooling"), lengths_match, pads_or_auto_pad)


def pool_window(call: Call) -> Window:
    """Return the geometry of a pool that satisfies the rules."""
    return window_of(call, call.integers("kernel_shape") or ())


def _of_blocks(call: Call, axis: int) -> bool:
    """Return True if an axis can be cut: batch, channels, and axes that adjacent windows cover."""
    if axis < 2:
        return True
    window, at = pool_window(call), axis - 2
    touch = window.strides[at] == window.extents[at]
    return touch and window.image[at] == window.output[at] * window.strides[at]


_GEOMETRY = (window_fits(pool_window), windows_touch_image(pool_window))


def _shapes(call: Call) -> tuple[Shape, ...]:
    shape = (*call.shape(0)[:2], *pool_window(call).output)
    return shape, shape


def _needs(call: Call, number: int, box: Box) -> tuple[Box, ...]:
    image = pool_window(call).reached(Box(box.intervals[2:]))
    return (Box((*box.intervals[:2], *image.intervals)),)


def _max_pool(call: Call, x: Array) -> tuple[Array, ...]:
    window = pool_window(call)
    lowest = np.iinfo(x.dtype).min if x.dtype.kind in "iu" else -np.inf
    image = window.padded(x, lowest)
    result = np.full((*x.shape[:2], *window.output), lowest, x.dtype)
    for places in window.taps():
        np.maximum(result, image[places], out=result)
    if not call.wants(1):
        return (result,)
    indices = np.zeros(result.shape, np.int64)
    for places, index in reversed(list(zip(window.taps(), _tap_indices(call, window), strict=True))):
        indices = np.where(image[places] == result, index, indices)
    return (result, indices)


def _tap_indices(call: Call, window: Window) -> Iterator[Array]:
    """Yield, for each tap, the index in the whole tensor of the element that it meets in every window."""
    batch_and_channels = call.shape(0)[:2]
    planes = np.arange(math.prod(batch_and_channels)).reshape(*batch_and_channels, *(1,) * len(window.image))
    numbers: Array = np.arange(math.prod(window.image), dtype=np.int64)
    row_major = not call.integer("storage_order")
    numbers = numbers.reshape(window.image) if row_major else numbers.reshape(window.image[::-1]).T
    spread = window.padded(numbers[None, None], 0)
    for places in window.taps():
        yield spread[places] + planes * numbers.size


def _expand_max_pool(build: Builder, call: Call) -> tuple[str, ...] | None:
    """Expand indices, long integers, dilated, large and three-dimensional windows.

    A lowering takes others.
    """
    window, x = pool_window(call), call.name(0)
    plain = max(window.dilations) == 1 and len(window.image) < 3 and not call.wants(1)
    axis = large_axis(window) if plain else None
    if axis is None and plain and (call.tensor(0).is_float or call.tensor(0).dtype == "int8"):
        return None
    if plain and call.tensor(0).dtype == "uint8":
        signed = build("MaxPool", build("OffsetBinary", x), **call.attrs)
        return (build("OffsetBinary", signed), "")
    lowest = -math.inf if call.tensor(0).is_float else float(np.iinfo(call.tensor(0).dtype).min)
    image = padded(build, x, window, lowest)
    if axis is not None:
        return (
            build("Max", *(part for part, _ in pools_of_parts(build, "MaxPool", image, window, axis))),
            "",
        )
    if not call.wants(1):
        return (_largest(build, image, window), "")
    parts = taps(build, image, window)
    best = build("Max", *parts)
    return (best, _first_of(build, call, window, parts, best))


def _largest(build: Builder, image: str, window: Window) -> str:
    """Return the largest element of each window of a padded image, axis after axis."""
    rank = len(window.image)
    for axis in range(rank):
        sizes = build.shape(image)[2:]
        along_axis = replace(
            window,
            image=sizes,
            kernel=tuple(window.kernel[at] if at == axis else 1 for at in range(rank)),
            strides=tuple(window.strides[at] if at == axis else 1 for at in range(rank)),
            output=tuple(window.output[at] if at == axis else sizes[at] for at in range(rank)),
        )
        image = build("Max", *taps(build, image, along_axis))
    return image


def _first_of(build: Builder, call: Call, window: Window, parts: list[str], best: str) -> str:
    """Return the index of the first element of each window that is the largest, ``best``."""
    indices = build.constant(np.zeros((1,) * (2 + len(window.image)), np.int64), "int64")
    for part, index in reversed(list(zip(parts, _tap_indices(call, window), strict=True))):
        is_best = build("Equal", part, best)
        indices = build("Where", is_best, build.constant(index, "int64"), indices)
    return indices


register(
    Operator(
        name="MaxPool",
        since=12,
        summary="Maximum over a sliding window of [N, C, ...], 1-D to 3-D",
        inputs=(Input("X", _POOLED),),
        outputs=(Output("Y", _POOLED), Output("Indices", INT64, optional=True)),
        attributes=(
            AUTO_PAD,
            CEIL_MODE,
            DILATIONS,
            POOL_SHAPE,
            PADS,
            Attribute("storage_order", "int", 0, allowed=(0, 1)),
            STRIDES,
        ),
        rules=(*_RULES, *_GEOMETRY),
        shapes=_shapes,
        reference=_max_pool,
        expansion=_expand_max_pool,
        needs=_needs,
        laws=Law.EXACT | Law.RISING | Law.HOMOGENEOUS,
        window=pool_window,
        uniform=_of_blocks,
    )
)


def averaged_counts(call: Call, window: Window) -> Array:
    """Count the elements that each window averages [1, 1, *output]: those of the image, or also those of the
    padding.

    Positions that ceil_mode reaches beyond the padding are never counted (ONNX AveragePool 19; PyTorch too).
    """
    image = window.padded(np.ones((1, 1, *window.image)), 0.0)
    if call.integer("count_include_pad"):
        pads = zip(window.image, window.pads_begin, window.pads_end, strict=True)
        inside = [slice(0, begin + size + end) for size, begin, end in pads]
        image[(slice(None), slice(None), *inside)] = 1.0
    count = np.zeros((1, 1, *window.output))
    for places in window.taps():
        count += image[places]
    return count


def _average_pool(call: Call, x: Array) -> tuple[Array, ...]:
    window = pool_window(call)
    image = window.padded(x, 0.0)
    total = np.zeros((*x.shape[:2], *window.output))
    for places in window.taps():
        total += image[places]
    return (total / averaged_counts(call, window),)


def _expand_average_pool(build: Builder, call: Call) -> tuple[str, ...] | None:
    """Expand dilated, large and three-dimensional windows; the lowering computes all other calls."""
    window = pool_window(call)
    plain = max(window.dilations) == 1 and len(window.image) < 3
    axis = large_axis(window) if plain else None
    if axis is not None:
        return (_mean_of_parts(build, call, window, axis),)
    if plain:
        return None
    total = build("Sum", *taps(build, padded(build, call.name(0), window, 0.0), window))
    return (build("Mul", total, build.constant(1 / averaged_counts(call, window), call.tensor(0).dtype)),)


def _mean_of_parts(build: Builder, call: Call, window: Window, axis: int) -> str:
    """Combine the means of parts of a window, each weighted by its size."""
    image, parts = padded(build, call.name(0), window, 0.0), []
    for part, length in pools_of_parts(build, "AveragePool", image, window, axis):
        parts.append(build("Mul", part, build.like(part, length / window.kernel[axis])))
    total = parts[0] if len(parts) == 1 else build("Sum", *parts)
    share = math.prod(window.kernel) / averaged_counts(call, window)
    return total if (share == 1).all() else build("Mul", total, build.constant(share, build.dtype(total)))


register(
    Operator(
        name="AveragePool",
        since=11,
        summary="Average over a sliding window of [N, C, ...], 1-D to 3-D",
        inputs=(Input("X", FLOAT),),
        outputs=(Output("Y", FLOAT),),
        attributes=(
            AUTO_PAD,
            CEIL_MODE,
            Attribute("count_include_pad", "int", 0, allowed=(0, 1)),
            Attribute("dilations", "ints", minimum=1, since=19),
            POOL_SHAPE,
            PADS,
            STRIDES,
        ),
        rules=(*_RULES, *_GEOMETRY),
        shapes=_shapes,
        reference=_average_pool,
        expansion=_expand_average_pool,
        needs=_needs,
        laws=Law.HOMOGENEOUS,
        window=pool_window,
        uniform=_of_blocks,
    )
)
