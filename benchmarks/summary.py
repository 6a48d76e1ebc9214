"""Runs every benchmark, prints the figures that have a goal as one table, and puts it into the README.

python benchmarks/summary.py
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from _report import ROWS, Row, machine, read_rows

HERE = Path(__file__).parent
README = HERE.parent / "README.md"
BEGIN, END = "<!-- benchmarks -->", "<!-- end of benchmarks -->"
HEADINGS = ("what", "figure", "goal", "compared with, in the same run", "met")


def table(rows: list[Row]) -> str:
    """A Markdown table of the rows and a line about the machine."""
    lines = [f"| {' | '.join(HEADINGS)} |", "|" + "---|" * len(HEADINGS)]
    lines += [f"| {' | '.join(row.cells())} |" for row in rows]
    return "\n".join([*lines, "", f"Measured on: {machine()}."])


def update_readme(text: str, new: str) -> str:
    """``text`` with the marked region replaced."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"{README.name} has no region {BEGIN} ... {END}")
    return f"{before}{BEGIN}\n{new}\n{END}{after}"


def main() -> int:
    scripts = sorted(p for p in HERE.glob("[a-z]*.py") if p.name != Path(__file__).name)
    with tempfile.TemporaryDirectory() as folder:
        rows = Path(folder) / "rows"
        rows.touch()
        for script in scripts:
            print(f"== {script.name}", flush=True)
            subprocess.run([sys.executable, script], check=True, env={**os.environ, ROWS: str(rows)})
        text = table(read_rows(rows))
    print(text)
    README.write_text(update_readme(README.read_text(), text))
    return 0


if __name__ == "__main__":
    sys.exit(main())
