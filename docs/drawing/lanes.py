"""Lanes of time: a row for each engine of a tile, a bar for each thing that it did."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from .runs import Slice
from .svg import EDGES, FILLS, GREY, Sheet

LANE, BAR = 24, 18
NARROWEST = 1.0
"""Pixels of a bar, at least."""


@dataclass(frozen=True)
class Axis:
    """A scale of time: two times in microseconds and where they are drawn."""

    begin: float
    end: float
    left: float
    right: float

    def __call__(self, time: float) -> float:
        inside = min(max(time, self.begin), self.end)
        return self.left + (self.right - self.left) * (inside - self.begin) / (self.end - self.begin)

    def grid(self, sheet: Sheet, top: float, bottom: float, every: int) -> None:
        """Draw lines of time, with their numbers below."""
        for time in range(-(-int(self.begin) // every) * every, int(self.end) + 1, every):
            x = self(time)
            sheet.add(f'<path d="M{x:.1f} {top:.1f}V{bottom:.1f}" stroke="#dddddd"/>')
            sheet.write(x, bottom + 14, f"{time} µs", anchor="middle", fill=GREY)


def engine_colours(found: Slice) -> tuple[str, str]:
    """Fill and edge of a bar, by its engine."""
    return FILLS[found.track], EDGES[found.track]


def no_label(found: Slice) -> str:
    """The text in a bar: none."""
    return ""


def draw_lanes(
    sheet: Sheet,
    slices: Iterable[Slice],
    tracks: Sequence[str],
    axis: Axis,
    top: float,
    *,
    colours: Callable[[Slice], tuple[str, str]] = engine_colours,
    label: Callable[[Slice], str] = no_label,
) -> float:
    """Draw the lanes of one tile, starting at ``top``; returns the place below them. Waits of the core are
    its bars."""
    slices = list(slices)
    for row, track in enumerate(tracks):
        y = top + row * LANE
        name = "core waits" if track == "core" else track
        sheet.write(axis.left - 8, y + 13, name, anchor="end")
        drawn = set[tuple[float, float]]()
        for each in slices:
            place = each.begin, each.end
            if each.track == track and place not in drawn and each.end > axis.begin and each.begin < axis.end:
                drawn.add(place)
                _bar(sheet, each, axis, y, colours(each), label(each))
    return top + len(tracks) * LANE


def _bar(sheet: Sheet, each: Slice, axis: Axis, y: float, colours: tuple[str, str], text: str) -> None:
    x, width = axis(each.begin), max(axis(each.end) - axis(each.begin), NARROWEST)
    sheet.box(x, y, width, BAR, *colours)
    if text and width > 7 * len(text):
        sheet.write(x + width / 2, y + 13, text, anchor="middle")
