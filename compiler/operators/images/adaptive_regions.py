"""RoiAlign with sampling_ratio 0: regions with as many samples as their bins have elements.

A bin of ``size`` elements has n = ceil(size) samples at distances of ``size`` / n, which is more than half an
element unless n is 1. So however large a region is, few samples are near an element, and few are in the
image.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from compiler.operators.elements.casting import CAST_NUMBERS
from compiler.operators.expansion.builder import Builder
from compiler.operators.expansion.parts import permuted, reshaped
from compiler.operators.record import Call

from .sampling import clamped, corners, edge_outside

_NEAR = np.arange(-1, 6)
"""Numbers of the samples, from the first one, that can be less than an element away, with one more at each
end."""
_LOWEST = -3.4028234663852886e38


@dataclass(frozen=True)
class Bins:
    """The bins of all regions along an axis of the image.

    ``start`` and ``size`` [R, 1]: the beginning of a region, and the size of its bins, in elements.
    """

    start: str
    size: str
    count: int
    image: int  # elements of the image along the axis


class _Axis:
    """The samples of bins along an axis. Tensors are [R, bins, ...] with ``inner`` more axes."""

    def __init__(self, build: Builder, bins: Bins, inner: int) -> None:
        self.build, self.bins = build, bins
        regions, ones = build.shape(bins.start)[0], (1,) * inner
        column = np.arange(bins.count)[None]
        first = build("Add", bins.start, build("Mul", bins.size, build.constant(column, "float32")))
        self.first = reshaped(build, first, regions, bins.count, *ones)
        self.size = reshaped(build, bins.size, regions, 1, *ones)
        self.samples = build("Ceil", self.size)
        self.divisor = build("Max", self.samples, build.like(self.size, 1))

    def number_at(self, place: str) -> str:
        """Return the number, with a fraction, that a sample at a place has in its bin."""
        step = self.build("Div", self.size, self.divisor)
        distance = self.build("Sub", place, self.first)
        at = self.build("Div", distance, self.build("Max", step, self.build.like(step, 0.5)))
        return self.build("Sub", at, self.build.like(at, 0.5))

    def place_of(self, number: str) -> str:
        """Return the place of a sample."""
        middle = self.build("Add", number, self.build.like(number, 0.5))
        offset = self.build("Div", self.build("Mul", middle, self.size), self.divisor)
        return self.build("Add", self.first, offset)

    def exists(self, number: str) -> str:
        """Return truth values: True where a bin has a sample of this number."""
        low = self.build("GreaterOrEqual", number, self.build.like(number, 0))
        return self.build("And", low, self.build("Less", number, self.samples))

    def is_inside(self, place: str) -> str:
        """Return truth values: True where a sample reads the image, being at most an element outside."""
        low = self.build("GreaterOrEqual", place, self.build.like(place, -1))
        return self.build(
            "And", low, self.build("LessOrEqual", place, self.build.like(place, self.bins.image))
        )

    def weights(self) -> str:
        """Return the weight of each element in the mean of each bin: [R, bins, elements]."""
        build, size = self.build, self.bins.image
        elements = build.constant(np.arange(size).reshape(1, 1, -1, 1), "float32")
        before = build("Floor", self.number_at(build("Sub", elements, build.like(elements, 1))))
        number = build("Add", before, build.constant(_NEAR.reshape(1, 1, 1, -1), "float32"))
        place = self.place_of(number)
        distance = build("Abs", build("Sub", clamped(build, place, size), elements))
        near = build("Max", build("Sub", build.like(distance, 1), distance), build.like(distance, 0))
        counts = build("And", self.exists(number), self.is_inside(place))
        parts = build("Mul", near, build("Cast", counts, to=CAST_NUMBERS["float32"]))
        total = build("ReduceSum", parts, build.ints(3), keepdims=1)
        return reshaped(build, build("Div", total, self.divisor), *build.shape(total)[:3])


def means(build: Builder, call: Call, rows: Bins, columns: Bins) -> str:
    """Return the means of the bins [R, C, rows, columns] as products of the image and a matrix per axis."""
    images, channels, height, width = call.shape(0)
    regions = call.shape(1)[0]
    down, across = (_Axis(build, bins, 2).weights() for bins in (rows, columns))
    chosen = build("Gather", build.constant(np.eye(images), "float32"), call.name(2), axis=0)
    chosen = reshaped(build, chosen, regions, 1, images, 1)
    matrix = build("Mul", reshaped(build, down, regions, rows.count, 1, height), chosen)
    matrix = reshaped(build, matrix, regions * rows.count, images * height)
    flat = reshaped(build, permuted(build, call.name(0), 0, 2, 3, 1), images * height, width * channels)
    bands = reshaped(build, build("MatMul", matrix, flat), regions, rows.count, width, channels)
    made = build("MatMul", reshaped(build, across, regions, 1, columns.count, width), bands)
    return permuted(build, made, 0, 3, 1, 2)


def samples_of(call: Call) -> int:
    """Return the number of samples that the program computes for all bins, when it cannot sum elements."""
    per_bin = (_most_inside(size) for size in call.shape(0)[2:])
    bins = call.integer("output_height") * call.integer("output_width")
    return math.prod(per_bin) * bins * call.shape(1)[0]


def _most_inside(size: int) -> int:
    """Bound the number of a bin's samples inside -1 to ``size``, at distances of over half an element."""
    return 2 * (size + 1) + 2


