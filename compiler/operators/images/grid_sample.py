"""GridSample: images read at the coordinates of a grid."""

from __future__ import annotations

import math

from compiler.operators.expansion.builder import Builder
from compiler.operators.expansion.composite import composite
from compiler.operators.expansion.parts import permuted, reshaped, sliced
from compiler.operators.record import Attribute, Call, Input, Output, rule
from compiler.operators.types import FLOAT, rank_within

from .sampling import (
    Boundary,
    Neighbour,
    clamped,
    corners,
    edge_outside,
    first_rows,
    images_are_addressable,
    mirrored,
    total,
    zero_outside,
)


def _grid_sample(build: Builder, call: Call) -> tuple[str, ...]:
    x, (batch, channels, *sizes), grid = call.name(0), call.shape(0), call.name(1)
    output, rank = call.shape(1)[1:-1], len(sizes)
    count, mode = math.prod(output), call.string("mode")
    aligned, padding = bool(call.integer("align_corners")), call.string("padding_mode")
    flat, coordinates = reshaped(build, grid, batch * count, rank), []
    for axis, size in enumerate(sizes):  # the grid has the last axis first
        at = reshaped(build, sliced(build, flat, 1, rank - 1 - axis, rank - axis), batch * count)
        scale, shift = ((size - 1) / 2, (size - 1) / 2) if aligned else (size / 2, (size - 1) / 2)
        at = build("Add", build("Mul", at, build.like(at, scale)), build.like(at, shift))
        at = build("Round", at) if mode == "nearest" else at
        coordinates.append(_inside(build, at, size, padding, aligned))
    first = first_rows(build, batch, math.prod(sizes), count)
    boundary = {"zeros": zero_outside, "border": edge_outside}.get(padding, _reflected(aligned))
    rows = total(build, corners(build, x, first, coordinates, mode, boundary))
    samples = permuted(build, reshaped(build, rows, batch, count, channels), 0, 2, 1)
    return (reshaped(build, samples, batch, channels, *output),)


def _borders(size: int, aligned: bool) -> tuple[float, float]:
    """Return the places of the grid's coordinates -1 and 1, in elements."""
    return (0.0, size - 1.0) if aligned else (-0.5, size - 0.5)


def _inside(build: Builder, coordinate: str, size: int, padding: str, aligned: bool) -> str:
    """Move a coordinate inside the borders, unless the padding is zeros."""
    low, high = _borders(size, aligned)
    if padding == "reflection":
        return mirrored(build, coordinate, low, high)
    if padding == "border":
        beyond = build(
            "Or",
            build("Less", coordinate, build.like(coordinate, low)),
            build("Greater", coordinate, build.like(coordinate, high)),
        )
        return build("Where", beyond, clamped(build, coordinate, size), coordinate)
    return coordinate


def _reflected(aligned: bool) -> Boundary:
    def boundary(build: Builder, index: str, size: int) -> Neighbour:
        return Neighbour(clamped(build, mirrored(build, index, *_borders(size, aligned)), size))

    return boundary


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
    summary="Images read at the coordinates of a grid, -1 .. 1 along each axis",
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
