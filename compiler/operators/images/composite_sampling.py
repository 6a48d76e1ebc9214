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
from compiler.operators.expansion import Builder
from compiler.operators.parts import cut, permuted, reshaped
from compiler.operators.record import Attribute, Call, Input, Output, Types, rule
from compiler.operators.shapes.composite_shapes import _operator, name_of
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


def clamped(b: Builder, x: str, size: int) -> str:
    return b("Min", b("Max", x, b.like(x, 0)), b.like(x, size - 1))


def _number(b: Builder, truth: str) -> str:
    return b("Cast", truth, to=CAST_NUMBERS["float32"])


def _within(b: Builder, x: str, low: float, high: float) -> str:
    """1.0 where x lies in low .. high, else 0.0."""
    both = b("And", b("GreaterOrEqual", x, b.like(x, low)), b("LessOrEqual", x, b.like(x, high)))
    return _number(b, both)


def zero_outside(b: Builder, index: str, size: int) -> Tap:
    """Elements outside are 0."""
    return Tap(clamped(b, index, size), _within(b, index, 0, size - 1))


def edge_outside(b: Builder, index: str, size: int) -> Tap:
    """Elements outside are those at the edge."""
    return Tap(clamped(b, index, size), None)


def _mirrored(b: Builder, x: str, low: float, high: float) -> str:
    """x reflected at low and high until it lies between them."""
    span = high - low
    if span <= 0:
        return b("Mul", x, b.like(x, 0))
    distance = b("Abs", b("Sub", x, b.like(x, low)))
    left = b("Mod", distance, b.like(x, 2 * span), fmod=1)
    return b("Add", b("Min", left, b("Sub", b.like(x, 2 * span), left)), b.like(x, low))


def _polynomial(b: Builder, x: str, coefficients: Sequence[float]) -> str:
    """By Horner's rule, the highest power first."""
    total = b.like(x, coefficients[0])
    for coefficient in coefficients[1:]:
        total = b("Add", b("Mul", total, x), b.like(x, coefficient))
    return total


def _spread(b: Builder, x: str, mode: str) -> list[tuple[str, str | None]]:
    """Index and weight of the elements along an axis that a place is made of."""
    if mode == "nearest":
        return [(b("Round", x), None)]
    whole = b("Floor", x)
    part = b("Sub", x, whole)
    if mode == "linear":
        return [(whole, b("Sub", b.like(part, 1), part)), (b("Add", whole, b.like(whole, 1)), part)]
    a = -0.75  # Keys, Cubic Convolution Interpolation for Digital Image Processing, 1981
    kernels = ((a, -2 * a, a, 0), (a + 2, -a - 3, 0, 1), (-a - 2, 2 * a + 3, -a, 0), (-a, a, 0, 0))
    return [
        (b("Add", whole, b.like(whole, at - 1)), _polynomial(b, part, kernel))
        for at, kernel in enumerate(kernels)
    ]


def corners(
    b: Builder, image: str, first: str, places: Sequence[str], mode: str, outside: Outside
) -> list[str]:
    """Weighted rows [P, C] around P places; their sum is the sample.

    ``image``: [N, C, *D], ``first``: the number [P] of the first row of each place's image, an int64,
    ``places``: one vector [P] of floats per axis of D.
    """
    batch, channels, *sizes = b.shape(image)
    order = (0, *range(2, 2 + len(sizes)), 1)
    table = reshaped(b, permuted(b, image, *order), batch * math.prod(sizes), channels)
    axes = []
    for x, size in zip(places, sizes, strict=True):
        taps = []
        for index, weight in _spread(b, x, mode):
            tap = outside(b, index, size)
            factors = [factor for factor in (weight, tap.weight) if factor is not None]
            taps.append(Tap(tap.index, _product(b, factors)))
        axes.append(taps)
    return [_corner(b, table, first, chosen, sizes) for chosen in itertools.product(*axes)]


