"""The tables of benchmarks in the README and in docs/benchmarks.md, and the script that writes both."""

from __future__ import annotations

from collections.abc import Iterator
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
    """In the order in which the scripts run, under the first sentence of each."""
    page = (ROOT / "docs/benchmarks.md").read_text(encoding="utf-8")
    sections = page.split("\n## ")[1:]
    order = [f"`benchmarks/{script.name}`" for script in benchmark.summary.scripts()]
    titles = [section.partition("\n")[0] for section in sections]
    assert titles == [title for title in order if title in titles]
    for title, section in zip(titles, sections, strict=True):
        script = ROOT / title.strip("`")
        assert benchmark.summary.summary_of(script) in section
        assert table_rows(section)


def test_sections_leave_out_scripts_without_goals(benchmark: SimpleNamespace) -> None:
    measured = {HERE / "core.py": rows(benchmark, "a loop"), HERE / "vector.py": []}
    text = benchmark.summary.sections(measured)
    assert "## `benchmarks/core.py`" in text
    assert "| a loop | 2.00 s | ≤ 3.00 s | a peer: 1.5 s | yes |" in text
    assert "vector.py" not in text
    assert text.splitlines()[-1].startswith("Measured on: ")


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
