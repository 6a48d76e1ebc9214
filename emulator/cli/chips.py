"""tx8emu on several chips: observers, printed text and written files.

The chips of a run may be emulated by several ranks. Each rank collects the findings about its own chips as
plain data, and one rank combines them.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from emulator.chips.link_use import (
    ChipsReport,
    LinkTracks,
    LinkUse,
    chips_report,
    describe_chips,
    link_uses,
    links_name,
)
from emulator.chips.linked_chip import LinkedChip
from emulator.chips.links import Passage
from emulator.chips.mesh import ChipMesh
from emulator.memory.buffers import Array
from emulator.program import Program
from emulator.tile.fault import Fault
from emulator.timing.slices import TICKS, Sink
from emulator.watch.report.file import PageFile, check_target
from emulator.watch.stats.compare import compare
from emulator.watch.stats.output import executed, json_text, report_file
from emulator.watch.stats.result import make_report
from emulator.watch.stats.sink import Statistics
from emulator.watch.stats.text import describe
from emulator.watch.stats.types import Report
from emulator.watch.strict.hazards import Hazard
from emulator.watch.trace.file import PartOfTrace, TraceFile
from emulator.watch.trace.sink import Trace
from tx8isa.errors import Tx8Error
from tx8isa.tools.command_line import report_form
from tx8isa.tools.files import write_whole

from .dumps import Dumps
from .watching import earlier_run

if TYPE_CHECKING:
    from emulator.chips.ranks.mpi import MpiPost

_FOR_ONE_CHIP = {"gdb": None, "explore": 0, "save_state": None, "load_state": None}
"""Options that look at one chip, with their default values."""


def check_options(options: argparse.Namespace, program: Program) -> None:
    """Raise Tx8Error for options that several chips do not allow, or for a chip that is not there."""
    if options.session:
        raise Tx8Error("--session runs in one process, also on several chips: start it without mpiexec")
    for name, default in _FOR_ONE_CHIP.items():
        if getattr(options, name) != default:
            option = f"--{name.replace('_', '-')}"
            raise Tx8Error(f"{option} is for programs on one chip; this one runs on {program.chips}")
    if options.chip >= program.chips:
        raise Tx8Error(f"--chip {options.chip}: expected 0..{program.chips - 1}")


def page_files(options: argparse.Namespace, chips: int) -> list[str]:
    """Return the page of each chip: ``run.html`` becomes ``run.chip0.html`` and so on; none without pages."""
    form = options.report and report_form(options.report)
    page = options.html or (options.report if form == "html" else None)
    if not page:
        return []
    path = Path(page)
    return [str(path.with_name(f"{path.stem}.chip{number}{path.suffix}")) for number in range(chips)]


class ChipFindings(NamedTuple):
    """The findings about a chip after a run."""

    chip: int
    cycles: int
    hazards: Sequence[Hazard] | None
    """The hazards; None when the run did not look for them."""
    more: bool
    gave_up: bool
    """``more`` and ``gave_up``: as the properties of ``Sanitizer``."""
    report: Report | None
    executed: Sequence[str]
    page: bytes
    trace: Mapping[str, Any]
    """The summary of the chip's part of the trace."""
    trace_error: str | None
    dumps: Sequence[str]
    files: Mapping[str, bytes]
    """Contents of files with dumps, by their names; ``dumped`` has the printed lines."""


class RunFindings(NamedTuple):
    """The findings about some chips, or all of them. ``outputs`` are empty after a fault."""

    outputs: dict[str, Array]
    chips: list[ChipFindings]
    links: list[LinkUse]

    @classmethod
    def together(cls, parts: Sequence[RunFindings], names: Iterable[str]) -> RunFindings:
        """Join the findings of all ranks; ``names``: the outputs' names, in their order."""
        outputs = {name: array for part in parts for name, array in part.outputs.items()}
        return cls(
            {name: outputs[name] for name in names if name in outputs},
            sorted((one for part in parts for one in part.chips), key=lambda one: one.chip),
            [use for part in parts for use in part.links],
        )

    @property
    def hazards(self) -> Sequence[Hazard]:
        """The findings of a strict run, by chip."""
        return [hazard for chip in self.chips for hazard in chip.hazards or ()]


