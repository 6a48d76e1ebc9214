"""The page and the picture of scaling, and the estimates that they are drawn from."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

from paths import ROOT


@pytest.fixture(scope="module")
def scaling() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "docs"))
        return importlib.import_module("scaling_picture")


def test_page_and_picture_are_what_the_estimates_say(
    scaling: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert scaling.main(["--check"]) == 0, "run python docs/scaling_picture.py"
    for name, file in (("PAGE", "scaling.md"), ("PICTURE", "scaling.svg")):
        monkeypatch.setattr(scaling, name, tmp_path / file)
    assert scaling.main(["--check"]) == 1
    assert "scaling.md is stale: run python docs/scaling_picture.py" in capsys.readouterr().err
    assert scaling.main([]) == 0
    assert scaling.main(["--check"]) == 0
    assert (tmp_path / "scaling.md").read_bytes() == (ROOT / "docs/scaling.md").read_bytes()


def test_every_point_that_is_wanted_is_there(scaling: Any) -> None:
    places = [(p.network, p.batch, p.chips, p.dp, p.tp) for p in scaling.points()]
    wanted = [(name, batch, x * y, dp, tp) for name, batch, (x, y), dp, tp in scaling.wanted()]
    assert sorted(places) == sorted(wanted)
    assert max(chips for _, _, chips, _, _ in places) == 4096


def test_what_was_emulated_is_marked(scaling: Any) -> None:
    benchmarks = (ROOT / "docs/benchmarks.md").read_text(encoding="utf-8")
    found = [point for point in scaling.points() if scaling.emulated(point, benchmarks)]
    assert len(found) == len(scaling.EMULATED)
    assert all(abs(scaling.emulated(p, benchmarks) / p.cycles - 1) < 0.15 for p in found)


@pytest.mark.long
def test_the_estimate_of_an_image_is_that_of_today(scaling: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    one = (scaling.RESNET, 1, (1, 1), 1, 1)
    monkeypatch.setattr(scaling, "wanted", lambda: iter([one]))
    (now,) = scaling.measured()
    assert now in scaling.points(), "run python docs/scaling_picture.py --measure"
