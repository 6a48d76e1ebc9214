"""RoiAlign: regions of images averaged in bins."""

from __future__ import annotations

import math

import numpy as np

from compiler.graph import Shape
from compiler.operators.elements.casting import CAST_NUMBERS
from compiler.operators.expansion.builder import Builder
from compiler.operators.expansion.composite import composite
from compiler.operators.expansion.parts import permuted, reshaped, sliced
from compiler.operators.record import Attribute, Call, Input, Output, Types, rule
from compiler.operators.types import FLOAT, rank_within

from .adaptive_regions import Bins, largest, means, samples_of
from .sampling import clamped, corners, edge_outside, images_are_addressable, total, where_inside, within

_MOST_SAMPLES = 1 << 20
"""The most samples of all bins of a call with mode max."""


def _span(build: Builder, call: Call, first: int) -> tuple[str, str]:
    """Return start and extent [R, 1] of the regions along an axis; ``first`` is the column of the start."""
    rois, half = call.name(1), call.string("coordinate_transformation_mode") == "half_pixel"
    scale, shift = call.number("spatial_scale"), 0.5 if half else 0.0
    ends = []
    for column in (first, first + 2):
        end = sliced(build, rois, 1, column, column + 1)
        ends.append(build("Sub", build("Mul", end, build.like(end, scale)), build.like(end, shift)))
    extent = build("Sub", ends[1], ends[0])
    return ends[0], extent if half else build("Max", extent, build.like(extent, 1.0))


def _ratio(call: Call) -> int:
    """Return the samples per bin along each axis; 0 if each region has a different number."""
    return call.integer("sampling_ratio")


def _samples(build: Builder, call: Call, first: int, count: int) -> str:
    """Return coordinates [R, count * sampling_ratio] along an axis, spread evenly over ``count`` bins."""
    ratio = _ratio(call)
    start, extent = _span(build, call, first)
    even = (np.arange(count * ratio) + 0.5) / (count * ratio)
    return build("Add", start, build("Mul", extent, build.constant(even[None], build.dtype(extent))))


def _adaptive(build: Builder, call: Call) -> str:
    """Expand with as many samples as the bins of a region have elements."""
    axes = []
    for first, name, size in ((1, "output_height", 2), (0, "output_width", 3)):
        start, extent = _span(build, call, first)
        count = call.integer(name)
        bins = build("Div", extent, build.like(extent, count))
        axes.append(Bins(start, bins, count, call.shape(0)[size]))
    return (largest if call.string("mode") == "max" else means)(build, call, *axes)


def _roi_align(build: Builder, call: Call) -> tuple[str, ...]:
    if not _ratio(call):
        return (_adaptive(build, call),)
    x, (_, channels, height, width), regions = call.name(0), call.shape(0), call.shape(1)[0]
    counts, ratio = (call.integer("output_height"), call.integer("output_width")), _ratio(call)
    rows, columns = counts[0] * ratio, counts[1] * ratio
    spread: Shape = (regions, rows, columns)
    coordinates, insides = [], []
    for axis, size in enumerate((height, width)):
        at = _samples(build, call, 1 - axis, counts[axis])
        at = reshaped(build, at, *((regions, rows, 1) if axis == 0 else (regions, 1, columns)))
        at = reshaped(build, build("Expand", at, build.ints(*spread)), math.prod(spread))
        insides.append(within(build, at, -1.0, size))
        coordinates.append(clamped(build, at, size))
    image = reshaped(build, build("Cast", call.name(2), to=CAST_NUMBERS["int64"]), regions, 1)
    first = build("Mul", image, build.constant(np.array(height * width), "int64"))
    first = reshaped(build, build("Expand", first, build.ints(regions, rows * columns)), math.prod(spread))
    parts = corners(build, x, first, coordinates, "linear", edge_outside)
    takes_largest = call.string("mode") == "max"
    value = build("Max", *parts) if takes_largest else total(build, parts)
    value = where_inside(build, insides, value)
    bins = reshaped(build, value, regions, counts[0], ratio, counts[1], ratio, channels)
    pooled = build("ReduceMax" if takes_largest else "ReduceMean", bins, axes=(2, 4), keepdims=0)
    return (permuted(build, pooled, 0, 3, 1, 2),)


@rule
def regions_are_boxes(call: Call) -> str | None:
    """rois must be [R, 4] and batch_indices [R]"""
    rois, numbers = call.shape(1), call.shape(2)
    fits = len(rois) == 2 and rois[1] == 4 and numbers == rois[:1]
    return None if fits else f"rois {list(rois)}, batch_indices {list(numbers)}"


@rule
def samples_are_few(call: Call) -> str | None:
    """With mode max and sampling_ratio 0, regions times bins times (2 H + 4) (2 W + 4) must be at most
    2**20"""
    if call.integer("sampling_ratio") or call.string("mode") != "max" or samples_of(call) <= _MOST_SAMPLES:
        return None
    return f"{samples_of(call)} for {call.shape(1)[0]} regions of X {list(call.shape(0))}"


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
        samples_are_few,
    ),
    precise=True,
)
