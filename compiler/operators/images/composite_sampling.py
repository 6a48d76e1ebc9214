"""Images read at computed places: GridSample, RoiAlign, DeformConv.

Places are in elements: 0 is the middle of the first element of an axis. An image is a table with a row of
channels for each position; a sample is a weighted sum of rows.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from compiler.graph import Array, Shape
from compiler.operators.elements.casting import CAST_NUMBERS
from compiler.operators.expansion.builder import Builder
from compiler.operators.expansion.composite import composite
from compiler.operators.expansion.parts import permuted, reshaped, sliced
from compiler.operators.record import Attribute, Call, Input, Output, Types, rule
from compiler.operators.types import FLOAT, rank_within

_EXACT = 1 << 24
"""Integers up to this one are FP32 numbers."""


@dataclass(frozen=True)
class Tap:
    """One element along one axis: its index and its weight, floats; None is 1."""

    index: str
    weight: str | None


Outside = Callable[[Builder, str, int], Tap]
"""What stands for an index, given as a float, that may lie outside an axis of some size."""


def clamped(build: Builder, x: str, size: int) -> str:
    return build("Min", build("Max", x, build.like(x, 0)), build.like(x, size - 1))


def _number(build: Builder, truth: str) -> str:
    return build("Cast", truth, to=CAST_NUMBERS["float32"])


def _within(build: Builder, x: str, low: float, high: float) -> str:
    """1.0 where x lies in low .. high, else 0.0."""
    both = build(
        "And", build("GreaterOrEqual", x, build.like(x, low)), build("LessOrEqual", x, build.like(x, high))
    )
    return _number(build, both)


def zero_outside(build: Builder, index: str, size: int) -> Tap:
    """Elements outside are 0."""
    return Tap(clamped(build, index, size), _within(build, index, 0, size - 1))


def edge_outside(build: Builder, index: str, size: int) -> Tap:
    """Elements outside are those at the edge."""
    return Tap(clamped(build, index, size), None)


def _mirrored(build: Builder, x: str, low: float, high: float) -> str:
    """x reflected at low and high until it lies between them."""
    span = high - low
    if span <= 0:
        return build("Mul", x, build.like(x, 0))
    distance = build("Abs", build("Sub", x, build.like(x, low)))
    left = build("Mod", distance, build.like(x, 2 * span), fmod=1)
    return build("Add", build("Min", left, build("Sub", build.like(x, 2 * span), left)), build.like(x, low))


def _polynomial(build: Builder, x: str, coefficients: Sequence[float]) -> str:
    """By Horner's rule, the highest power first."""
    total = build.like(x, coefficients[0])
    for coefficient in coefficients[1:]:
        total = build("Add", build("Mul", total, x), build.like(x, coefficient))
    return total


def _spread(build: Builder, x: str, mode: str) -> list[tuple[str, str | None]]:
    """Index and weight of the elements along an axis that a place is made of."""
    if mode == "nearest":
        return [(build("Round", x), None)]
    whole = build("Floor", x)
    part = build("Sub", x, whole)
    if mode == "linear":
        return [
            (whole, build("Sub", build.like(part, 1), part)),
            (build("Add", whole, build.like(whole, 1)), part),
        ]
    a = -0.75  # Keys, Cubic Convolution Interpolation for Digital Image Processing, 1981
    kernels = ((a, -2 * a, a, 0), (a + 2, -a - 3, 0, 1), (-a - 2, 2 * a + 3, -a, 0), (-a, a, 0, 0))
    return [
        (build("Add", whole, build.like(whole, at - 1)), _polynomial(build, part, kernel))
        for at, kernel in enumerate(kernels)
    ]


def corners(
    build: Builder, image: str, first: str, places: Sequence[str], mode: str, outside: Outside
) -> list[str]:
    """Weighted rows [P, C] around P places; their sum is the sample.

    ``image``: [N, C, *D], ``first``: the number [P] of the first row of each place's image, an int64,
    ``places``: one vector [P] of floats per axis of D.
    """
    batch, channels, *sizes = build.shape(image)
    order = (0, *range(2, 2 + len(sizes)), 1)
    table = reshaped(build, permuted(build, image, *order), batch * math.prod(sizes), channels)
    axes = []
    for x, size in zip(places, sizes, strict=True):
        taps = []
        for index, weight in _spread(build, x, mode):
            tap = outside(build, index, size)
            factors = [factor for factor in (weight, tap.weight) if factor is not None]
            taps.append(Tap(tap.index, _product(build, factors)))
        axes.append(taps)
    return [_corner(build, table, first, chosen, sizes) for chosen in itertools.product(*axes)]


def _product(build: Builder, factors: Sequence[str]) -> str | None:
    if not factors:
        return None
    total = factors[0]
    for factor in factors[1:]:
        total = build("Mul", total, factor)
    return total


