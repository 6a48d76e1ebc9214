"""Figures of the benchmarks and their goals: one row per figure, for docs/benchmarks.md and the README.

A script calls ``promise`` for each figure that has a goal, and ``tabulate`` for a table of its own. If
``TX8_BENCHMARK_ROWS`` names a file, both are appended to it as JSON lines; ``summary.py`` runs the scripts in
this way and writes their tables.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

ROWS = "TX8_BENCHMARK_ROWS"


@dataclass(frozen=True)
class Row:
    """A figure: ``unit`` follows the number, ``against`` names what it is compared with in the same run."""

    what: str
    figure: float
    unit: str
    goal: float
    more_is_better: bool
    against: str

    @property
    def met(self) -> bool:
        return self.figure >= self.goal if self.more_is_better else self.figure <= self.goal

    def cells(self) -> tuple[str, str, str, str, str]:
        """The cells of a row: what, figure, goal, compared with, verdict."""
        sign = "≥" if self.more_is_better else "≤"
        return (
            self.what,
            _number(self.figure, self.unit),
            f"{sign} {_number(self.goal, self.unit)}",
            self.against,
            "yes" if self.met else "no",
        )


@dataclass(frozen=True)
class Table:
    """A table of a script, as the page shows it."""

    headings: Sequence[str]
    lines: Sequence[Sequence[str]]
    """The cells of each row."""

    def markdown(self) -> list[str]:
        """The lines of the table in Markdown."""
        rows = [self.headings, ["---"] * len(self.headings), *self.lines]
        return [f"| {' | '.join(cells)} |" for cells in rows]


@dataclass(frozen=True)
class Figures:
    """The results of a benchmark script: rows with goals, and tables of its own."""

    rows: list[Row] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)


def _number(value: float, unit: str) -> str:
    if unit == "%":
        return f"{value:.0%}"
    digits = 0 if value >= 100 else 2
    return f"{value:,.{digits}f} {unit}"


def promise(
    what: str,
    figure: float,
    unit: str,
    *,
    at_least: float | None = None,
    at_most: float | None = None,
    against: str = "",
) -> None:
    """Record a figure and its goal; exactly one bound must be given. Figures in ``%`` are ratios: 1.0 is 100
    %."""
    if (at_least is None) == (at_most is None):
        raise ValueError(f"{what}: give one of at_least and at_most")
    goal = at_least if at_least is not None else at_most
    assert goal is not None
    _append(asdict(Row(what, figure, unit, goal, at_least is not None, against)))


def tabulate(headings: Sequence[str], lines: Iterable[Sequence[str]]) -> None:
    """Print a table and record it for the page; ValueError if a row has another number of cells."""
    table = Table(list(headings), [list(line) for line in lines])
    if wrong := [line for line in table.lines if len(line) != len(table.headings)]:
        raise ValueError(f"{len(wrong[0])} cells for {len(table.headings)} columns: {wrong[0]}")
    print("\n".join(table.markdown()))
    _append(asdict(table))


def _append(line: dict[str, object]) -> None:
    file = os.environ.get(ROWS)
    if file:
        with Path(file).open("a") as lines:
            lines.write(json.dumps(line) + "\n")


def read_figures(file: Path) -> Figures:
    """Read the results that scripts appended."""
    found = Figures()
    for line in file.read_text().splitlines():
        fields = json.loads(line)
        if "headings" in fields:
            found.tables.append(Table(**fields))
        else:
            found.rows.append(Row(**fields))
    return found


_STARTS = 5
"""Times that an empty program is started."""


def machine() -> str:
    """The processor and the Python with which figures were taken, and the time that Python takes to start.

    That time compares hosts: where it is twice as long, all seconds are about twice as many.
    """
    info = Path("/proc/cpuinfo")
    names = [line for line in info.read_text().splitlines() if "model name" in line] if info.exists() else []
    name = names[0].partition(":")[2].strip() if names else platform.machine()
    python = f"Python {platform.python_version()}"
    return f"{name}, {os.cpu_count()} cores, {python}, which starts in {_start_seconds() * 1000:.0f} ms"


def _start_seconds() -> float:
    """The least time of an empty Python program."""
    found = []
    for _ in range(_STARTS):
        began = time.perf_counter()
        subprocess.run([sys.executable, "-I", "-S", "-c", "pass"], check=True)
        found.append(time.perf_counter() - began)
    return min(found)
