"""Resize of images of dynamic size: windows that have the same weights at all positions.

For a ratio p/q, put p - 1 zeros after each element of the image. New position j is then at q j + c, and the
weights of its neighbours depend on their distance from there. So resizing is a convolution with stride q; the
image is continued by the elements at its edges. A matrix of weights, as used for an image of one size, would
have other rows for each size.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from compiler.graph import Array
from compiler.operators.expansion.builder import Builder
from compiler.operators.expansion.parts import gathered
from compiler.operators.record import Call

MOST_PARTS = 16
"""Largest numerator and denominator of a ratio."""
_MOST_ELEMENTS = 1 << 16
"""The longest axis that is considered."""
_SHIFTS = {"asymmetric": 0, "half_pixel": 1, "half_pixel_symmetric": 1, "pytorch_half_pixel": 1}
"""Half-steps by which new positions are shifted, by transformation."""
_COPIED = {"round_prefer_floor": (-1, 0), "round_prefer_ceil": (-1, 1), "floor": (-2, 1), "ceil": (0, 0)}
"""The interval of copied elements around a position, by rounding: one element wide.

Twice the distance at which it begins; 1 if an element just there is too far, and one at the other end is
not.
"""

Kernel = Callable[[Array], Array]


@dataclass(frozen=True)
class AxisWindows:
    """Windows along an axis: ``weights`` of elements with ``times`` - 1 zeros between, by steps of ``step``.

    ``edges``: how often the first and the last element are repeated; ``begin``: number of zeros in front of
    the repetitions.
    """

    times: int
    step: int
    weights: Array
    edges: tuple[int, int]
    begin: int


def resized_by_windows(build: Builder, call: Call, axes: Sequence[AxisWindows | None]) -> str:
    """Resize the image of a call along each spatial axis that has windows."""
    x, channels = call.name(0), call.shape(0)[1]
    for number, windows in enumerate(axes):
        if windows is not None:
            x = _along(build, x, channels, number, len(axes), windows)
    return x


def _along(build: Builder, x: str, channels: int, number: int, count: int, windows: AxisWindows) -> str:
    def extents(size: int, other: int) -> tuple[int, ...]:
        return tuple(size if axis == number else other for axis in range(count))

    size = build.shape(x)[2 + number]
    before, after = windows.edges
    if before or after:
        x = gathered(build, x, 2 + number, np.clip(np.arange(-before, size + after), 0, size - 1))
    if windows.times > 1:
        x = build("InsertZeros", x, times=extents(windows.times, 1))
    shape = (channels, 1, *extents(len(windows.weights), 1))
    weights = np.broadcast_to(windows.weights.reshape(1, 1, *extents(-1, 1)), shape)
    kernel = build.constant(weights, build.dtype(x))
    pads = (*extents(windows.begin, 0), *(0,) * count)
    ones = (1,) * count
    return build(
        "Conv", x, kernel, dilations=ones, group=channels, pads=pads, strides=extents(windows.step, 1)
    )


def ratio(scale: float) -> Fraction | None:
    """Return a scale as a ratio of small numbers, if binary32 gives each size the ratio's result."""
    found = Fraction(scale).limit_denominator(MOST_PARTS)
    if not 0 < found.numerator <= MOST_PARTS or np.float32(float(found)) != np.float32(scale):
        return None
    sizes = np.arange(1, _MOST_ELEMENTS)
    counts = np.floor(sizes.astype(np.float32) * np.float32(scale))
    return found if (counts == sizes * found.numerator // found.denominator).all() else None


def interpolation(scale: Fraction, transformation: str, reach: int, kernel: Kernel) -> AxisWindows | None:
    """Return the windows of an interpolation by a kernel over elements nearer than ``reach``."""
    p, centre = scale.numerator, _centre(scale, transformation)
    if centre is None:
        return None
    first, last = math.floor(centre - reach * p) + 1, math.ceil(centre + reach * p) - 1
    distances = [float((at - centre) / p) for at in range(first, last + 1)]
    return _windows(scale, first, kernel(np.array(distances)))


def choice(scale: Fraction, exact: bool, transformation: str, rounding: str) -> AxisWindows | None:
    """Return the windows of nearest elements; None where an inexact scale decides the rounding."""
    p, centre = scale.numerator, _centre(scale, transformation)
    if centre is None:
        return None
    twice, open_start = _COPIED[rounding]
    least = centre + Fraction(twice * p, 2)
    first = math.floor(least) + 1 if open_start else math.ceil(least)
    at_an_end = least.denominator == 1
    return None if at_an_end and not exact else _windows(scale, first, np.ones(p))


def _centre(scale: Fraction, transformation: str) -> Fraction | None:
    """Return the place of the first new position; None if it depends on the size or a remainder."""
    p, q = scale.numerator, scale.denominator
    whole = {"half_pixel_symmetric": q == 1, "pytorch_half_pixel": p >= q}.get(transformation, True)
    return Fraction(q - p, 2) * _SHIFTS[transformation] if transformation in _SHIFTS and whole else None


def _windows(scale: Fraction, first: int, weights: Array) -> AxisWindows:
    """Return windows whose first weight is for place ``first``; missing weights are zeros."""
    p, q = scale.numerator, scale.denominator
    last = first + len(weights) - 1
    before = max(0, -first // p)
    after = max(0, -((q - 1 - last) // p))
    begin = min(first, 0)
    end = q - 1 + after * p
    weights = np.pad(weights, (first - begin, end - last))
    sums = [weights[residue::p].sum() for residue in range(p)]
    return AxisWindows(p, q, weights / np.resize(sums, len(weights)), (before, after), -(begin + before * p))
