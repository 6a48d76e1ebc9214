"""Compares the model of time with published measurements of the chip, by running a program for each.

    python benchmarks/timing.py               print the tables
    python benchmarks/timing.py --programs    print that of published programs' engines alone
    python benchmarks/timing.py --write       put them into docs/measurements.md, and draw its picture

``_timing_rows.py`` has the programs and the measurements, ``_published.py`` the commands of published
programs, ``_whole_programs.py`` whole programs, which are compiled first. The results do not depend on the
host. The exit status is 1 when a row is beyond its limit, or lacks a reason.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np

import asm
from _published import Replayed, replay_text, replayed
from _report import promise
from _timing_picture import drawn, of_whole
from _timing_programs import MARKS, Row, Run, program
from _timing_rows import GAPS, all_rows
from _whole_programs import Measured, measure, whole_programs, whole_table
from emulator.chip.system import System
from emulator.program import Program
from emulator.timing.slices import SLICE, Batch
from tx8isa.machine.description import Machine, load_machine

PAGE = Path(__file__).parent.parent / "docs" / "measurements.md"
BEGIN, END = "<!-- benchmark -->", "<!-- end of benchmark -->"
PICTURE = PAGE.parent / "pictures" / "timing.svg"
ENGINES_BEGIN, ENGINES_END = "<!-- engines of programs -->", "<!-- end of engines of programs -->"
WHOLE_BEGIN, WHOLE_END = "<!-- whole programs -->", "<!-- end of whole programs -->"
FAR = 0.15
"""Rows with a larger error are listed with a reason."""
GOAL = 0.05
"""The largest median error that is allowed."""


class Collector:
    """A sink that keeps all slices, because these programs are short."""

    def __init__(self) -> None:
        self.batches: list[np.ndarray] = []

    def take(self, batch: Batch) -> None:
        """Keep a copy of the slices."""
        self.batches.append(batch.slices.copy())

    def close(self, ends: Sequence[int]) -> None:
        """It does nothing, because the slices are read after the run."""

    def slices(self) -> np.ndarray:
        """All slices of the run."""
        return np.concatenate([np.zeros(0, SLICE), *self.batches])


@dataclass(frozen=True)
class Result:
    """A row and the model's figure, in the row's unit."""

    row: Row
    model: float

    @property
    def error(self) -> float | None:
        """The error relative to the measurement; 1 if a measured zero is missed; None for lower bounds."""
        if self.row.lower_bound:
            return None
        if self.row.measured == 0:
            return float(self.model != 0)
        return self.model / self.row.measured - 1

    @property
    def holds(self) -> bool:
        """True if the model's figure is at least the measured one, as a lower bound requires."""
        return self.model >= self.row.measured

    @property
    def far(self) -> bool:
        """True if the model is so far off that the row needs a reason."""
        return not self.holds if self.error is None else abs(self.error) > FAR

    def cells(self) -> tuple[str, ...]:
        row = self.row
        digits = 2 if row.unit == "us" else 0
        samples = " / ".join(f"{sample:,g}" for sample in row.samples)
        fitted = "fitted" if row.fitted else ""
        if row.lower_bound:
            samples = f"at least {samples}"
        return row.topic, row.what, f"{samples} {row.unit}", f"{self.model:,.{digits}f}", self.verdict, fitted

    @property
    def verdict(self) -> str:
        """The error, or whether a bound or a zero holds."""
        if self.error is None:
            return "holds" if self.holds else "fails"
        if self.row.measured == 0:
            return "not 0" if self.error else "+0.0%"
        return f"{self.error:+.1%}"


def run(row: Row, machine: Machine) -> Run:
    """Run a row's program in simulated time."""
    collector = Collector()
    loaded = Program(asm.assemble(program(row)), machine)
    system = System(loaded.image, machine, timed=True, sinks=[collector])
    system.run()
    words = np.ascontiguousarray(loaded.results(system)["marks"]).view(np.int64)
    return Run(collector.slices(), words.reshape(16, MARKS), row.turns)


def results(machine: Machine | None = None) -> list[Result]:
    """All rows; a program that several rows share runs once."""
    machine = machine or load_machine(None)
    runs: dict[str, Run] = {}
    found = []
    for row in all_rows():
        text = program(row)
        if text not in runs:
            runs[text] = run(row, machine)
        found.append(Result(row, row.figure(runs[text]) / row.scale))
    return found


