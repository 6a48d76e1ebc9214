"""Draw the picture of docs/measurements.md: times of the model against measured ones, both axes
logarithmic."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape

from _published import Published, Replayed
from _whole_programs import Measured

LEFT, TOP, SIZE = 70, 20, 420
LEAST, MOST = 1, 8
"""The powers of ten between which the axes are."""
COLOURS = {
    "NE": "#0072b2",
    "RDMA": "#d55e00",
    "WDMA": "#e69f00",
    "CT": "#009e73",
    "TDMA": "#cc79a7",
    "core": "#56b4e9",
    "all": "#999999",
    "whole program": "#000000",
}
_CYCLES = 1000.0
"""Cycles of a microsecond."""


def of_whole(found: Measured) -> Replayed:
    """A whole program as a row of the picture."""
    low, high = min(found.whole.samples) * _CYCLES, max(found.whole.samples) * _CYCLES
    row = Published(
        found.whole.what, "whole program", "", low, high, lambda _: found.middle * _CYCLES, "whole programs"
    )
    return Replayed(row, found.middle * _CYCLES, found.least * _CYCLES, found.most * _CYCLES)


def drawn(rows: Sequence[Replayed]) -> str:
    """An SVG with a point for each row, a bar for its range, and a line where both are equal."""
    parts = [*_axes(), *(line for row in rows for line in _point(row)), *_legend()]
    size = f'width="{LEFT + SIZE + 130}" height="{TOP + SIZE + 50}"'
    view = f'viewBox="0 0 {LEFT + SIZE + 130} {TOP + SIZE + 50}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} {view} font-family="sans-serif" font-size="12">'
    return "\n".join([head, '<rect width="100%" height="100%" fill="white"/>', *parts, "</svg>", ""])


def _along(cycles: float) -> float:
    """The place of a figure on an axis, from 0 to 1."""
    return (math.log10(max(cycles, 10.0**LEAST)) - LEAST) / (MOST - LEAST)


def _x(cycles: float) -> float:
    return LEFT + SIZE * _along(cycles)


def _y(cycles: float) -> float:
    return TOP + SIZE * (1 - _along(cycles))


def _axes() -> Iterator[str]:
    right, bottom = LEFT + SIZE, TOP + SIZE
    for power in range(LEAST, MOST + 1):
        x, y, name = _x(10.0**power), _y(10.0**power), f"10<tspan dy='-5' font-size='9'>{power}</tspan>"
        yield f'<line x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{bottom}" stroke="#ddd"/>'
        yield f'<line x1="{LEFT}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}" stroke="#ddd"/>'
        yield f'<text x="{x:.1f}" y="{bottom + 18}" text-anchor="middle">{name}</text>'
        yield f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{name}</text>'
    yield f'<line x1="{LEFT}" y1="{bottom}" x2="{right}" y2="{TOP}" stroke="#888" stroke-dasharray="4 3"/>'
    yield f'<text x="{LEFT + SIZE / 2}" y="{bottom + 38}" text-anchor="middle">measured, cycles</text>'
    middle = f"18 {TOP + SIZE / 2}"
    turned = f'transform="translate({middle}) rotate(-90)"'
    yield f'<text text-anchor="middle" {turned}>model, cycles</text>'


def _point(found: Replayed) -> Iterator[str]:
    row, colour = found.row, COLOURS[found.row.engine]
    x = _x(math.sqrt(row.low * row.high))
    title = escape(f"{row.engine}, {row.program} {row.work}".strip())
    yield f'<g stroke="{colour}" fill="{colour}"><title>{title}</title>'
    yield f'<line x1="{x:.1f}" y1="{_y(found.least):.1f}" x2="{x:.1f}" y2="{_y(found.most):.1f}"/>'
    yield f'<circle cx="{x:.1f}" cy="{_y(found.model):.1f}" r="3"/></g>'


def _legend() -> Iterator[str]:
    for number, (name, colour) in enumerate(COLOURS.items()):
        y = TOP + 12 + 20 * number
        yield f'<circle cx="{LEFT + SIZE + 20}" cy="{y - 4}" r="4" fill="{colour}"/>'
        yield f'<text x="{LEFT + SIZE + 30}" y="{y}">{name}</text>'
