"""The model of time and the published measurements: rows, reasons, the tables in docs/measurements.md."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from emulator.timing.slices import SLICE, TICKS, Track
from paths import ROOT
from scripts import benchmark_modules, generator
from tx8isa.machine.description import load_machine

MODULES = (
    *("_report", "_graphs", "_timing_programs", "_timing_ddr_rows", "_timing_rows", "_whole_programs"),
    "timing",
)


@pytest.fixture(scope="module")
def bench() -> Iterator[SimpleNamespace]:
    """The modules of the folder, which is not a package."""
    with benchmark_modules(*MODULES) as modules:
        yield modules


@pytest.fixture(scope="module")
def found(bench: SimpleNamespace) -> Any:
    return bench.timing.results()


def row(bench: SimpleNamespace, *samples: float, **changes: Any) -> Any:
    made = bench.timing_programs.Row("CT", "a row", samples, "", lambda run: 0.0)
    return replace(made, **changes)


# --- the chip -------------------------------------------------------------------------------


def test_the_page_has_the_table(bench: SimpleNamespace, found: Any) -> None:
    page = bench.timing.PAGE.read_text(encoding="utf-8")
    assert bench.timing.updated(page, bench.timing.table(found)) == page, (
        "run python benchmarks/timing.py --write"
    )


@pytest.mark.long
def test_the_page_has_the_whole_programs(bench: SimpleNamespace) -> None:
    """Only programs that the page explains are so fast that the model may lack something."""
    whole = [bench.whole_programs.measure(program) for program in bench.whole_programs.whole_programs()]
    page = bench.timing.PAGE.read_text(encoding="utf-8")
    marks = bench.timing.WHOLE_BEGIN, bench.timing.WHOLE_END
    assert bench.timing.updated(page, bench.timing.whole_text(whole), marks) == page, (
        "run python benchmarks/timing.py --write"
    )
    attention = "attention 28 x 2048 x 128 BF16"  # the page says what its published commands take
    assert {row.whole.what for row in whole if row.forgets} == {"GEMM 512 FP16", attention}
    assert all(row.least <= row.middle <= row.most for row in whole)


def test_the_median_error_is_as_promised(bench: SimpleNamespace, found: Any) -> None:
    assert bench.timing.middle(found) <= bench.timing.GOAL
    assert bench.timing.middle(found, (True,)) < bench.timing.middle(found, (False,)) <= 2 * bench.timing.GOAL


def test_rows_far_off_have_a_reason_and_bounds_hold_but_one(bench: SimpleNamespace, found: Any) -> None:
    assert list(bench.timing.unexplained(found)) == []
    bounds = [result for result in found if result.row.lower_bound]
    missed = {result.row.what: result.model / result.row.measured for result in bounds if not result.holds}
    assert missed == {"a product of 64 x 128 x 128": pytest.approx(0.917, abs=0.001)}
    assert len(bounds) == 6
    assert sum(result.far for result in found) < len(found) / 4


def test_rows_are_told_apart(bench: SimpleNamespace) -> None:
    names = [(r.topic, r.what) for r in bench.timing_rows.all_rows()]
    assert len(set(names)) == len(names)
    assert {what for _, what in names} >= bench.timing_programs.FITTED
    assert all(gap.what and gap.why for gap in bench.timing_rows.GAPS)


def test_another_machine_has_other_times(bench: SimpleNamespace, tmp_path: Path) -> None:
    text = bench.timing_programs.ct(2048) + "\n" + bench.timing_programs.WAIT
    path = tmp_path / "slow.toml"
    source = (ROOT / "tx8isa/machine/machines/tx81.toml").read_text(encoding="utf-8")
    path.write_text(source.replace("fp16 = { value = 60.3,", "fp16 = { value = 6.03,"))
    times = [
        bench.timing.run(row(bench, 79, text=text), load_machine(machine)).busy(Track.CT)
        for machine in (None, path)
    ]
    assert times == [pytest.approx(44.9 + 2048 / 60.3, 0.001), pytest.approx(44.9 + 2048 / 6.03, 0.001)]


# --- figures of a run -----------------------------------------------------------------------


def test_union_and_excess_are_those_of_the_slices(bench: SimpleNamespace) -> None:
    slices = np.zeros(5, SLICE)
    slices["track"] = [Track.CT, Track.NE, Track.CT, Track.CORE, Track.CT]
    slices["tile"] = [0, 0, 0, 0, 1]
    slices["started"] = np.array([0, 50, 200, 0, 0]) * TICKS
    slices["ended"] = np.array([100, 170, 230, 900, 900]) * TICKS
    run = bench.timing_programs.Run(slices, np.array([[5, 12]]))
    assert (run.busy(Track.CT), run.busy(Track.NE), run.union()) == (130, 120, 200)
    assert bench.timing_programs.excess(Track.CT, Track.NE)(run) == 50
    assert run.between(0, 1) == 7


def test_verdicts(bench: SimpleNamespace) -> None:
    result = bench.timing.Result
    assert result(row(bench, 90, 100, 110), 95.0).verdict == "-5.0%"
    assert result(row(bench, 0), 0.0).verdict == "+0.0%"
    assert result(row(bench, 0), 3.0).verdict == "not 0"
    assert result(row(bench, 100, lower_bound=True), 100.0).verdict == "holds"
    assert result(row(bench, 100, lower_bound=True), 99.0).verdict == "fails"
    assert [result(row(bench, 100), model).far for model in (84, 86, 114, 116)] == [True, False, False, True]
    assert result(row(bench, 0), 3.0).far
    assert result(row(bench, 100, lower_bound=True), 99.0).far


def test_missing_and_needless_reasons_are_told(bench: SimpleNamespace) -> None:
    rows = [row(bench, 100), row(bench, 100, reason="because"), row(bench, 100, reason="because")]
    found = [bench.timing.Result(r, model) for r, model in zip(rows, (50.0, 100.0, 50.0), strict=True)]
    assert list(bench.timing.unexplained(found)) == [
        "CT, a row: -50.0%, no reason is given",
        "CT, a row: +0.0%, needs no reason",
    ]


def test_a_page_without_the_region_is_refused(bench: SimpleNamespace) -> None:
    assert bench.timing.updated(f"a\n{bench.timing.BEGIN}\nold\n{bench.timing.END}\nb", "new") == (
        f"a\n{bench.timing.BEGIN}\n\nnew\n\n{bench.timing.END}\nb"
    )
    with pytest.raises(SystemExit, match=r"measurements\.md has no region <!-- benchmark -->"):
        bench.timing.updated("nothing", "new")


def test_the_summary_gets_the_median(
    bench: SimpleNamespace, found: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(bench.report.ROWS, str(tmp_path / "rows"))
    monkeypatch.setattr(bench.timing, "results", lambda: found)
    monkeypatch.setattr(bench.timing, "whole_programs", list)
    assert bench.timing.main([]) == 0
    (promised,) = [json.loads(line) for line in (tmp_path / "rows").read_text().splitlines()]
    assert (promised["figure"], promised["goal"]) == (bench.timing.middle(found), 0.05)


# --- the coefficients -----------------------------------------------------------------------


@pytest.fixture
def generate() -> ModuleType:
    return generator()


def test_the_page_has_the_coefficients(generate: ModuleType) -> None:
    page = generate.TIMING.read_text(encoding="utf-8")
    assert generate.with_coefficients(page) == page, "run python docs/generate.py"
    assert "| `ct.rates.fp16` | 60.3 |  | element/cycle | inferred |" in page
    assert "| `ddr.run` | 5.2 | 3.8 to 7.1 | cycle | inferred |" in page


def test_check_notices_stale_coefficients(
    generate: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = generate.TIMING.read_text(encoding="utf-8")
    copy = tmp_path / "coefficients.md"
    copy.write_text(page.replace("| 60.3 |", "| 61.3 |"), encoding="utf-8")
    monkeypatch.setattr(generate, "TIMING", copy)
    monkeypatch.setattr(generate, "TARGET", tmp_path / "isa")
    monkeypatch.setattr(generate, "pages", dict)
    assert generate.main(["--check"]) == 1
    said = capsys.readouterr().err
    assert said.startswith("coefficients.md has other coefficients than the machine description")
    assert generate.main([]) == 0
    assert generate.main(["--check"]) == 0
    assert copy.read_text(encoding="utf-8") == page
    copy.write_text("a page without a table")
    with pytest.raises(ValueError, match=r"coefficients\.md has no region"):
        generate.main([])
