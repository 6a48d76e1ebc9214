"""Write docs/scaling.md and docs/pictures/scaling.svg: what many chips gain, from estimates and runs.

python docs/scaling_picture.py            write both from docs/pictures/scaling.json
python docs/scaling_picture.py --check    exit status 1 when one is not what the estimates say
python docs/scaling_picture.py --measure  estimate all points anew first, which takes minutes
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from compiler.driver import estimate_graph
from compiler.frontend.onnx.importer import graph_of_bytes
from compiler.graph import Graph
from compiler.search.chips import Degrees, priced_machine
from tx8isa.machine.description import load_machine

sys.path.append(str(Path(__file__).parent.parent / "examples/networks"))
from batch import set_batch
from light import light_model
from transformers import Size, transformer

DOCS = Path(__file__).parent
BLOCK, RESNET = "Decoder block", "ResNet-50"
TOKENS, WIDTH, HEADS, BATCH = 512, 4096, 32, 128
MESHES = ((1, 1), (2, 1), (2, 2), (4, 2), (4, 4), (4, 8), (8, 8), (8, 16))
FEW_MESHES = ((1, 1), (4, 2), (4, 8), (8, 16), (16, 32), (64, 64))
"""Of a batch of sequences, whose estimates take longest."""
MOST, MOST_IMAGES = 4096, (32, 32)
SHARED = (1, 2, 4, 8, 16, 32)
"""Degrees of tensor parallelism of one sequence."""
DATA, PICTURE, PAGE = DOCS / "pictures/scaling.json", DOCS / "pictures/scaling.svg", DOCS / "scaling.md"
LEFT, RIGHT, TOP, BOTTOM, APART = 60, 410, 40, 330, 430
EMULATED = {
    (BLOCK, 1, 1): (f"block of {WIDTH} columns, tp=4", 1),
    (BLOCK, 1, 4): (f"block of {WIDTH} columns, tp=4", 2),
    (RESNET, BATCH, 1): (f"ResNet-50, {BATCH} images, dp=8", 1),
    (RESNET, BATCH, 8): (f"ResNet-50, {BATCH} images, dp=8", 2),
}
"""By network, batch and chips: the row and column of docs/benchmarks.md that says what was emulated."""


@dataclass(frozen=True)
class Point:
    """A network on so many chips, in cycles: the estimate, exchanges in it, and bounds of DDR and links."""

    network: str
    batch: int
    chips: int
    dp: int
    tp: int
    cycles: int
    exchanges: int
    ddr: int
    links: int


@dataclass(frozen=True)
class Curve:
    """Points of one kind of scaling: a network with a batch, on more and more chips."""

    title: str
    network: str
    batch: int
    colour: str


CURVES = (
    Curve(f"{BATCH} sequences", BLOCK, BATCH, "#1f5fa8"),
    Curve("one sequence", BLOCK, 1, "#b3541e"),
    Curve(f"{BATCH} images", RESNET, BATCH, "#1f5fa8"),
)


def wanted() -> Iterator[tuple[str, int, tuple[int, int], int, int]]:
    """Network, batch, mesh and degrees of the points: first the batch is divided, then products."""
    for x, y in MESHES:
        yield RESNET, BATCH, (x, y), x * y, 1
        if x * y in SHARED:
            yield BLOCK, 1, (x, y), 1, x * y
    for x, y in FEW_MESHES:
        dp = min(x * y, BATCH)
        yield BLOCK, BATCH, (x, y), dp, x * y // dp
    yield RESNET, 1, (1, 1), 1, 1
    images = MOST_IMAGES[0] * MOST_IMAGES[1]
    yield RESNET, images, MOST_IMAGES, images, 1


def measured() -> Iterator[Point]:
    """The points, estimated anew."""
    for network, batch, mesh, dp, tp in wanted():
        machine = priced_machine(load_machine(None), *mesh)
        parallel = Degrees(dp, tp) if dp * tp > 1 else None
        found = estimate_graph(model(network, batch), "fp16", machine=machine, parallel=parallel)
        bounds = round(found.bounds.ddr), round(found.bounds.links)
        point = Point(network, batch, dp * tp, dp, tp, found.cycles, found.exchanges, *bounds)
        print(point, file=sys.stderr, flush=True)
        yield point


def model(network: str, batch: int) -> Graph:
    """The graph of a network for a batch: ``batch`` is the first axis of all that is written for one."""
    made = light_model("resnet50") if network == RESNET else transformer(Size(TOKENS, WIDTH, HEADS, 1))
    set_batch(made, batch)
    return graph_of_bytes(made.SerializeToString(), "model.onnx")


def on_curve(points: list[Point], curve: Curve) -> list[Point]:
    """The points of a curve, by the number of chips."""
    found = [p for p in points if (p.network, p.batch) == (curve.network, curve.batch)]
    return sorted(found, key=lambda point: point.chips)


def in_parts(points: list[Point], point: Point) -> tuple[int, int]:
    """The fewest cycles in which the chips compute their parts of the batch, and in how many runs.

    A chip may take its part of the batch at once, or run a smaller part several times, one after another.
    """
    dealt = point.batch // point.dp
    ways = [
        (dealt * other.dp // other.batch * other.cycles, dealt * other.dp // other.batch)
        for other in points
        if other.network == point.network and other.tp == point.tp and dealt * other.dp % other.batch == 0
    ]
    return min(ways)


def emulated(point: Point, benchmarks: str) -> int | None:
    """Simulated cycles of a point that was emulated, from the page of benchmarks."""
    row, column = EMULATED.get((point.network, point.batch, point.chips), ("", 0))
    found = re.search(rf"^\| {re.escape(row)} \|.*$", benchmarks, re.MULTILINE) if row else None
    return int(found[0].split("|")[1 + column].replace(",", "")) if found else None


def draw(points: list[Point], benchmarks: str) -> str:
    """The picture as SVG: a panel for each network."""
    lines = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 860 400"',
        '  font-family="sans-serif" font-size="11">',
        "<title>How much faster many chips are than one</title>",
        '<rect width="860" height="400" fill="#ffffff"/>',
    ]
    for number, network in enumerate((BLOCK, RESNET)):
        lines += _panel(network, number * APART)
        for place, curve in enumerate(each for each in CURVES if each.network == network):
            lines += _curve(curve, points, benchmarks, number * APART, place)
    return "\n".join([*lines, "</svg>"]) + "\n"


def _x(chips: float) -> float:
    return round(LEFT + (RIGHT - LEFT) * float(np.log2(chips)) / float(np.log2(MOST)), 1)


def _y(ratio: float) -> float:
    return round(BOTTOM - (BOTTOM - TOP) * float(np.log2(ratio)) / float(np.log2(MOST)), 1)


def _panel(network: str, left: int) -> Iterator[str]:
    yield f'<text x="{left + LEFT}" y="20" font-size="13">{network}: times as fast as one chip at best</text>'
    for power in range(0, 13, 2):
        x, y = left + _x(2**power), _y(2**power)
        yield f'<path d="M{left + LEFT} {y}H{left + RIGHT}M{x} {TOP}V{BOTTOM}" stroke="#e0e0e0"/>'
        yield f'<text x="{left + LEFT - 6}" y="{y + 4}" text-anchor="end" fill="#666">{2**power:,}</text>'
        yield f'<text x="{x}" y="{BOTTOM + 16}" text-anchor="middle" fill="#666">{2**power:,}</text>'
    yield f'<text x="{left + (LEFT + RIGHT) // 2}" y="{BOTTOM + 32}" text-anchor="middle">chips</text>'
    ends = f"M{left + LEFT} {BOTTOM}L{left + RIGHT} {TOP}"
    yield f'<path d="{ends}" stroke="#999" stroke-dasharray="2 3" fill="none"/>'


def _curve(curve: Curve, points: list[Point], benchmarks: str, left: int, place: int) -> Iterator[str]:
    shown = on_curve(points, curve)
    taken = {point.chips: in_parts(points, point)[0] for point in shown}
    one, y = taken[shown[0].chips], 348 + 20 * place
    way = " ".join(f"{left + _x(chips)},{_y(one / cycles)}" for chips, cycles in taken.items())
    yield f'<polyline points="{way}" fill="none" stroke="{curve.colour}" stroke-width="1.5"/>'
    bound = " ".join(f"{left + _x(p.chips)},{_y(min(one / max(p.ddr, p.links), MOST))}" for p in shown)
    yield f'<polyline points="{bound}" fill="none" stroke="{curve.colour}" stroke-dasharray="5 3"/>'
    for point in shown:
        fill = curve.colour if emulated(point, benchmarks) else "#ffffff"
        spot = f'cx="{left + _x(point.chips)}" cy="{_y(one / taken[point.chips])}" r="3.5"'
        yield f'<circle {spot} fill="{fill}" stroke="{curve.colour}"/>'
    yield f'<text x="{left + LEFT}" y="{y + 30}" fill="{curve.colour}">{curve.title}</text>'


TEXT = f"""# Scaling