def largest(build: Builder, call: Call, rows: Bins, columns: Bins) -> str:
    """Return the largest weighted elements around the samples of each bin, [R, C, rows, columns].

    Only samples that can be inside of the image are computed; outside everything is 0.
    """
    _, channels, height, width = call.shape(0)
    regions, spread = call.shape(1)[0], []
    exists, inside, left_out = "", "", ""
    for at, bins in enumerate((rows, columns)):
        axis, most = _Axis(build, bins, 1), _most_inside(bins.image)
        begin = build("Ceil", axis.number_at(build.constant(np.full((1, 1, 1), -1.0), "float32")))
        begin = build("Max", build("Sub", begin, build.like(begin, 1)), build.like(begin, 0))
        number = build("Add", begin, build.constant(np.arange(most).reshape(1, 1, -1), "float32"))
        place = axis.place_of(number)
        shape = (regions, bins.count, 1, most, 1) if at == 0 else (regions, 1, bins.count, 1, most)
        spread.append(reshaped(build, clamped(build, place, bins.image), *shape))
        exists = _both(build, exists, reshaped(build, axis.exists(number), *shape))
        inside = _both(build, inside, reshaped(build, axis.is_inside(place), *shape))
        end = build("Add", begin, build.like(begin, most))
        more = build("Or", build("Greater", begin, build.like(begin, 0)), build("Less", end, axis.samples))
        none = build("Or", more, build("LessOrEqual", axis.samples, build.like(axis.samples, 0)))
        none = reshaped(build, none, *(shape[0], shape[1], shape[2]))
        left_out = build("Or", left_out, none) if left_out else none
    whole = build.shape(exists)
    points = [reshaped(build, build("Expand", place, build.ints(*whole)), -1) for place in spread]
    first = build("Mul", call.name(2), build.constant(np.array(height * width), "int64"))
    first = build("Expand", reshaped(build, first, regions, 1, 1, 1, 1), build.ints(*whole))
    parts = corners(build, call.name(0), reshaped(build, first, -1), points, "linear", edge_outside)
    value = reshaped(build, build("Max", *parts), *whole, channels)
    for mask, other in ((inside, 0.0), (exists, _LOWEST)):
        value = build("Where", reshaped(build, mask, *whole, 1), value, build.like(value, other))
    found = build("ReduceMax", value, build.ints(3, 4), keepdims=0)
    outside = reshaped(build, left_out, *whole[:3], 1)
    found = build("Where", outside, build("Max", found, build.like(found, 0)), found)
    return permuted(build, found, 0, 3, 1, 2)


def _both(build: Builder, one: str, other: str) -> str:
    return build("And", one, other) if one else other
