"""Reads images at computed coordinates, for GridSample, RoiAlign and DeformConv.

Coordinates are in elements: 0 is the middle of the first element of an axis. An image is a table with a row
of channels for each position, and a sample is a weighted sum of rows.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np

from compiler.graph import Array
from compiler.operators.elements.casting import CAST_NUMBERS
from compiler.operators.expansion.builder import Builder
from compiler.operators.expansion.parts import permuted, reshaped
from compiler.operators.record import Call, rule
from compiler.operators.types import EXACT_INTEGERS


@dataclass(frozen=True)
class Neighbour:
    """An element along one axis that contributes to a sample."""

    index: str  # a float
    weight: str | None = None  # None: 1
    inside: str | None = None  # a truth value: an element outside reads as 0; None: all are inside


Boundary = Callable[[Builder, str, int], Neighbour]
"""Returns the index of the element that is read for an index, a float, which may be outside an axis of some
size."""


def clamped(build: Builder, coordinate: str, size: int) -> str:
    """Limit a coordinate to an axis."""
    return build("Min", build("Max", coordinate, build.like(coordinate, 0)), build.like(coordinate, size - 1))


def within(build: Builder, value: str, low: float, high: float) -> str:
    """Return whether a value is in low .. high."""
    not_below = build("GreaterOrEqual", value, build.like(value, low))
    return build("And", not_below, build("LessOrEqual", value, build.like(value, high)))


def where_inside(build: Builder, inside: Sequence[str], rows: str) -> str:
    """Return rows [P, C], with 0 for points [P] that are outside along an axis, even if the row has NaN."""
    if not inside:
        return rows
    everywhere = reduce(lambda one, other: build("And", one, other), inside)
    return build("Where", reshaped(build, everywhere, -1, 1), rows, build.like(rows, 0))


def zero_outside(build: Builder, index: str, size: int) -> Neighbour:
    """Read 0 for elements outside."""
    return Neighbour(clamped(build, index, size), inside=within(build, index, 0, size - 1))


def edge_outside(build: Builder, index: str, size: int) -> Neighbour:
    """Read the elements at the edge for elements outside."""
    return Neighbour(clamped(build, index, size))


def mirrored(build: Builder, coordinate: str, low: float, high: float) -> str:
    """Reflect a coordinate at low and high until it is between them."""
    span = high - low
    if span <= 0:
        return build("Mul", coordinate, build.like(coordinate, 0))
    distance = build("Abs", build("Sub", coordinate, build.like(coordinate, low)))
    left = build("Mod", distance, build.like(coordinate, 2 * span), fmod=1)
    return build(
        "Add",
        build("Min", left, build("Sub", build.like(coordinate, 2 * span), left)),
        build.like(coordinate, low),
    )


def _polynomial(build: Builder, x: str, coefficients: Sequence[float]) -> str:
    """Evaluate a polynomial, the coefficient of the highest power first, by Horner's rule."""
    value = build.like(x, coefficients[0])
    for coefficient in coefficients[1:]:
        value = build("Add", build("Mul", value, x), build.like(x, coefficient))
    return value


def _interpolated(build: Builder, x: str, mode: str) -> list[tuple[str, str | None]]:
    """Return index and weight of the elements along an axis that a coordinate is interpolated from."""
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
    build: Builder, image: str, first: str, coordinates: Sequence[str], mode: str, boundary: Boundary
) -> list[str]:
    """Return weighted rows [P, C] of the elements around P points; their sum is the sample.

    ``image``: [N, C, *D], ``first``: the number [P] of the first row of each point's image, an int64,
    ``coordinates``: one vector [P] of floats per axis of D.
    """
    batch, channels, *sizes = build.shape(image)
    order = (0, *range(2, 2 + len(sizes)), 1)
    table = reshaped(build, permuted(build, image, *order), batch * math.prod(sizes), channels)
    axes = []
    for x, size in zip(coordinates, sizes, strict=True):
        neighbours = []
        for index, weight in _interpolated(build, x, mode):
            neighbours.append(replace(boundary(build, index, size), weight=weight))
        axes.append(neighbours)
    return [_corner(build, table, first, chosen, sizes) for chosen in itertools.product(*axes)]


def _product(build: Builder, factors: Sequence[str]) -> str | None:
    if not factors:
        return None
    product = factors[0]
    for factor in factors[1:]:
        product = build("Mul", product, factor)
    return product


def _corner(
    build: Builder, table: str, first: str, elements: Sequence[Neighbour], sizes: Sequence[int]
) -> str:
    """Return the weighted rows of one combination of elements, one along each axis."""
    row = elements[0].index
    for element, size in zip(elements[1:], sizes[1:], strict=True):
        row = build("Add", build("Mul", row, build.like(row, size)), element.index)
    rows = build("Gather", table, build("Add", build("Cast", row, to=CAST_NUMBERS["int64"]), first), axis=0)
    weight = _product(build, [element.weight for element in elements if element.weight is not None])
    rows = rows if weight is None else build("Mul", rows, reshaped(build, weight, -1, 1))
    return where_inside(build, [element.inside for element in elements if element.inside is not None], rows)


def total(build: Builder, parts: Sequence[str]) -> str:
    """Add the parts; return a single part unchanged."""
    return parts[0] if len(parts) == 1 else build("Sum", *parts)


def first_rows(build: Builder, images: int, rows: int, points: int) -> str:
    """Return, for each of ``points`` points in each image, the number of the image's first row."""
    numbers: Array = np.repeat(np.arange(images) * rows, points)
    return build.constant(numbers, "int64")


@rule
def images_are_addressable(call: Call) -> str | None:
    """The spatial axes of X must have 1 to 2**24 positions together"""
    return None if 1 <= math.prod(call.shape(0)[2:]) <= EXACT_INTEGERS else f"X {list(call.shape(0))}"
