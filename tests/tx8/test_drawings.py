"""Pictures of a run: shapes are at the right places, names are text, and nothing is fetched."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

import asm
import tx8
from asm.image import write_image
from square_program import square_program
from tx8.run import Run
from tx8.views.drawings import Drawing
from tx8isa.errors import Tx8Error

SVG = "{http://www.w3.org/2000/svg}"
EVIL = "</svg><script>"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    path = tmp_path_factory.mktemp("drawings") / "p.bin"
    path.write_bytes(write_image(asm.assemble(square_program(nodes=("load", EVIL, "store")), name="p.s")))
    return tx8.load(str(path)).run(x=np.ones((16, 2048), np.float16))


@pytest.fixture(scope="module")
def network() -> Run:
    rng = np.random.default_rng(1)
    graph = tx8.GraphBuilder("mlp")
    x = graph.input("x", "float32", (64, 128))
    hidden = graph.Gelu(x @ rng.standard_normal((128, 256)) + 0.1)
    graph.output(graph.Softmax(hidden @ rng.standard_normal((256, 32)), axis=-1), "y")
    return tx8.compile(graph, dtype="fp16").run(rng.standard_normal((64, 128)))


def read(drawing: Drawing) -> ElementTree.Element:
    assert not re.search(r"href|url\(|<script|<!", drawing.svg)
    assert drawing._repr_svg_() == drawing.svg
    return ElementTree.fromstring(drawing.svg)


def titled(root: ElementTree.Element, tag: str) -> dict[str, list[ElementTree.Element]]:
    """The elements of a kind by their title."""
    found = defaultdict(list)
    for each in root.iter(f"{SVG}{tag}"):
        title = each.find(f"{SVG}title")
        if title is not None:
            found[str(title.text)].append(each)
    return found


def bars(paths: list[ElementTree.Element]) -> list[tuple[float, float]]:
    """Begin and width of each bar."""
    text = "".join(path.attrib["d"] for path in paths)
    return sorted((float(x), float(width)) for x, width in re.findall(r"M([\d.]+) [\d.]+h([\d.]+)v", text))


def places(root: ElementTree.Element, anchor: str) -> dict[float, tuple[float, float]]:
    """Return the positions of the numbers along an axis."""
    found = {}
    for text in root.iter(f"{SVG}text"):
        if text.attrib["text-anchor"] == anchor and re.fullmatch(r"[\d.,e+-]+", str(text.text)):
            value = float(str(text.text).replace(",", ""))
            found[value] = float(text.attrib["x"]), float(text.attrib["y"])
    return found


# --- the timeline -------------------------------------------------------------------------


def test_engines_of_a_tile_are_busy_one_after_the_other(run: Run) -> None:
    lanes = titled(read(run.timeline()), "path")
    ends = 0.0
    for name in ("RDMA: load", f"CT: {EVIL}", "WDMA: store"):
        (first, width), *more = bars(lanes[f"tile 3, {name}"])
        assert not more and first >= ends - 3.0 and width > 0
        ends = first + width
    assert {name.split(",")[0] for name in lanes} == {f"tile {tile}" for tile in range(16)}


def test_bars_are_as_long_as_the_engine_was_busy(run: Run) -> None:
    """To a column of pixels: 820 pixels have at most 400 of them."""
    root = read(run.timeline())
    axis = places(root, "middle")
    cycles = max(axis)
    pixels = axis[cycles][0] - axis[0][0]
    assert cycles == pytest.approx(run.cycles, rel=0.01)
    row = next(row for row in run.stats.longest.engines if (row.tile, row.engine) == (3, "RDMA"))
    ((_, width),) = bars(titled(root, "path")["tile 3, RDMA: load"])
    assert width / pixels * cycles == pytest.approx(row.busy + row.ddr, abs=2 * 820 / 400 / pixels * cycles)


# --- the scratchpad -----------------------------------------------------------------------


def test_buffers_that_are_alive_at_once_are_apart(network: Run) -> None:
    boxes = titled(read(network.scratchpad(2)), "rect")
    assert len(boxes) > 5 and all(re.search(r": [\d,]+ bytes at 0x", name) for name in boxes)
    keys = ("x", "width", "y", "height")
    spans = [[float(box.attrib[key]) for key in keys] for each in boxes.values() for box in each]
    for number, (x, width, y, height) in enumerate(spans):
        for x2, width2, y2, height2 in spans[:number]:
            if min(x + width, x2 + width2) - max(x, x2) > 1:
                assert min(y + height, y2 + height2) - max(y, y2) < 0.6


def test_an_idle_tile_has_no_scratchpad(network: Run) -> None:
    with pytest.raises(Tx8Error, match=r"tile 16 has done nothing; tiles that worked: \[0, 1"):
        network.scratchpad(16)


# --- the phases ---------------------------------------------------------------------------


def test_phases_have_their_cycles_and_what_they_read(run: Run) -> None:
    texts = [str(title.text) for title in read(run.phases()).iter(f"{SVG}title")]
    for node in run.stats.report.nodes:
        if node.name and node.cycles:
            assert any(text.startswith(f"{node.name}: {node.cycles:,.0f} cycles") for text in texts)
    assert any(re.fullmatch(r"inputs to .*: [\d,]+ bytes", text) for text in texts)


def test_a_network_of_one_phase_has_no_graph_of_phases(network: Run) -> None:
    with pytest.raises(Tx8Error, match="mlp has fewer than two phases"):
        network.phases()


# --- the roofline -------------------------------------------------------------------------


def test_points_are_where_operations_and_bytes_say(tmp_path: Path) -> None:
    """16 x 2,048 products, and as many halves from and to DDR, all of one node."""
    path = tmp_path / "p.bin"
    text = square_program(nodes=("all", "all", "all"))
    path.write_bytes(write_image(asm.assemble(text, name="p.s")))
    run = tx8.load(str(path)).run(x=np.ones((16, 2048), np.float16))
    root = read(run.roofline())
    points = titled(root, "circle")
    assert [name.split(":")[0] for name in points] == ["the whole run", "all"]
    ((circle,), _) = points.values()
    assert next(iter(points)).startswith("the whole run: 0.25 operations per byte")
    for key, axis, value in (
        ("cx", {at: x for at, (x, _) in places(root, "middle").items()}, 0.25),
        ("cy", {at: y - 4 for at, (_, y) in places(root, "end").items()}, 16 * 2048 / run.cycles),
    ):
        (low, first), *_, (high, last) = sorted(axis.items())
        scale = (last - first) / (math.log10(high) - math.log10(low))
        wanted = first + scale * (math.log10(value) - math.log10(low))
        assert float(circle.attrib[key]) == pytest.approx(wanted, abs=0.3)
    assert any("DDR: " in name for name in titled(root, "polyline"))


# --- files and chips ----------------------------------------------------------------------


def test_a_picture_is_written_whole(run: Run, tmp_path: Path) -> None:
    path = run.timeline().save(tmp_path / "t.svg")
    assert path.read_text() == run.timeline().svg
    with pytest.raises(Tx8Error, match="cannot be written"):
        run.timeline().save(tmp_path / "no" / "t.svg")


def test_chips_are_refused() -> None:
    program = tx8.compile("examples/mlp/mlp.json", dtype="fp16", chips=(2, 1), parallel="tp=2")
    found = program.run(np.zeros(program.inputs[0].shape, np.float32), data=False)
    for draw in (found.timeline, found.scratchpad, found.roofline):
        with pytest.raises(Tx8Error, match=r"a drawing is for a run on one chip; this one is on 2"):
            draw()