How much faster are many chips than one? The compiler estimates it for up to {MOST:,} chips, without a run:

```console
$ tx8cc examples/mlp/mlp.json --dtype fp16 --chips 2x1 --estimate | head -5
tried dp=2: input 'x' is 19x77; its first axis must be a multiple of 2
tried tp=2: ... cycles, ... of them exchanges
tried sp=2: input 'x' is 19x77; its rows, axis 0, must be a multiple of 2
tried pp=2: the batch has no parts, so the stages would take turns
tp=2 on 2 chips, one of which takes:
```

`docs/scaling_picture.py` writes this page from such estimates, for two networks with seeded weights in FP16:
a decoder block of {TOKENS} tokens, {WIDTH} columns and {HEADS} heads, and ResNet-50. Filled points were also
emulated ([benchmarks.md](benchmarks.md)); all others are only estimated. Dashed lines are bounds: the least
time of DDR, or of the links if that is longer. The bound of the links adds up latencies and bytes of all
rounds of an exchange. Tiles that exchange in parallel hide latencies, so a phase can take less. The dotted
line is a perfect speed-up: N chips are N times as fast as one.

![How much faster many chips are than one](pictures/scaling.svg)

A batch is divided first (`dp`), which needs no exchange. With more chips than the batch has elements, groups
of chips share the products (`tp`). "Exchanges" are the cycles of phases in which chips exchange values. A
group is a rectangle of the mesh, so its links carry nothing of other groups.