def _product(b: Builder, factors: Sequence[str]) -> str | None:
    if not factors:
        return None
    total = factors[0]
    for factor in factors[1:]:
        total = b("Mul", total, factor)
    return total


def _corner(b: Builder, table: str, first: str, taps: Sequence[Tap], sizes: Sequence[int]) -> str:
    row = taps[0].index
    for tap, size in zip(taps[1:], sizes[1:], strict=True):
        row = b("Add", b("Mul", row, b.like(row, size)), tap.index)
    rows = b("Gather", table, b("Add", b("Cast", row, to=CAST_NUMBERS["int64"]), first), axis=0)
    weight = _product(b, [tap.weight for tap in taps if tap.weight is not None])
    return rows if weight is None else b("Mul", rows, reshaped(b, weight, -1, 1))


def _sum(b: Builder, parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else b("Sum", *parts)


def first_rows(b: Builder, images: int, rows: int, places: int) -> str:
    """For ``places`` places in each image the number of its image's first row."""
    numbers: Array = np.repeat(np.arange(images) * rows, places)
    return b.constant(numbers, "int64")


@rule
def images_are_addressable(call: Call) -> str | None:
    """The spatial axes of X must have 1 to 2**24 positions together"""
    return None if 1 <= math.prod(call.shape(0)[2:]) <= _EXACT else f"X {list(call.shape(0))}"


# --- GridSample ------------------------------------------------------------------------------------------


def _grid_sample(b: Builder, call: Call) -> tuple[str, ...]:
    x, (batch, channels, *sizes), grid = name_of(call, 0), call.shape(0), name_of(call, 1)
    output, rank = call.shape(1)[1:-1], len(sizes)
    count, mode = math.prod(output), call.string("mode")
    aligned, padding = bool(call.integer("align_corners")), call.string("padding_mode")
    flat, places = reshaped(b, grid, batch * count, rank), []
    for axis, size in enumerate(sizes):  # the grid has the last axis first
        place = reshaped(b, cut(b, flat, 1, rank - 1 - axis, rank - axis), batch * count)
        scale, shift = ((size - 1) / 2, (size - 1) / 2) if aligned else (size / 2, (size - 1) / 2)
        place = b("Add", b("Mul", place, b.like(place, scale)), b.like(place, shift))
        place = b("Round", place) if mode == "nearest" else place
        places.append(_padded(b, place, size, padding, aligned))
    first = first_rows(b, batch, math.prod(sizes), count)
    outside = {"zeros": zero_outside, "border": edge_outside}.get(padding, _reflected(aligned))
    rows = _sum(b, corners(b, x, first, places, mode, outside))
    made = permuted(b, reshaped(b, rows, batch, count, channels), 0, 2, 1)
    return (reshaped(b, made, batch, channels, *output),)


def _borders(size: int, aligned: bool) -> tuple[float, float]:
    return (0.0, size - 1.0) if aligned else (-0.5, size - 0.5)


def _padded(b: Builder, x: str, size: int, padding: str, aligned: bool) -> str:
    """A place outside the borders brought inside."""
    low, high = _borders(size, aligned)
    if padding == "reflection":
        return _mirrored(b, x, low, high)
    if padding == "border":
        beyond = b("Or", b("Less", x, b.like(x, low)), b("Greater", x, b.like(x, high)))
        return b("Where", beyond, clamped(b, x, size), x)
    return x


def _reflected(aligned: bool) -> Outside:
    def outside(b: Builder, index: str, size: int) -> Tap:
        return Tap(clamped(b, _mirrored(b, index, *_borders(size, aligned)), size), None)

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


_operator(
    "GridSample",
    20,
    "Images read at places that a grid names, in -1 .. 1 of each axis",
    (Input("X", FLOAT.named("T1")), Input("grid", FLOAT.named("T2"))),
    (Output("Y", FLOAT.named("T1")),),
    _grid_sample,
    (
        Attribute("align_corners", "int", 0, allowed=(0, 1)),
        Attribute("mode", "string", "linear", allowed=("linear", "nearest", "cubic")),
        Attribute("padding_mode", "string", "zeros", allowed=("zeros", "border", "reflection")),
    ),
    (rank_within("X", 3, 5, "[N, C, *image]"), grid_has_coordinates, cubic_of_planes, images_are_addressable),
    precise=True,
)

# --- RoiAlign --------------------------------------------------------------------------------------------


def _span(b: Builder, call: Call, first: int, count: int) -> tuple[str, str]:
    """Start and extent [R, 1] of the regions along an axis; ``first`` is the column of the start."""
    rois, half = name_of(call, 1), call.string("coordinate_transformation_mode") == "half_pixel"
    scale, shift = call.number("spatial_scale"), 0.5 if half else 0.0
    ends = []
    for column in (first, first + 2):
        end = cut(b, rois, 1, column, column + 1)
        ends.append(b("Sub", b("Mul", end, b.like(end, scale)), b.like(end, shift)))
    extent = b("Sub", ends[1], ends[0])
    return ends[0], extent if half else b("Max", extent, b.like(extent, 1.0))


def _samples(b: Builder, call: Call, first: int, count: int) -> str:
    """Places [R, count * sampling_ratio] along an axis: evenly spread over its bins."""
    ratio = call.integer("sampling_ratio")
    start, extent = _span(b, call, first, count)
    even = (np.arange(count * ratio) + 0.5) / (count * ratio)
    return b("Add", start, b("Mul", extent, b.constant(even[None], b.dtype(extent))))


def _roi_align(b: Builder, call: Call) -> tuple[str, ...]:
    x, (_, channels, height, width), regions = name_of(call, 0), call.shape(0), call.shape(1)[0]
    counts, ratio = (
        (call.integer("output_height"), call.integer("output_width")),
        call.integer("sampling_ratio"),
    )
    rows, columns = counts[0] * ratio, counts[1] * ratio
    spread: Shape = (regions, rows, columns)
    places, weight = [], ""
    for axis, size in enumerate((height, width)):
        place = _samples(b, call, 1 - axis, counts[axis])
        place = reshaped(b, place, *((regions, rows, 1) if axis == 0 else (regions, 1, columns)))
        place = reshaped(b, b("Expand", place, b.ints(*spread)), math.prod(spread))
        inside = _within(b, place, -1.0, size)
        weight = b("Mul", weight, inside) if weight else inside
        places.append(clamped(b, place, size))
    number = b("Cast", name_of(call, 2), to=CAST_NUMBERS["int64"])
    first = b("Mul", reshaped(b, number, regions, 1), b.constant(np.array(height * width), "int64"))
    first = reshaped(b, b("Expand", first, b.ints(regions, rows * columns)), math.prod(spread))
    parts = corners(b, x, first, places, "linear", edge_outside)
    largest = call.string("mode") == "max"
    value = b("Mul", b("Max", *parts) if largest else _sum(b, parts), reshaped(b, weight, -1, 1))
    bins = reshaped(b, value, regions, counts[0], ratio, counts[1], ratio, channels)
    pooled = b("ReduceMax" if largest else "ReduceMean", bins, axes=(2, 4), keepdims=0)
    return (permuted(b, pooled, 0, 3, 1, 2),)


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


_operator(
    "RoiAlign",
    16,
    "Regions of images, each averaged in bins",
    (
        Input("X", FLOAT.named("T1")),
        Input("rois", FLOAT.named("T1")),
        Input("batch_indices", Types("T2", ("int64",))),
    ),
    (Output("Y", FLOAT.named("T1")),),
    _roi_align,
    (
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
    (rank_within("X", 4, 4, "[N, C, H, W]"), images_are_addressable, regions_are_boxes, samples_are_counted),
    precise=True,
)
