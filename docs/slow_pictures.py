"""Draw the pictures of docs/why_is_it_slow.md: one tile in the programs of examples/slow, from their traces.

python docs/slow_pictures.py            write the pictures
python docs/slow_pictures.py --check    exit status 1 when one is not what the traces say
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from trace_picture import COLOURS, DOCS, EDGES, TILE, Event, trace

FOLDER = DOCS / "pictures"
FILLS = {**COLOURS, "DTE": "#e4d7f0"}
STROKES = {**EDGES, "DTE": "#76559a"}
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


def slices(picture: Picture, events: list[Event]) -> dict[str, list[tuple[float, float]]]:
    """Begin and end of the slices of the tile that the picture shows, in microseconds, by track."""
    own = [event for event in events if event["pid"] == TILE + 1]
    names = {event["tid"]: event["args"]["name"] for event in own if event["name"] == "thread_name"}
    found: dict[str, list[tuple[float, float]]] = {}
    for event in own:
        if event["ph"] == "X":
            begin, end = event["ts"], event["ts"] + event["dur"]
            if begin < picture.end and end > picture.begin:
                found.setdefault(names[event["tid"]], []).append((begin, end))
    return {name: found[name] for name in TRACKS if name in found}


def draw(picture: Picture, traces: dict[str, list[Event]]) -> str:
    """The picture as SVG."""
    tracks = {step: slices(picture, traces[step]) for step in picture.steps}
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
            colours = f'fill="{FILLS[name]}" stroke="{STROKES[name]}" stroke-width="0.6"'
            yield f'<rect x="{x}" y="{y}" width="{width}" height="{BAR}" {colours}/>'


def main(arguments: Iterable[str]) -> int:
    """Write or check the pictures; the exit status."""
    arguments = list(arguments)
    if arguments not in ([], ["--check"]):
        print("usage: python docs/slow_pictures.py [--check]", file=sys.stderr)
        return 2
    steps = sorted({step for picture in PICTURES for step in picture.steps})
    traces = {step: trace(f"examples/slow/{step}.s") for step in steps}
    stale = [p.file for p in PICTURES if not _settle(FOLDER / p.file, draw(p, traces), bool(arguments))]
    for file in stale:
        print(f"{file} is not what the traces say: run python docs/slow_pictures.py", file=sys.stderr)
    return 1 if stale else 0


def _settle(target: Path, drawn: str, check: bool) -> bool:
    """Write a picture, or with ``check`` see whether it is there already; whether all is well."""
    if check:
        return target.exists() and target.read_text(encoding="utf-8") == drawn
    target.write_text(drawn, encoding="utf-8")
    return True


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