def middle(found: list[Result], fitted: tuple[bool, ...] = (True, False)) -> float:
    """The median error of rows with a figure; ``fitted`` selects rows that were fitted, rows that were not,
    or all."""
    return median(abs(r.error) for r in found if r.error is not None and r.row.fitted in fitted)


def unexplained(found: list[Result]) -> Iterator[str]:
    """Rows beyond ``FAR`` without a reason, and reasons of rows that need none."""
    for result in found:
        if result.far != bool(result.row.reason):
            kind = "no reason is given" if result.far else "needs no reason"
            yield f"{result.row.topic}, {result.row.what}: {result.verdict}, {kind}"


def table(found: list[Result]) -> str:
    """The part of the page in Markdown."""
    figures, bounds = [r for r in found if not r.row.lower_bound], [r for r in found if r.row.lower_bound]
    far = [r for r in found if r.far]
    free = sum(not r.row.fitted for r in figures)
    lines = [
        f"Median error of {len(figures)} figures: {middle(found):.1%}; of the {free} that no coefficient was "
        f"fitted to: {middle(found, (False,)):.1%}. Beyond {FAR:.0%}: {len(far)}. "
        f"Bounds that hold: {sum(r.holds for r in bounds)} of {len(bounds)}.",
        "",
        "| topic | what | measured | model | error | |",
        "| --- | --- | --- | --- | --- | --- |",
        *(f"| {' | '.join(r.cells())} |" for r in found),
        "",
        f"Rows beyond {FAR:.0%}, and why:",
        "",
        *(f"- {r.row.topic}, {r.row.what} ({r.verdict}): {r.row.reason}." for r in far),
        "",
        "Published figures without a row, and why:",
        "",
        *(f"- {gap.topic}, {gap.what}: {gap.why}." for gap in GAPS),
    ]
    return "\n".join(lines)


def updated(page: str, new: str, marks: tuple[str, str] = (BEGIN, END)) -> str:
    """The page with the part between two marks replaced."""
    before, begin, rest = page.partition(marks[0])
    _, end, after = rest.partition(marks[1])
    if not begin or not end:
        raise SystemExit(f"{PAGE.name} has no region {' ... '.join(marks)}")
    return f"{before}{begin}\n\n{new}\n\n{end}{after}"


def whole_text(found: list[Measured]) -> str:
    """The part of the page about whole programs, in Markdown."""
    held = sum(row.holds for row in found)
    lines = [f"Microseconds. Within the range: {held} of {len(found)}.", "", *whole_table(found)]
    return "\n".join(lines)


def main(arguments: Sequence[str] = ()) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", action="store_true", help=f"put the tables into {PAGE.name}")
    parser.add_argument("--programs", action="store_true", help="only the engines of published programs")
    options = parser.parse_args(list(arguments))
    engines = replayed(load_machine(None))
    if options.programs:
        print(replay_text(engines))
        return _refused(_beyond(engines))
    found = results()
    text = table(found)
    whole = [measure(program) for program in whole_programs()]
    print(text, replay_text(engines), whole_text(whole), sep="\n\n")
    promise("simulated time, median error against the chip's measurements", middle(found), "%", at_most=GOAL)
    if options.write:
        page = updated(PAGE.read_text(encoding="utf-8"), text)
        page = updated(page, whole_text(whole), (WHOLE_BEGIN, WHOLE_END))
        page = updated(page, replay_text(engines), (ENGINES_BEGIN, ENGINES_END))
        PAGE.write_text(page, encoding="utf-8")
        PICTURE.write_text(drawn([*engines, *map(of_whole, whole)]), encoding="utf-8")
    return _refused([*unexplained(found), *_beyond(engines)])


def _beyond(found: list[Replayed]) -> list[str]:
    """Lines about the rows of published programs that are beyond their limits."""
    return [
        f"{row.row.engine}, {row.row.program}, {row.row.work}: {row.error:+.1%}, limit {row.row.limit:.0%}"
        for row in found
        if row.beyond
    ]


def _refused(lines: Sequence[str]) -> int:
    """Print what is wrong; returns the exit status."""
    for line in lines:
        print(line, file=sys.stderr)
    return int(bool(lines))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
