"""tx8emu on several chips: what is watched of them, what is printed and written."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Self

import msgspec

from emulator.chips.link_use import LinkTracks, chips_report, describe_chips
from emulator.chips.links import Passage
from emulator.chips.mesh import ChipMesh
from emulator.program import Program
from emulator.timing.slices import TICKS, Sink
from emulator.watch.report.file import PageFile
from emulator.watch.stats.output import executed
from emulator.watch.stats.result import make_report
from emulator.watch.stats.sink import Statistics
from emulator.watch.stats.text import describe
from emulator.watch.trace.file import PartOfTrace, TraceFile
from emulator.watch.trace.sink import Trace
from tx8isa.errors import Tx8Error
from tx8isa.tools.command_line import report_form
from tx8isa.tools.files import write_whole

_FOR_ONE_CHIP = {"gdb": None, "explore": 0, "save_state": None, "load_state": None}
"""Options that look at one chip, and what they are without being given."""


def check_options(options: argparse.Namespace, program: Program) -> None:
    """Tx8Error for what cannot be done with several chips, or for a chip that is not there."""
    for name, default in _FOR_ONE_CHIP.items():
        if getattr(options, name) != default:
            option = f"--{name.replace('_', '-')}"
            raise Tx8Error(f"{option} is for programs on one chip; this one runs on {program.chips}")
    if options.chip >= program.chips:
        raise Tx8Error(f"--chip {options.chip}: expected 0..{program.chips - 1}")


def page_files(options: argparse.Namespace, chips: int) -> list[str]:
    """The page of each chip: ``run.html`` becomes ``run.chip0.html`` and so on; none without pages."""
    form = options.report and report_form(options.report)
    page = options.html or (options.report if form == "html" else None)
    if not page:
        return []
    path = Path(page)
    return [str(path.with_name(f"{path.stem}.chip{number}{path.suffix}")) for number in range(chips)]


class ChipsWatching:
    """What watches a run on several chips. The end of a ``with`` block drops a trace that is not complete."""

    def __init__(self, options: argparse.Namespace, program: Program) -> None:
        self._options, self._machine, image = options, program.machine, program.image
        pages = page_files(options, program.chips)
        form = options.report and report_form(options.report)
        self._data = options.report if form == "json" else None
        wanted = bool(options.stats or pages or self._data)
        numbers = range(program.chips)
        self._statistics = [Statistics(image, program.machine) for _ in numbers if wanted]
        self._pages = [
            PageFile(page, self._statistics[n], f"{options.program}, chip {n}")
            for n, page in enumerate(pages)
        ]
        self._file = TraceFile(options.trace) if options.trace else None
        self._parts: list[PartOfTrace] = []
        self._traces: list[Trace] = []
        if self._file is not None:
            self._parts = [PartOfTrace(self._file, n, program.chips) for n in numbers]
            self._traces = [
                Trace(part, image, program.machine, options.program, n) for n, part in enumerate(self._parts)
            ]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.abandon()

    def sinks(self, chip: int) -> Sequence[Sink]:
        """The sinks that a chip must be started with."""
        found: list[Sink] = [*self._traces[chip : chip + 1], *self._statistics[chip : chip + 1]]
        return [*found, *(page.sink for page in self._pages[chip : chip + 1])]

    @property
    def passed(self) -> Callable[[Passage], None] | None:
        """The receiver of messages that pass links."""
        if self._file is None:
            return None
        return LinkTracks(self._file, 1e6 / (TICKS * self._machine.engines.clock.value)).add

    def lines(self, mesh: ChipMesh, as_json: bool) -> list[str]:
        """The output of ``--stats``: all chips together, then the one that ends last."""
        if not self._statistics:
            return []
        reports = [make_report(s, c.tiles) for s, c in zip(self._statistics, mesh.chips, strict=True)]
        report = chips_report(mesh, reports)
        if as_json:
            return [msgspec.json.format(msgspec.json.encode(report)).decode()]
        last = report.last_chip
        one = [*describe(reports[last]), "", *executed(mesh.chips[last].tiles)]
        return [*describe_chips(report), "", f"chip {last}:", *one]

    def finish(self, mesh: ChipMesh, fault: str) -> list[str]:
        """Write the files of a run that is over; messages about those that cannot be written."""
        errors = []
        for chip, page in zip(mesh.chips, self._pages, strict=False):
            found = chip.sanitizer.hazards() if chip.sanitizer else None
            errors += _tried(partial(page.finish, chip.tiles, fault, found))
        if self._data is not None:
            text = "\n".join([*self.lines(mesh, as_json=True), ""]).encode()
            errors += _tried(partial(write_whole, self._data, text))
        if self._file is not None:
            chips = {f"chip {n}": part.summary for n, part in enumerate(self._parts)}
            self._file.finish({"program": self._options.program, "cycles": mesh.cycles, **chips})
            errors += [self._file.error] if self._file.error else []
        return errors


def _tried(write: Callable[[], None]) -> list[str]:
    """Try to write something; gives the errors."""
    try:
        write()
    except Tx8Error as error:
        return [str(error)]
    return []


def show_hazards_of_chips(mesh: ChipMesh, program: str) -> None:
    """Print what ``--strict`` has found to standard error."""
    from emulator.watch.strict.hazards import show_hazards

    checked = [chip.sanitizer for chip in mesh.chips if chip.sanitizer]
    more, gave_up = (any(getattr(one, name) for one in checked) for name in ("more", "gave_up"))
    if checked:
        sys.stdout.flush()
        show_hazards(mesh.hazards(), more, gave_up, program)