def _corner(build: Builder, table: str, first: str, taps: Sequence[Tap], sizes: Sequence[int]) -> str:
    row = taps[0].index
    for tap, size in zip(taps[1:], sizes[1:], strict=True):
        row = build("Add", build("Mul", row, build.like(row, size)), tap.index)
    rows = build("Gather", table, build("Add", build("Cast", row, to=CAST_NUMBERS["int64"]), first), axis=0)
    weight = _product(build, [tap.weight for tap in taps if tap.weight is not None])
    return rows if weight is None else build("Mul", rows, reshaped(build, weight, -1, 1))


def _sum(build: Builder, parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else build("Sum", *parts)


def first_rows(build: Builder, images: int, rows: int, places: int) -> str:
    """For ``places`` places in each image the number of its image's first row."""
    numbers: Array = np.repeat(np.arange(images) * rows, places)
    return build.constant(numbers, "int64")


@rule
def images_are_addressable(call: Call) -> str | None:
    """The spatial axes of X must have 1 to 2**24 positions together"""
    return None if 1 <= math.prod(call.shape(0)[2:]) <= _EXACT else f"X {list(call.shape(0))}"


# --- GridSample ------------------------------------------------------------------------------------------


def _grid_sample(build: Builder, call: Call) -> tuple[str, ...]:
    x, (batch, channels, *sizes), grid = call.name(0), call.shape(0), call.name(1)
    output, rank = call.shape(1)[1:-1], len(sizes)
    count, mode = math.prod(output), call.string("mode")
    aligned, padding = bool(call.integer("align_corners")), call.string("padding_mode")
    flat, places = reshaped(build, grid, batch * count, rank), []
    for axis, size in enumerate(sizes):  # the grid has the last axis first
        place = reshaped(build, sliced(build, flat, 1, rank - 1 - axis, rank - axis), batch * count)
        scale, shift = ((size - 1) / 2, (size - 1) / 2) if aligned else (size / 2, (size - 1) / 2)
        place = build("Add", build("Mul", place, build.like(place, scale)), build.like(place, shift))
        place = build("Round", place) if mode == "nearest" else place
        places.append(_padded(build, place, size, padding, aligned))
    first = first_rows(build, batch, math.prod(sizes), count)
    outside = {"zeros": zero_outside, "border": edge_outside}.get(padding, _reflected(aligned))
    rows = _sum(build, corners(build, x, first, places, mode, outside))
    made = permuted(build, reshaped(build, rows, batch, count, channels), 0, 2, 1)
    return (reshaped(build, made, batch, channels, *output),)


def _borders(size: int, aligned: bool) -> tuple[float, float]:
    return (0.0, size - 1.0) if aligned else (-0.5, size - 0.5)


def _padded(build: Builder, x: str, size: int, padding: str, aligned: bool) -> str:
    """A place outside the borders brought inside."""
    low, high = _borders(size, aligned)
    if padding == "reflection":
        return _mirrored(build, x, low, high)
    if padding == "border":
        beyond = build("Or", build("Less", x, build.like(x, low)), build("Greater", x, build.like(x, high)))
        return build("Where", beyond, clamped(build, x, size), x)
    return x


def _reflected(aligned: bool) -> Outside:
    def outside(build: Builder, index: str, size: int) -> Tap:
        return Tap(clamped(build, _mirrored(build, index, *_borders(size, aligned)), size), None)

    return outside


@rule
def grid_has_coordinates(call: Call) -> str | None:
    """grid must be [N, *output, r - 2], r being the rank of X [N, C, *image]"""
    image, grid = call.shape(0), call.shape(1)
    fits = len(grid) == len(image) and grid[0] == image[0] and grid[-1] == len(image) - 2
    return None if fits else f"grid {list(grid)} for X {list(image)}"


@rule
def cubic_of_planes(call: Call) -> str | None:
    """mode cubic needs images of one or two axes"""
    return f"X {list(call.shape(0))}" if call.string("mode") == "cubic" and call.tensor(0).rank > 4 else None


composite(
    name="GridSample",
    since=20,
    summary="Images read at places that a grid names, in -1 .. 1 of each axis",
    inputs=(Input("X", FLOAT.named("T1")), Input("grid", FLOAT.named("T2"))),
    outputs=(Output("Y", FLOAT.named("T1")),),
    expansion=_grid_sample,
    attributes=(
        Attribute("align_corners", "int", 0, allowed=(0, 1)),
        Attribute("mode", "string", "linear", allowed=("linear", "nearest", "cubic")),
        Attribute("padding_mode", "string", "zeros", allowed=("zeros", "border", "reflection")),
    ),
    rules=(
        rank_within("X", 3, 5, "[N, C, *image]"),
        grid_has_coordinates,
        cubic_of_planes,
        images_are_addressable,
    ),
    precise=True,
)

# --- RoiAlign --------------------------------------------------------------------------------------------


def _span(build: Builder, call: Call, first: int, count: int) -> tuple[str, str]:
    """Start and extent [R, 1] of the regions along an axis; ``first`` is the column of the start."""
    rois, half = call.name(1), call.string("coordinate_transformation_mode") == "half_pixel"
    scale, shift = call.number("spatial_scale"), 0.5 if half else 0.0
    ends = []
    for column in (first, first + 2):
        end = sliced(build, rois, 1, column, column + 1)
        ends.append(build("Sub", build("Mul", end, build.like(end, scale)), build.like(end, shift)))
    extent = build("Sub", ends[1], ends[0])
    return ends[0], extent if half else build("Max", extent, build.like(extent, 1.0))


def _samples(build: Builder, call: Call, first: int, count: int) -> str:
    """Places [R, count * sampling_ratio] along an axis: evenly spread over its bins."""
    ratio = call.integer("sampling_ratio")
    start, extent = _span(build, call, first, count)
    even = (np.arange(count * ratio) + 0.5) / (count * ratio)
    return build("Add", start, build("Mul", extent, build.constant(even[None], build.dtype(extent))))


def _roi_align(build: Builder, call: Call) -> tuple[str, ...]:
    x, (_, channels, height, width), regions = call.name(0), call.shape(0), call.shape(1)[0]
    counts, ratio = (
        (call.integer("output_height"), call.integer("output_width")),
        call.integer("sampling_ratio"),
    )
    rows, columns = counts[0] * ratio, counts[1] * ratio
    spread: Shape = (regions, rows, columns)
    places, weight = [], ""
    for axis, size in enumerate((height, width)):
        place = _samples(build, call, 1 - axis, counts[axis])
        place = reshaped(build, place, *((regions, rows, 1) if axis == 0 else (regions, 1, columns)))
        place = reshaped(build, build("Expand", place, build.ints(*spread)), math.prod(spread))
        inside = _within(build, place, -1.0, size)
        weight = build("Mul", weight, inside) if weight else inside
        places.append(clamped(build, place, size))
    number = build("Cast", call.name(2), to=CAST_NUMBERS["int64"])
    first = build(
        "Mul", reshaped(build, number, regions, 1), build.constant(np.array(height * width), "int64")
    )
    first = reshaped(build, build("Expand", first, build.ints(regions, rows * columns)), math.prod(spread))
    parts = corners(build, x, first, places, "linear", edge_outside)
    largest = call.string("mode") == "max"
    value = build(
        "Mul", build("Max", *parts) if largest else _sum(build, parts), reshaped(build, weight, -1, 1)
    )
    bins = reshaped(build, value, regions, counts[0], ratio, counts[1], ratio, channels)
    pooled = build("ReduceMax" if largest else "ReduceMean", bins, axes=(2, 4), keepdims=0)
    return (permuted(build, pooled, 0, 3, 1, 2),)


@rule
def regions_are_boxes(call: Call) -> str | None:
    """rois must be [R, 4] and batch_indices [R]"""
    rois, numbers = call.shape(1), call.shape(2)
    fits = len(rois) == 2 and rois[1] == 4 and numbers == rois[:1]
    return None if fits else f"rois {list(rois)}, batch_indices {list(numbers)}"


@rule
def samples_are_counted(call: Call) -> str | None:
    """sampling_ratio must be above 0: with 0 the number of samples depends on the regions"""
    ratio = call.integer("sampling_ratio")
    return None if ratio > 0 else f"sampling_ratio {ratio}"


composite(
    name="RoiAlign",
    since=16,
    summary="Regions of images, each averaged in bins",
    inputs=(
        Input("X", FLOAT.named("T1")),
        Input("rois", FLOAT.named("T1")),
        Input("batch_indices", Types("T2", ("int64",))),
    ),
    outputs=(Output("Y", FLOAT.named("T1")),),
    expansion=_roi_align,
    attributes=(
        Attribute(
            "coordinate_transformation_mode",
            "string",
            "half_pixel",
            allowed=("half_pixel", "output_half_pixel"),
        ),
        Attribute("mode", "string", "avg", allowed=("avg", "max")),
        Attribute("output_height", "int", 1, minimum=1),
        Attribute("output_width", "int", 1, minimum=1),
        Attribute("sampling_ratio", "int", 0, minimum=0),
        Attribute("spatial_scale", "float", 1.0),
    ),
    rules=(
        rank_within("X", 4, 4, "[N, C, H, W]"),
        images_are_addressable,
        regions_are_boxes,
        samples_are_counted,
    ),
    precise=True,
)
