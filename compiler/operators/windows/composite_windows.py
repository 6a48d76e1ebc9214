"""Windows that the engines do not slide: dilated and three-dimensional pools, indices of maxima, transposed
convolution, convolution over volumes, patches of integers."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np

from compiler.graph import GraphError
from compiler.operators.expansion.builder import Builder
from compiler.operators.expansion.composite import composite
from compiler.operators.expansion.parts import gathered, permuted, reshaped, sliced
from compiler.operators.record import OPERATORS, Attribute, Call, Input, Output, rule
from compiler.operators.types import FLOAT, rank_within
from compiler.operators.windows.geometry import AUTO_PAD, DILATIONS, STRIDES, Window

from .conv import conv_window
from .pool import pool_window


def padded(build: Builder, x: str, window: Window, fill: float) -> str:
    """The image with its padding, as far as the last window reaches."""
    widths = []
    for axis, size in enumerate(window.image):
        needed = (window.output[axis] - 1) * window.strides[axis] + window.extents[axis]
        widths.append((window.pads_begin[axis], max(needed - size - window.pads_begin[axis], 0)))
    if not any(itertools.chain(*widths)):
        return x
    pads = (0, 0, *(before for before, _ in widths), 0, 0, *(behind for _, behind in widths))
    return build("Pad", x, build.ints(*pads), build.like(x, fill))


_MOST_TAPS = 16384


def taps(build: Builder, image: str, window: Window) -> list[str]:
    """For each position in the kernel the part of a padded image that meets it."""
    if math.prod(window.kernel) > _MOST_TAPS:
        raise GraphError([f"is computed tap by tap, at most {_MOST_TAPS} of them; found {window.kernel}"])
    axes = build.ints(*range(2, 2 + len(window.image)))
    found = []
    for places in window.taps():
        spatial = list(places[2:])
        starts, ends = build.ints(*(p.start for p in spatial)), build.ints(*(p.stop for p in spatial))
        found.append(build("Slice", image, starts, ends, axes, build.ints(*(p.step for p in spatial))))
    return found


def _max_pool(build: Builder, call: Call) -> tuple[str, ...] | None:
    window, x = pool_window(call), call.name(0)
    plain = call.tensor(0).is_float and max(window.dilations) == 1 and len(window.image) < 3
    if plain and not call.wants(1):
        return None
    lowest = -math.inf if call.tensor(0).is_float else float(np.iinfo(call.tensor(0).dtype).min)
    image = padded(build, x, window, lowest)
    if not call.wants(1):
        return (_largest(build, image, window), "")
    parts = taps(build, image, window)
    best = build("Max", *parts)
    return (best, _places(build, call, window, parts, best))


def _largest(build: Builder, image: str, window: Window) -> str:
    """The largest element of each window over a padded image, one axis after the other."""
    rank = len(window.image)
    for axis in range(rank):
        sizes = build.shape(image)[2:]
        alone = replace(
            window,
            image=sizes,
            kernel=tuple(window.kernel[at] if at == axis else 1 for at in range(rank)),
            strides=tuple(window.strides[at] if at == axis else 1 for at in range(rank)),
            output=tuple(window.output[at] if at == axis else sizes[at] for at in range(rank)),
        )
        image = build("Max", *taps(build, image, alone))
    return image


def _places(build: Builder, call: Call, window: Window, parts: list[str], best: str) -> str:
    """The index in the whole tensor of the first element of each window that is the largest."""
    planes = np.arange(math.prod(call.shape(0)[:2])).reshape(*call.shape(0)[:2], *(1,) * len(window.image))
    order = -1 if call.integer("storage_order") else 1
    numbers = np.arange(math.prod(window.image)).reshape(window.image[::order])
    numbers = numbers.transpose() if order < 0 else numbers
    spread = window.padded(numbers[None, None], 0)
    found = build.constant(np.zeros((1,) * (2 + len(window.image)), np.int64), "int64")
    known = list(zip(parts, window.taps(), strict=True))
    for part, places in reversed(known):
        index = spread[places] + planes * math.prod(window.image)
        found = build("Where", build("Equal", part, best), build.constant(index, "int64"), found)
    return found


def _average_pool(build: Builder, call: Call) -> tuple[str, ...] | None:
    window = pool_window(call)
    if max(window.dilations) == 1 and len(window.image) < 3:
        return None
    ones = np.ones(window.image)[None, None]
    if call.integer("count_include_pad"):
        margins = zip(window.pads_begin, window.pads_end, strict=True)
        framed = np.pad(ones, [(0, 0), (0, 0), *margins], constant_values=1.0)
        bare = replace(
            window,
            image=framed.shape[2:],
            pads_begin=(0,) * len(window.image),
            pads_end=(0,) * len(window.image),
        )
        counted = bare.padded(framed, 0.0)
    else:
        counted = window.padded(ones, 0.0)
    count = np.zeros((1, 1, *window.output))
    for places in window.taps():
        count += counted[places]
    total = build("Sum", *taps(build, padded(build, call.name(0), window, 0.0), window))
    return (build("Mul", total, build.constant(1 / count, call.tensor(0).dtype)),)


def _conv_of_padded(build: Builder, call: Call, window: Window) -> tuple[str, ...] | None:
    """Padding that a window can lie in as a whole is made beforehand."""
    pads = zip(window.extents, window.pads_begin, window.pads_end, strict=True)
    if all(max(before, behind) < extent for extent, before, behind in pads):
        return None
    x, rest = padded(build, call.name(0), window, 0.0), [call.name(at) for at in (1, 2) if call.has(at)]
    group = call.integer("group")
    return (build("Conv", x, *rest, strides=window.strides, dilations=window.dilations, group=group),)


def _conv(build: Builder, call: Call) -> tuple[str, ...] | None:
    """Over a volume: the sum over the depth of the kernel of convolutions over its slices."""
    window = conv_window(call)
    if len(window.image) < 3:
        return _conv_of_padded(build, call, window)
    depth, height, width = window.output
    flat = tuple(value for pair in ((window.pads_begin[1:]), (window.pads_end[1:])) for value in pair)
    deep = replace(
        window,
        pads_begin=(window.pads_begin[0], 0, 0),
        output=(depth, *window.image[1:]),
        strides=(window.strides[0], 1, 1),
        dilations=(window.dilations[0], 1, 1),
        kernel=(window.kernel[0], 1, 1),
    )
    image, weights, parts = padded(build, call.name(0), deep, 0.0), call.name(1), []
    batch, channels = call.shape(0)[:2]
    for at, part in enumerate(taps(build, image, deep)):
        rows = reshaped(
            build, permuted(build, part, 0, 2, 1, 3, 4), batch * depth, channels, *window.image[1:]
        )
        plane = sliced(build, weights, 2, at, at + 1)
        maps, per_group = call.shape(1)[:2]
        plane = reshaped(build, plane, maps, per_group, *window.kernel[1:])
        bias = [call.name(2)] if call.has(2) and not at else []
        parts.append(
            build(
                "Conv",
                rows,
                plane,
                *bias,
                strides=window.strides[1:],
                dilations=window.dilations[1:],
                pads=flat,
                group=call.integer("group"),
            )
        )
    total = parts[0] if len(parts) == 1 else build("Sum", *parts)
    maps = call.shape(1)[0]
    return (permuted(build, reshaped(build, total, batch, depth, maps, height, width), 0, 2, 1, 3, 4),)


for _op, _expansion in (("MaxPool", _max_pool), ("AveragePool", _average_pool), ("Conv", _conv)):
    OPERATORS[_op] = replace(OPERATORS[_op], expansion=_expansion)


# --- transposed convolution ------------------------------------------------------------------------------


def _transposed_pads(call: Call) -> tuple[list[tuple[int, int]], list[int]]:
    """What is cut off the full result before and behind each axis, and what output_padding adds."""
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
    """Zeros between the elements of the image, then a convolution with the kernel turned round."""
    x, weights, group = call.name(0), call.name(1), call.integer("group")
    (batch, channels), image = call.shape(0)[:2], call.shape(0)[2:]
    maps, kernel = call.shape(1)[1], call.shape(1)[2:]
    ones = (1,) * len(image)
    strides, dilations = call.integers("strides") or ones, call.integers("dilations") or ones
    cuts, added = _transposed_pads(call)
    if max(strides) > 1:
        apart = reshaped(build, x, batch, channels, *(part for size in image for part in (size, 1)))
        ends = [part for step in strides for part in (0, step - 1)]
        apart = build("Pad", apart, build.ints(*(0,) * (2 + len(ends)), 0, 0, *ends))
        x = reshaped(
            build, apart, batch, channels, *(size * step for size, step in zip(image, strides, strict=True))
        )
    before, behind = [], []
    for axis, (begin, end) in enumerate(cuts):
        margin = (kernel[axis] - 1) * dilations[axis]
        before.append(margin - begin)
        behind.append(margin - end + added[axis] - (strides[axis] - 1))
    x = build("Pad", x, build.ints(0, 0, *before, 0, 0, *behind))
    for axis, size in enumerate(kernel):
        if size > 1:
            weights = gathered(build, weights, 2 + axis, np.arange(size)[::-1])
    weights = reshaped(build, weights, group, channels // group, maps, *kernel)
    weights = permuted(build, weights, 0, 2, 1, *range(3, 3 + len(kernel)))
    weights = reshaped(build, weights, group * maps, channels // group, *kernel)
    bias = [call.name(2)] if call.has(2) else []
    return (build("Conv", x, weights, *bias, dilations=dilations, group=group, strides=ones),)


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
        Attribute("group", "int", 1, minimum=1),
        Attribute("kernel_shape", "ints", minimum=1),
        Attribute("output_padding", "ints", minimum=0),
        Attribute("output_shape", "ints", minimum=1),
        Attribute("pads", "ints"),
        STRIDES,
    ),
    rules=(rank_within("X", 3, 5, "1-D to 3-D"), transposed_channels),
)
