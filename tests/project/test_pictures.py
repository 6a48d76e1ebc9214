"""The pictures of runs in the documents agree with the runs, and show the programs' intent."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from paths import ROOT

NAMES = (
    "dte_modes.svg",
    "group_tiles.svg",
    "pipeline.svg",
    "ring_of_chips.svg",
    "ring_of_tiles.svg",
    "second_run.svg",
    "slow_steps.svg",
    "slow_waits.svg",
    "trace.svg",
)
PARTS = ("animation", "group", "modes", "pipeline", "ring_of_chips", "runs", "second_run")
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def scripts() -> Iterator[SimpleNamespace]:
    """``docs/draw.py`` and the modules of ``docs/drawing``."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "docs"))
        modules = {name: importlib.import_module(f"drawing.{name}") for name in PARTS}
        yield SimpleNamespace(draw=importlib.import_module("draw"), **modules)


@pytest.fixture
def picture() -> Callable[[str], ElementTree.Element]:
    return lambda name: ElementTree.parse(ROOT / "docs/pictures" / name).getroot()


@pytest.mark.parametrize("name", NAMES)
def test_a_picture_is_what_the_run_says(scripts: Any, name: str) -> None:
    assert scripts.draw.main(["--check", name]) == 0


def test_all_are_tested_and_shown(scripts: Any) -> None:
    assert sorted(scripts.draw.PICTURES) == list(NAMES)
    pages = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "docs").glob("*.md"))
    assert [name for name in NAMES if f"](pictures/{name})" not in pages] == []