A chip computes its part of the batch at once, or in several runs of a smaller part, whichever takes less:
"best" has the cycles, "runs" their number. Ratios have two bases: one chip that computes the whole batch in
its best way, and one that computes one image or sequence after another.
"""


def page(points: list[Point], benchmarks: str) -> str:
    """The page as Markdown."""
    lines = [TEXT]
    for curve in CURVES:
        lines += [f"## {curve.network}, {curve.title}", "", *_table(points, curve, benchmarks), ""]
    return "\n".join([*lines, _weak(points)])


def _table(points: list[Point], curve: Curve, benchmarks: str) -> Iterator[str]:
    headings = ("chips", "`dp`", "`tp`", "at once, estimated cycles", "exchanges", "emulated", "bound of DDR")
    headings += ("of links", "best", "runs", "times as fast as one chip, best way", "one after another")
    yield f"| {' | '.join(headings)} |"
    yield "|" + " --- |" * len(headings)
    shown = on_curve(points, curve)
    single = next((p.cycles for p in points if (p.network, p.batch, p.chips) == (curve.network, 1, 1)), 0)
    bases = in_parts(points, shown[0])[0], curve.batch * single
    for point in shown:
        ran, (best, runs) = emulated(point, benchmarks), in_parts(points, point)
        cells = [f"{value:,}" for value in (point.chips, point.dp, point.tp, point.cycles, point.exchanges)]
        cells += [f"{ran:,}" if ran else "", f"{point.ddr:,}", f"{point.links:,}", f"{best:,}", f"{runs:,}"]
        yield f"| {' | '.join([*cells, *(f'{base / best:,.1f}' for base in bases)])} |"


def _weak(points: list[Point]) -> str:
    """The section on weak scaling, where the batch grows with the chips."""
    by_place = {(p.network, p.batch, p.chips): p for p in points}
    images = MOST_IMAGES[0] * MOST_IMAGES[1]
    few, many = by_place[RESNET, 1, 1].cycles, by_place[RESNET, images, images].cycles
    return f"""## Weak scaling: as many chips as images or sequences

One image takes {few:,} cycles on one chip, and {images:,} images take {many:,} cycles on {images:,} chips,
because they exchange nothing. {BATCH} sequences on {BATCH} chips also take as long as one sequence on one
chip. In the picture these points are on the dotted line.

N images on one chip take less than N times as long as one image, because the weights are loaded once. So
eight chips that share a batch are less than eight times as fast as one chip with all of it. Sequences
differ: a few together take less than one after another, but {BATCH} at once take more. The compiler does
not cut a program for a batch into several runs; that choice is the caller's.

## Pipelines

The compiler also estimates pipelines (`pp`) for as many chips. They may be combined with `dp` and `tp`, for
example in `--chips 4x4 --parallel dp=4,pp=4 --estimate`. N stages and M parts of the batch are at most N M /
(M + N - 1) times as fast as one chip. The compiler makes 2 N parts, so at most about two thirds of N are
reached. No curve above has stages: dividing a batch takes fewer cycles, where it is possible, and one
sequence has no parts. [benchmarks.md](benchmarks.md) has eight layers on four chips both ways, estimated and
emulated, and [parallel.md](parallel.md#degrees-that-are-found) says where stages are found to be best.
"""


def points() -> list[Point]:
    """The points as they were estimated."""
    return [Point(**each) for each in json.loads(DATA.read_text(encoding="utf-8"))]


def main(arguments: list[str]) -> int:
    """Write the page and the picture, or check them."""
    if "--measure" in arguments:
        DATA.write_text(
            json.dumps([asdict(point) for point in measured()], indent=1) + "\n", encoding="utf-8"
        )
    known = points()
    benchmarks = (DOCS / "benchmarks.md").read_text(encoding="utf-8")
    stale = False
    for path, text in ((PICTURE, draw(known, benchmarks)), (PAGE, page(known, benchmarks))):
        if "--check" not in arguments:
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            print(f"{path.name} is stale: run python docs/scaling_picture.py", file=sys.stderr)
            stale = True
    return int(stale)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
