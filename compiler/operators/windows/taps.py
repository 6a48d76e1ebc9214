"""Building blocks of expansions that compute windows tap by tap."""

from __future__ import annotations

import itertools
import math

from compiler.graph import GraphError
from compiler.operators.expansion.builder import Builder

from .geometry import Window

_MOST_TAPS = 16384
"""The most taps that are written out."""


def padded(build: Builder, image: str, window: Window, fill: float) -> str:
    """Pad an image [N, C, *image] as far as the last window reaches."""
    margins = window.margins()
    if not any(itertools.chain(*margins)):
        return image
    pads = (0, 0, *(before for before, _ in margins), 0, 0, *(after for _, after in margins))
    return build("Pad", image, build.ints(*pads), build.like(image, fill))


def taps(build: Builder, image: str, window: Window) -> list[str]:
    """Return, for each position in the kernel, the slice of a padded image that it meets.

    GraphError for a kernel of more than 16384 positions.
    """
    if math.prod(window.kernel) > _MOST_TAPS:
        raise GraphError([f"is computed tap by tap, at most {_MOST_TAPS} of them; found {window.kernel}"])
    axes = build.ints(*range(2, 2 + len(window.image)))
    slices = []
    for places in window.taps():
        spatial = list(places[2:])
        starts, ends = build.ints(*(p.start for p in spatial)), build.ints(*(p.stop for p in spatial))
        slices.append(build("Slice", image, starts, ends, axes, build.ints(*(p.step for p in spatial))))
    return slices
