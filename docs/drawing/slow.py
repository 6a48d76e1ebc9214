"""One tile in the programs of examples/slow, to one scale of time, from their traces."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from .runs import Slice, of_example, of_tile
from .svg import EDGES, FILLS

TILE = 5
TRACKS = ("core", "RDMA", "NE", "WDMA", "DTE")

LEFT, RIGHT, TOP, ROW, BAR, HEAD = 60, 830, 34, 14, 10, 24


@dataclass(frozen=True)
class Picture:
    """Some steps below each other, between two times in microseconds, and how far apart lines of time are."""

    file: str
    title: str
    steps: tuple[str, ...]
    begin: float
    end: float
    grid: int


PICTURES = (
    Picture(
        "slow_steps.svg",
        "Five programs for one matrix product, to the same scale of time",
        ("step1", "step2", "step3", "step4", "step5"),
        0,
        185,
        20,
    ),
    Picture(
        "slow_waits.svg",
        "Ten microseconds from the middle of the first three programs",
        ("step1", "step2", "step3"),
        40,
        50,
        1,
    ),
)


@cache
def slices(step: str) -> list[Slice]:
    """The slices of the tile in a program, in the order of time."""
    return of_tile(of_example(f"examples/slow/{step}.s"), TILE)


def spans(picture: Picture, step: str) -> dict[str, list[tuple[float, float]]]:
    """Begin and end of the part of a program that a picture shows, in microseconds, by track."""
    found: dict[str, list[tuple[float, float]]] = {}
    for each in slices(step):
        if each.end > picture.begin and each.begin < picture.end:
            found.setdefault(each.track, []).append((each.begin, each.end))
    return {name: found[name] for name in TRACKS if name in found}


def draw(picture: Picture) -> str:
    """The picture as SVG."""
    tracks = {step: spans(picture, step) for step in picture.steps}
    height = TOP + sum(HEAD + ROW * len(found) for found in tracks.values()) + 8
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 860 {height}"',
        '  font-family="sans-serif" font-size="11">',
        f"<title>{picture.title}</title>",
        f'<rect width="860" height="{height}" fill="#ffffff"/>',
        *_time(picture, height),
    ]
    top = TOP
    for step, found in tracks.items():
        lines += _step(picture, step, found, top)
        top += HEAD + ROW * len(found)
    return "\n".join([*lines, "</svg>"]) + "\n"


def _x(picture: Picture, microseconds: float) -> float:
    inside = min(max(microseconds, picture.begin), picture.end) - picture.begin
    return round(LEFT + (RIGHT - LEFT) * inside / (picture.end - picture.begin), 1)


def _time(picture: Picture, height: int) -> Iterator[str]:
    for at in range(int(picture.begin), int(picture.end) + 1, picture.grid):
        x = _x(picture, at)
        yield f'<path d="M{x} 20V{height}" stroke="#dddddd"/>'
        yield f'<text x="{x}" y="14" text-anchor="middle" fill="#666">{at} µs</text>'


def _step(
    picture: Picture, step: str, found: dict[str, list[tuple[float, float]]], top: int
) -> Iterator[str]:
    yield f'<text x="{LEFT}" y="{top + 12}" font-weight="bold">{step}.s</text>'
    for row, (name, bars) in enumerate(found.items()):
        y = top + HEAD - 6 + ROW * row
        label = "core waits" if name == "core" else name
        yield f'<text x="{LEFT - 6}" y="{y + 9}" text-anchor="end" font-size="10">{label}</text>'
        for begin, end in bars:
            x = _x(picture, begin)
            width = round(max(_x(picture, end) - x, 0.6), 1)
            colours = f'fill="{FILLS[name]}" stroke="{EDGES[name]}" stroke-width="0.6"'
            yield f'<rect x="{x}" y="{y}" width="{width}" height="{BAR}" {colours}/>'
