"""Runs every benchmark and writes the figures that have a goal: all of them into docs/benchmarks.md, ten of
them, each with its peer, into the README.

python benchmarks/summary.py
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from _report import ROWS, Row, machine, read_rows

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
    return sorted(p for p in HERE.glob("[a-z]*.py") if p.name != Path(__file__).name)


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


def sections(measured: Mapping[Path, Sequence[Row]]) -> str:
    """A heading, a sentence and a table for each script that has figures with goals; then the machine."""
    lines = []
    for script, rows in measured.items():
        if rows:
            lines += [f"## `benchmarks/{script.name}`", "", summary_of(script), "", *table(rows), ""]
    return "\n".join([*lines, f"Measured on: {machine()}."])


def highlights(rows: Iterable[Row]) -> str:
    """The table of the README; an error when a row that it shows was not measured."""
    by_name = {row.what: row for row in rows}
    if missing := [name for name in HIGHLIGHTS if name not in by_name]:
        raise SystemExit(f"no benchmark measured {', '.join(missing)}, which HIGHLIGHTS in {__file__} names")
    return "\n".join([*table(by_name[name] for name in HIGHLIGHTS), "", f"Measured on: {machine()}."])


def updated(page: Path, new: str) -> str:
    """The text of ``page`` with the marked region replaced."""
    before, begin, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"{page.name} has no region {BEGIN} ... {END}")
    return f"{before}{BEGIN}\n{new}\n{END}{after}"


def measure(script: Path) -> list[Row]:
    """Run one benchmark; the figures that it promised."""
    with tempfile.TemporaryDirectory() as folder:
        rows = Path(folder) / "rows"
        rows.touch()
        print(f"== {script.name}", flush=True)
        subprocess.run([sys.executable, script], check=True, env={**os.environ, ROWS: str(rows)})
        return read_rows(rows)


def main() -> int:
    measured = {script: measure(script) for script in scripts()}
    every = sections(measured)
    print(every)
    texts = {
        PAGE: updated(PAGE, every),
        README: updated(README, highlights(row for rows in measured.values() for row in rows)),
    }
    for path, text in texts.items():
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
