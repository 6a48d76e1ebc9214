"""Figures of the benchmarks and their goals: one row per figure, for docs/benchmarks.md and the README.

A script calls ``promise`` for each figure that has a goal. If ``TX8_BENCHMARK_ROWS`` names a file, the rows
are appended to it as JSON lines; ``summary.py`` runs every script this way and writes the table.
"""

from __future__ import annotations

import json
import os
import platform
from dataclasses import asdict, dataclass
from pathlib import Path

ROWS = "TX8_BENCHMARK_ROWS"


@dataclass(frozen=True)
class Row:
    """One figure: ``unit`` follows the number, ``against`` names what it is compared with in the same run."""

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
        """The cells of the table: what, figure, goal, compared with, verdict."""
        sign = "≥" if self.more_is_better else "≤"
        return (
            self.what,
            _number(self.figure, self.unit),
            f"{sign} {_number(self.goal, self.unit)}",
            self.against,
            "yes" if self.met else "no",
        )


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
    """Record a figure and its goal, which is exactly one bound. Figures in ``%`` are ratios: 1.0 is 100 %."""
    if (at_least is None) == (at_most is None):
        raise ValueError(f"{what}: give one of at_least and at_most")
    goal = at_least if at_least is not None else at_most
    assert goal is not None
    row = Row(what, figure, unit, goal, at_least is not None, against)
    file = os.environ.get(ROWS)
    if file:
        with Path(file).open("a") as rows:
            rows.write(json.dumps(asdict(row)) + "\n")


def read_rows(file: Path) -> list[Row]:
    """The rows that scripts appended."""
    return [Row(**json.loads(line)) for line in file.read_text().splitlines()]


def machine() -> str:
    """The processor and the Python that figures were taken with."""
    info = Path("/proc/cpuinfo")
    names = [line for line in info.read_text().splitlines() if "model name" in line] if info.exists() else []
    name = names[0].partition(":")[2].strip() if names else platform.machine()
    return f"{name}, {os.cpu_count()} cores, Python {platform.python_version()}"
