"""Run benchmarks and write their tables into docs/benchmarks.md; ten rows, each with its peer, also go into
the README.

    python benchmarks/summary.py              all of them
    python benchmarks/summary.py schedule     those that are named; only their sections of docs/benchmarks.md
                                              are written

A section has the tables of its script, then the figures that have a goal, then processor and date.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from pathlib import Path

from _report import ROWS, Figures, Row, machine, read_figures

HERE = Path(__file__).resolve().parent
README = HERE.parent / "README.md"
PAGE = HERE.parent / "docs" / "benchmarks.md"
BEGIN, END = "<!-- benchmarks -->", "<!-- end of benchmarks -->"
HEADINGS = ("what", "figure", "goal", "compared with, in the same run", "met")

HIGHLIGHTS = (
    "`tx8as` on 100,000 generated lines",
    "`tx8as tiny.s` from a cold shell",
    "`ct.add`, `ct.mul` fp32, the slower",
    "`ct.exp.v.fp32`",
    "`ne.gemm` fp16 512x512x512, Cx to Cx, conversions included",
    "`ne.gemm` int8 512x512x512",
    "`ne.conv` fp16 3x3/1 64-64, 56x56",
    "squeezenet fp16: a warm run",
    "resnet50 fp16: a warm run",
    "resnet50 fp16: of the roofline",
)
"""The rows that the README shows, in its order."""


def scripts() -> list[Path]:
    """The benchmarks, in the order in which they run."""
    return sorted(p for p in HERE.glob("[a-z]*.py") if p.name not in ("summary.py", "replay.py"))


def summary_of(script: Path) -> str:
    """The first sentence of a script's documentation."""
    text = ast.get_docstring(ast.parse(script.read_text(encoding="utf-8"))) or ""
    return text.partition("\n\n")[0].replace("\n", " ")


def table(rows: Iterable[Row]) -> list[str]:
    """The lines of a Markdown table of the rows."""
    return [
        f"| {' | '.join(HEADINGS)} |",
        "|" + "---|" * len(HEADINGS),
        *(f"| {' | '.join(row.cells())} |" for row in rows),
    ]


def sections(measured: Mapping[Path, Figures]) -> dict[str, str]:
    """The section of each script that has any figures, by its title: a sentence, tables, machine and date."""
    found = {}
    for script, figures in measured.items():
        tables = [each.markdown() for each in figures.tables]
        tables += [table(figures.rows)] if figures.rows else []
        if tables:
            title = f"## `benchmarks/{script.name}`"
            lines = [title, "", summary_of(script), "", *(line for each in tables for line in (*each, ""))]
            found[title] = "\n".join([*lines, f"Measured on: {machine()}, {date.today().isoformat()}."])
    return found


def joined(old: str, new: Mapping[str, str]) -> str:
    """The sections of the page's region, old ones replaced by new ones, in the order of the scripts."""
    known = {each.partition("\n")[0]: each.strip() for each in re.split(r"(?m)^(?=## )", old) if each.strip()}
    known |= new
    order = [f"## `benchmarks/{script.name}`" for script in scripts()]
    return "\n\n".join(known[title] for title in order if title in known)


def highlights(rows: Iterable[Row]) -> str:
    """The table of the README; an error if a row that it shows was not measured."""
    by_name = {row.what: row for row in rows}
    if missing := [name for name in HIGHLIGHTS if name not in by_name]:
        raise SystemExit(f"no benchmark measured {', '.join(missing)}, which HIGHLIGHTS in {__file__} names")
    return "\n".join([*table(by_name[name] for name in HIGHLIGHTS), "", f"Measured on: {machine()}."])


def region(page: Path) -> tuple[str, str, str]:
    """The text of ``page`` before its marked region, in it and after it."""
    before, begin, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    inside, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"{page.name} has no region {BEGIN} ... {END}")
    return before, inside, after


def updated(page: Path, new: str) -> str:
    """The text of ``page`` with the marked region replaced."""
    before, _, after = region(page)
    return f"{before}{BEGIN}\n{new}\n{END}{after}"


def measure(script: Path) -> Figures:
    """Run one benchmark; returns its results."""
    with tempfile.TemporaryDirectory() as folder:
        rows = Path(folder) / "rows"
        rows.touch()
        print(f"== {script.name}", flush=True)
        subprocess.run([sys.executable, script], check=True, env={**os.environ, ROWS: str(rows)})
        return read_figures(rows)


def chosen(names: Sequence[str]) -> list[Path]:
    """The named scripts, or all; SystemExit for an unknown name."""
    every = {script.stem: script for script in scripts()}
    if unknown := [name for name in names if name not in every]:
        raise SystemExit(f"no benchmark {unknown[0]}; there are {', '.join(every)}")
    return [every[name] for name in names or every]


def main(names: Sequence[str]) -> int:
    measured = {script: measure(script) for script in chosen(names)}
    new = sections(measured)
    print("\n\n".join(new.values()))
    texts = {PAGE: updated(PAGE, joined(region(PAGE)[1] if names else "", new))}
    if not names:
        rows = (row for figures in measured.values() for row in figures.rows)
        texts[README] = updated(README, highlights(rows))
    for path, text in texts.items():
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