class ChipsWatching:
    """The observers of the chips emulated here. The end of a ``with`` block drops the trace's parts."""

    def __init__(self, options: argparse.Namespace, program: Program, numbers: Sequence[int]) -> None:
        self._options, image, machine = options, program.image, program.machine
        self._paths = page_files(options, program.chips)
        form = options.report and report_form(options.report)
        self._data = options.report if form == "json" else None
        self._against = earlier_run(options.against)
        wanted = bool(options.stats or self._paths or self._data or self._against)
        self._statistics = {n: Statistics(image, machine) for n in numbers if wanted}
        self._pages = {
            n: PageFile(self._paths[n], self._statistics[n], f"{options.program}, chip {n}", self._against)
            for n in numbers
            if self._paths
        }
        self.parts: dict[int, PartOfTrace] = {}
        """Parts of the trace, by chip."""
        if options.trace:
            if not Path(options.trace).exists() or Path(options.trace).is_file():
                check_target(Path(options.trace))
            self.parts = {n: PartOfTrace(options.trace, n, program.chips) for n in numbers}
        self._traces = {n: Trace(part, image, machine, options.program, n) for n, part in self.parts.items()}
        microseconds = 1e6 / (TICKS * machine.engines.clock.value)
        self._tracks = {n: LinkTracks(part, microseconds) for n, part in self.parts.items()}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for part in self.parts.values():
            part.abandon()

    def sinks(self, chip: int) -> Sequence[Sink]:
        """Return the sinks that a chip must be started with."""
        page = self._pages.get(chip)
        found = (self._traces.get(chip), self._statistics.get(chip), page and page.sink)
        return [sink for sink in found if sink]

    @property
    def passed(self) -> Callable[[Passage], None] | None:
        """Return the receiver of messages that pass links."""
        return self._passed if self._tracks else None

    def _passed(self, passage: Passage) -> None:
        self._tracks[passage.source].add(passage)

    def findings(
        self, mesh: ChipMesh, outputs: dict[str, Array], fault: Fault | None, dumps: Dumps
    ) -> RunFindings:
        """Return the findings about the chips of a finished run."""
        return RunFindings(outputs, [self._found(chip, fault, dumps) for chip in mesh.chips], link_uses(mesh))

    def _found(self, chip: LinkedChip, fault: Fault | None, dumps: Dumps) -> ChipFindings:
        number, checked = chip.number, chip.sanitizer
        hazards = checked.hazards() if checked else None
        statistics, page = self._statistics.get(number), self._pages.get(number)
        part = self.parts.get(number)
        shown = number == self._options.chip
        return ChipFindings(
            number,
            chip.time.cycles,
            hazards,
            more=bool(checked and checked.more),
            gave_up=bool(checked and checked.gave_up),
            report=make_report(statistics, chip.tiles) if statistics else None,
            executed=list(executed(chip.tiles)) if statistics else [],
            page=page.content(chip.tiles, str(fault or ""), hazards) if page else b"",
            trace=part.summary if part else {},
            trace_error=part.error if part else None,
            dumps=list(dumps.lines(chip)) if shown else [],
            files=dumps.files(chip) if shown else {},
        )

    def collect(self, post: MpiPost, ranks: Sequence[int]) -> None:
        """Send the parts of the trace from all ranks to rank 0; ``ranks``: the rank of each chip."""
        for chip, rank in enumerate(ranks if self._options.trace else ()):
            if rank and rank == post.rank:
                post.pour(self.parts[chip].pieces())
            elif rank and post.rank == 0:
                self.parts[chip] = PartOfTrace(self._options.trace, chip, len(ranks))
                self.parts[chip].add_pieces(post.poured(rank))

    # -- about all chips -----------------------------------------------------------------------------------

    def lines(self, found: RunFindings, form: str | None) -> list[str]:
        """The output of ``--stats``, if it has a ``form``, and of ``--against``.

        First come the statistics of all chips together, then those of the chip that ends last.
        """
        report = _report(found)
        if report is None:
            return []
        if form == "json":
            return [json_text(report)]
        last = report.last_chip
        one = [*describe(report.chips[last]), "", *found.chips[last].executed]
        told = [*describe_chips(report), "", f"chip {last}:", *one] if form else []
        if self._against is not None:
            told += compare(self._against, report.chips[last]).lines()
        return told

    def finish(self, found: RunFindings) -> list[str]:
        """Write the files about a finished run; return messages about unwritable files."""
        errors = []
        for chip, path in zip(found.chips, self._paths, strict=False):
            errors += _tried(partial(write_whole, path, chip.page))
        report = _report(found)
        if self._data is not None and report is not None:
            errors += _tried(partial(write_whole, self._data, report_file(report)))
        if self._options.trace:
            errors += _tried(partial(self._write_trace, found))
        return errors

    def _write_trace(self, found: RunFindings) -> None:
        file = TraceFile(self._options.trace)
        try:
            if found.links:
                file.add([links_name()])
            for chip in found.chips:
                file.add_pieces(self.parts[chip.chip].pieces())
            chips = {f"chip {chip.chip}": chip.trace for chip in found.chips}
            cycles = max(chip.cycles for chip in found.chips)
            file.finish({"program": self._options.program, "cycles": cycles, **chips})
        finally:
            file.abandon()
        errors = [file.error, *(chip.trace_error for chip in found.chips)]
        errors += [part.error for part in self.parts.values()]
        for error in filter(None, errors):
            raise Tx8Error(error)


def _report(found: RunFindings) -> ChipsReport | None:
    """Return the statistics of all chips together; None if no chip counted anything."""
    reports = [chip.report for chip in found.chips if chip.report]
    return chips_report(reports, found.links) if reports else None


def _tried(write: Callable[[], None]) -> list[str]:
    """Try to write something; return the errors."""
    try:
        write()
    except Tx8Error as error:
        return [str(error)]
    return []


def show_hazards_of_chips(found: RunFindings, program: str) -> None:
    """Print the findings of ``--strict`` to standard error."""
    from emulator.watch.strict.hazards import show_hazards

    more, gave_up = (any(getattr(chip, name) for chip in found.chips) for name in ("more", "gave_up"))
    show_hazards(found.hazards, more, gave_up, program)