def test_a_stale_picture_is_seen(
    scripts: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(scripts.draw, "FOLDER", tmp_path)
    monkeypatch.setattr(scripts.draw, "PICTURES", {"a.svg": lambda: "<svg/>\n"})
    assert scripts.draw.main(["--check"]) == 1
    assert capsys.readouterr().err == "a.svg is not what the runs say: run python docs/draw.py a.svg\n"
    assert scripts.draw.main([]) == 0
    assert scripts.draw.main(["--check"]) == 0
    (tmp_path / "a.svg").write_text("<svg></svg>\n")
    assert scripts.draw.main(["--check", "a.svg"]) == 1
    assert scripts.draw.main(["b.svg"]) == 2
    assert "no picture b.svg; there are a.svg" in capsys.readouterr().err


@pytest.mark.parametrize("name", NAMES)
def test_a_picture_fetches_nothing_and_stays_inside(
    picture: Callable[[str], ElementTree.Element], name: str
) -> None:
    """A picture has no script and no link; no text begins or is anchored outside of it."""
    root = picture(name)
    text = (ROOT / "docs/pictures" / name).read_text(encoding="utf-8")
    assert not re.search(r"href|<script|@import|url\((?!#)", text)
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    for each in root.iter(f"{SVG}text"):
        assert 0 <= float(each.attrib["x"]) <= width
        assert 0 <= float(each.attrib["y"]) <= height


# --- the modes of the DTE -----------------------------------------------------------------

ARRIVED = {
    "dte.unicast": {"tile 1": [1, 2]},
    "dte.unicast2d": {"tile 1": [1, 3, 5, 7]},
    "dte.broadcast": {"tile 1": [1, 2], "tile 2": [1, 2], "tile 3": [1, 2]},
    "dte.scatter": {"tile 1": [1, 2], "tile 2": [3, 4], "tile 3": [5, 6]},
    "dte.gather": {"tile 1": np.arange(1, 9).reshape(2, 4).T.ravel().tolist()},
    "dte.shuffle": {"tile 1": np.arange(1, 9).reshape(2, 4)[:, :2].ravel().tolist()},
    "dte.rdma": {"tile 1": [1, 3, 5, 7]},
    "dte.wdma": {"DDR": [1, 0, 2, 0, 3, 0, 4]},
}
"""The blocks that each mode brings, by NumPy and by docs/isa/dte.md."""


@pytest.mark.parametrize("name", ARRIVED)
def test_a_mode_brings_what_its_page_says(scripts: Any, name: str) -> None:
    (mode,) = (mode for mode in scripts.modes.MODES if mode.name == name)
    filled = {place: (blocks + [0] * 8)[:8] for place, blocks in ARRIVED[name].items()}
    assert scripts.modes.found(mode) == filled


def test_all_modes_are_drawn(scripts: Any) -> None:
    page = (ROOT / "docs/isa/dte.md").read_text(encoding="utf-8")
    assert {mode.name for mode in scripts.modes.MODES} == set(
        re.findall(r"^## (dte\.\w+)$", page, re.MULTILINE)
    ) - {"dte.wait"}


# --- a program that runs again ------------------------------------------------------------


def test_a_later_run_keeps_what_its_page_says(scripts: Any) -> None:
    found = dict(scripts.second_run.rows(scripts.second_run.measured()))
    kept = [name for name, cells in found.items() if cells[1] == "kept"]
    assert kept == ["decode the program", "compile or load kernels", "map the memories", "simulate time"]
    assert [name for name, cells in found.items() if not cells[2]] == [
        "compile or load kernels",
        "execute on engines",
    ]
    assert all(cells[0] for cells in found.values())
    assert found["run the kernel core"] == [found["run the kernel core"][0]] * 3


def test_a_run_without_kept_time_simulates_again(scripts: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The picture counts slices; it does not assume that they are kept."""
    monkeypatch.setenv("TX8_REUSE_TIME", "0")
    slices = [work.slices for work in scripts.second_run.measured()]
    assert slices == [slices[0]] * 3 and slices[0] > 0


# --- a group, and a pipeline --------------------------------------------------------------


def test_homes_are_the_whole_result_once(picture: Callable[[str], ElementTree.Element]) -> None:
    texts = [str(each.text) for each in picture("group_tiles.svg").iter(f"{SVG}text")]
    rows = [tuple(map(int, found)) for text in texts for found in re.findall(r"^rows (\d+)\.\.(\d+)$", text)]
    columns = [
        tuple(map(int, found)) for text in texts for found in re.findall(r"^cols (\d+)\.\.(\d+)$", text)
    ]
    assert len(rows) == len(columns) == 16
    stored = np.zeros((32, 512), int)
    for (top, bottom), (left, right) in zip(rows, columns, strict=True):
        stored[top : bottom + 1, left : right + 1] += 1
    assert (stored == 1).all()


def test_the_group_computes_its_operators(scripts: Any) -> None:
    """By NumPy in binary64, with the rounding of FP16."""
    group, runs = scripts.group, scripts.runs
    x = runs.array(group.TOKENS, group.COLUMNS)
    found = np.asarray(group.compiled().run(x)["y"])
    alone = np.asarray(group.compiled(patterns="none", residency="off").run(x)["y"])
    assert np.abs(found - alone).max() < 0.05
    assert found.shape == (32, 512)


def test_slices_of_the_pipeline_take_turns_in_two_buffers(
    picture: Callable[[str], ElementTree.Element],
) -> None:
    texts = [str(each.text) for each in picture("pipeline.svg").iter(f"{SVG}text")]
    loads = [text for text in texts if re.fullmatch(r"\d+: [AB]", text)]
    assert loads == [f"{turn + 1}: {'AB'[turn % 2]}" for turn in range(len(loads))]
    assert len(loads) >= 4


# --- rings --------------------------------------------------------------------------------


def test_every_tile_of_the_animation_ends_with_all_slices(
    picture: Callable[[str], ElementTree.Element],
) -> None:
    """Each place of each tile gets its colour before the end of the run."""
    places = [
        each for each in picture("ring_of_tiles.svg").iter(f"{SVG}rect") if each.attrib.get("width") == "20"
    ]
    assert len(places) == 16 * 16
    assert len({(each.attrib["x"], each.attrib["y"]) for each in places}) == 16 * 16
    for each in places:
        (change,) = each.iter(f"{SVG}animate")
        start, at = map(float, change.attrib["keyTimes"].split(";"))
        assert start == 0
        assert 0 < at < 0.9
        assert change.attrib["values"] == f"#ffffff;{each.attrib['fill']}"


def test_times_of_the_animation_never_go_back(picture: Callable[[str], ElementTree.Element]) -> None:
    """A browser ignores an animation whose times are not in order."""
    for each in picture("ring_of_tiles.svg").iter(f"{SVG}animate"):
        times = [float(time) for time in each.attrib["keyTimes"].split(";")]
        assert times == sorted(times)
        assert times[0] == 0
        assert times[-1] <= 1
        assert len(times) == len(each.attrib["values"].split(";"))
        assert each.attrib["calcMode"] == "discrete" or times[-1] == 1


def test_chips_send_round_the_ring(scripts: Any) -> None:
    """As the table of successors in the program says."""
    slices = scripts.runs.of_example(scripts.ring_of_chips.PROGRAM, "2x2")
    copies = {(s.chip, s.to) for s in slices if s.track == "DTE" and s.tile == 0}
    assert copies == {(0, (1, 0)), (1, (3, 0)), (2, (0, 0)), (3, (2, 0))}
