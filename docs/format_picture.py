"""Draw docs/pictures/formats.svg: the loss of each format for the network for digits, against its cycles.

python docs/format_picture.py
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

import tx8
from compiler.evaluation.tolerance import cosine_of

DOCS = Path(__file__).parent
TARGET = DOCS / "pictures" / "formats.svg"
DIGITS = DOCS.parent / "examples" / "digits"
FORMATS = ("fp32", "tf32", "fp16", "bf16", "int8")
LEFT, RIGHT, TOP, BOTTOM = 110, 640, 20, 260
MOST_CYCLES, DECADES = 250_000, (-9, -4)


def points() -> Iterator[tuple[str, float, float, int]]:
    """Of each format its name, the simulated cycles, 1 less the cosine, and how many digits are right."""
    images, labels = np.load(DIGITS / "test_images.npy"), np.load(DIGITS / "test_labels.npy")
    exact = None
    for name in FORMATS:
        samples = {"x": images} if name == "int8" else None
        run = tx8.compile(DIGITS / "digits.json", dtype=name, calibrate=samples).run(images)
        found = np.asarray(run["probabilities"], np.float64)
        exact = found if exact is None else exact
        lost = max(1 - cosine_of(exact.reshape(-1), found.reshape(-1)), 10.0 ** DECADES[0])
        yield name, run.stats.cycles, lost, int((found.argmax(axis=1) == labels).sum())


def lines() -> Iterator[str]:
    """The picture as SVG."""
    yield '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 700 320"'
    yield '  font-family="sans-serif" font-size="12">'
    yield "<title>The digits in each format: cosine lost, against simulated cycles</title>"
    yield '<rect width="700" height="320" fill="#ffffff"/>'
    for power in range(DECADES[0], DECADES[1] + 1):
        y = height(10.0**power)
        yield f'<path d="M{LEFT} {y}H{RIGHT}" stroke="#dddddd"/>'
        yield f'<text x="{LEFT - 8}" y="{y + 4}" text-anchor="end" fill="#666">10^{power}</text>'
    for cycles in range(0, MOST_CYCLES + 1, 50_000):
        yield f'<path d="M{width(cycles)} {TOP}V{BOTTOM}" stroke="#dddddd"/>'
        below = f'x="{width(cycles)}" y="{BOTTOM + 18}" text-anchor="middle" fill="#666"'
        yield f"<text {below}>{cycles:,}</text>"
    yield f'<text x="{(LEFT + RIGHT) // 2}" y="{BOTTOM + 42}" text-anchor="middle">simulated cycles</text>'
    yield f'<text x="14" y="{(TOP + BOTTOM) // 2}">cosine lost</text>'
    for name, taken, lost, right in points():
        x, level = width(taken), height(lost)
        yield f'<circle cx="{x}" cy="{level}" r="5" fill="#3b6ea5"/>'
        beside = f'x="{x - 9}" text-anchor="end"' if name == "fp16" else f'x="{x + 9}"'
        yield f'<text {beside} y="{level - 6}">{name}: {right} of 360</text>'


def width(cycles: float) -> float:
    """The place of a number of cycles along the axis."""
    return round(LEFT + (RIGHT - LEFT) * cycles / MOST_CYCLES, 1)


def height(lost: float) -> float:
    """The place of a loss along its axis, which is logarithmic."""
    part = (np.log10(lost) - DECADES[0]) / (DECADES[1] - DECADES[0])
    return round(BOTTOM - (BOTTOM - TOP) * float(part), 1)


if __name__ == "__main__":
    TARGET.write_text("\n".join([*lines(), "</svg>"]) + "\n", encoding="utf-8")
