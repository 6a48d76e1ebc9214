"""The tables of benchmarks in the README and in docs/benchmarks.md, and the script that writes both."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from types import SimpleNamespace

import pytest

from documents import cells
from paths import ROOT
from scripts import benchmark_modules

MODULES = ("_report", "summary")
HERE = ROOT / "benchmarks"


@pytest.fixture
def benchmark() -> Iterator[SimpleNamespace]:
    """The modules of the folder, which is not a package."""
    with benchmark_modules(*MODULES) as modules:
        yield modules


def table_rows(text: str) -> list[list[str]]:
    """Cells of each row of the tables with a verdict; headings left out."""
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [row for row in map(cells, lines) if row[-1] in ("yes", "no")]


def rows(benchmark: SimpleNamespace, *names: str) -> list[object]:
    return [benchmark.report.Row(name, 2.0, "s", 3.0, False, "a peer: 1.5 s") for name in names]


def test_the_readme_shows_ten_rows_of_the_long_table(benchmark: SimpleNamespace) -> None:
    shown = table_rows((ROOT / "README.md").read_text(encoding="utf-8"))
    every = table_rows((ROOT / "docs/benchmarks.md").read_text(encoding="utf-8"))
    assert [row[0] for row in shown] == list(benchmark.summary.HIGHLIGHTS)
    assert len(shown) == 10
    assert [row for row in shown if row not in every] == []
    assert all(row[3] for row in shown), "each of them has a peer"


def test_the_long_table_has_a_section_for_each_script(benchmark: SimpleNamespace) -> None:
    """Tables are in the order in which the scripts run, each with the first sentence of its script and the
    place of its measurement."""
    _, page, _ = benchmark.summary.region(ROOT / "docs/benchmarks.md")
    sections = page.split("\n## ")[1:]
    order = [f"`benchmarks/{script.name}`" for script in benchmark.summary.scripts()]
    titles = [section.partition("\n")[0] for section in sections]
    assert titles == [title for title in order if title in titles]
    for title, section in zip(titles, sections, strict=True):
        script = ROOT / title.strip("`")
        assert benchmark.summary.summary_of(script) in section
        assert table_rows(section) or title == "`benchmarks/host_time.py`"
        last = section.partition("<!--")[0].strip().splitlines()[-1]
        begins = r"(, which starts in \d+ ms)?"
        assert re.fullmatch(
            rf"Measured on: .+, \d+ cores, Python 3[\d.]+{begins}(, \d{{4}}-\d\d-\d\d)?\.", last
        )


def test_sections_leave_out_scripts_without_goals(benchmark: SimpleNamespace) -> None:
    figures = benchmark.report.Figures
    measured = {HERE / "core.py": figures(rows(benchmark, "a loop")), HERE / "vector.py": figures()}
    ((title, text),) = benchmark.summary.sections(measured).items()
    assert title == text.splitlines()[0] == "## `benchmarks/core.py`"
    assert "| a loop | 2.00 s | ≤ 3.00 s | a peer: 1.5 s | yes |" in text
    assert text.splitlines()[-1].startswith("Measured on: ")
    assert text.endswith(f", {date.today().isoformat()}.")


def test_a_table_of_a_script_comes_before_its_goals(
    benchmark: SimpleNamespace,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv(benchmark.report.ROWS, str(tmp_path / "rows"))
    benchmark.report.tabulate(("network", "cycles"), [("a", "1"), ("b", "2")])
    shown = ["| network | cycles |", "| --- | --- |", "| a | 1 |", "| b | 2 |"]
    assert capsys.readouterr().out.splitlines() == shown
    benchmark.report.promise("a: cycles", 1.0, "cycles", at_most=2.0)
    figures = benchmark.report.read_figures(tmp_path / "rows")
    text = benchmark.summary.sections({HERE / "core.py": figures})["## `benchmarks/core.py`"]
    lines = text.splitlines()
    at = lines.index(shown[0])
    assert lines[at : at + 4] == shown
    assert [row[0] for row in table_rows("\n".join(lines[at + 4 :]))] == ["a: cycles"]


def test_a_row_of_a_table_has_a_cell_for_each_column(benchmark: SimpleNamespace) -> None:
    with pytest.raises(ValueError, match=r"1 cells for 2 columns: \['a'\]"):
        benchmark.report.tabulate(("network", "cycles"), [("a",)])


def test_sections_of_some_scripts_replace_theirs(benchmark: SimpleNamespace) -> None:
    titles = [f"## `benchmarks/{name}.py`" for name in ("assembler", "ne", "schedule")]
    old = f"\n{titles[0]}\n\nfirst\n\n{titles[2]}\n\nlast\n"
    found = benchmark.summary.joined(old, {titles[2]: f"{titles[2]}\n\nnew"})
    assert found == f"{titles[0]}\n\nfirst\n\n{titles[2]}\n\nnew"
    found = benchmark.summary.joined(old, {titles[1]: f"{titles[1]}\n\nbetween"})
    assert [line for line in found.splitlines() if line.startswith("## ")] == titles


def test_scripts_are_chosen_by_name(benchmark: SimpleNamespace) -> None:
    assert benchmark.summary.chosen([]) == benchmark.summary.scripts()
    assert benchmark.summary.chosen(["schedule", "core"]) == [HERE / "schedule.py", HERE / "core.py"]
    with pytest.raises(SystemExit, match="no benchmark shedule; there are assembler, chips, core, "):
        benchmark.summary.chosen(["shedule"])


def test_the_readme_needs_every_row_that_it_shows(benchmark: SimpleNamespace) -> None:
    names = benchmark.summary.HIGHLIGHTS
    shown = benchmark.summary.highlights(rows(benchmark, "another", *reversed(names)))
    assert [row[0] for row in table_rows(shown)] == list(names)
    with pytest.raises(SystemExit, match=r"no benchmark measured squeezenet fp16: a warm run, which"):
        benchmark.summary.highlights(rows(benchmark, *(n for n in names if not n.startswith("squeezenet"))))


def test_one_region_of_a_page_is_replaced(benchmark: SimpleNamespace, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- benchmarks -->\nold\n<!-- end of benchmarks -->\nafter\n")
    found = benchmark.summary.updated(page, "new")
    assert found == "before\n<!-- benchmarks -->\nnew\n<!-- end of benchmarks -->\nafter\n"
    for text in ("no region\n", "<!-- benchmarks -->\nno end\n"):
        page.write_text(text)
        with pytest.raises(SystemExit, match=r"page\.md has no region <!-- benchmarks -->"):
            benchmark.summary.updated(page, "new")


@pytest.mark.parametrize("name", ["README.md", "docs/benchmarks.md"])
def test_the_pages_have_their_region(benchmark: SimpleNamespace, name: str) -> None:
    assert "\nnew\n<!-- end of benchmarks -->" in benchmark.summary.updated(ROOT / name, "new")
