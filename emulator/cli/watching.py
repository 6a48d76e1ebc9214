"""The observers of a run and their files: statistics, page, trace. Both command lines use them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from asm.image import Image
from tx8isa.errors import Tx8Error
from tx8isa.machine.description import Machine

if TYPE_CHECKING:
    from emulator.chip.system import System
    from emulator.tile.fault import Fault
    from emulator.timing.slices import Sink
    from emulator.watch.report.file import PageFile
    from emulator.watch.stats.sink import Statistics
    from emulator.watch.stats.types import Report
    from emulator.watch.trace.sink import Trace


@dataclass(frozen=True)
class Views:
    """The requested views of a run in addition to its outputs, named like the options; None if not wanted.

    ``title`` is the program's name in page and trace. ``page`` and ``data`` are the files of ``--report``.
    ``against`` has the statistics of an earlier run, with which this one is compared.
    """

    title: str
    statistics: bool = False
    page: str | None = None
    data: str | None = None
    trace: str | None = None
    against: Report | None = None


def earlier_run(path: str | None) -> Report | None:
    """Read the statistics that ``--against`` names, if it is given; Tx8Error if there are none."""
    from emulator.watch.stats.compare import read_report

    return None if path is None else read_report(path)


class Watching:
    """The sinks of one run. Tx8Error when a file cannot be made.

    The end of a ``with`` block drops an incomplete trace.
    """

    def __init__(self, views: Views, image: Image, machine: Machine) -> None:
        self._data, self._against = views.data, views.against
        self.statistics: Statistics | None = None
        self._page: PageFile | None = None
        self._trace: Trace | None = None
        figures = views.statistics or views.data or views.against
        if figures or views.page:
            from emulator.timing.replay import TimeRange
            from emulator.watch.stats.sink import Statistics

            self.statistics = Statistics(image, machine)
            if figures:
                self.statistics.range = TimeRange()
        if views.page and self.statistics is not None:
            from emulator.watch.report.file import PageFile

            self._page = PageFile(views.page, self.statistics, views.title, views.against)
        if views.trace:
            from emulator.watch.trace.sink import Trace

            self._trace = Trace(views.trace, image, machine, views.title)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._trace is not None:
            self._trace.__exit__()

    @property
    def sinks(self) -> Sequence[Sink]:
        """Return the sinks that the run must be started with."""
        page = None if self._page is None else self._page.sink
        wanted = None if self.statistics is None else self.statistics.range
        return [sink for sink in (self._trace, self.statistics, wanted, page) if sink is not None]

    def lines(self, system: System, form: str | None) -> list[str]:
        """The output of ``--stats``, if it has a ``form``, and of ``--against``, about a run that is over."""
        if self.statistics is None:
            return []
        from emulator.watch.stats.compare import compare
        from emulator.watch.stats.output import lines
        from emulator.watch.stats.result import make_report

        found = list(lines(self.statistics, system.tiles, form == "json")) if form else []
        if self._against is not None:
            found += compare(self._against, make_report(self.statistics, system.tiles)).lines()
        return found

    def finish(self, system: System, fault: Fault | None) -> list[str]:
        """Write the files of a finished run; return messages about unwritable files.

        ``fault``: the fault that stopped the run, if any. The outputs of the run have been written before, so
        nothing is lost.
        """
        found = system.sanitizer.hazards() if system.sanitizer else None
        errors = []
        try:
            if self._page is not None:
                self._page.finish(system.tiles, str(fault or ""), found)
        except Tx8Error as error:
            errors.append(str(error))
        try:
            if self._data is not None:
                self._write_data(system)
        except Tx8Error as error:
            errors.append(str(error))
        if self._trace is not None and self._trace.error:
            errors.append(self._trace.error)
        return errors

    def _write_data(self, system: System) -> None:
        from emulator.watch.stats.output import report_file
        from emulator.watch.stats.result import make_report
        from tx8isa.tools.files import write_whole

        assert self._data is not None and self.statistics is not None
        write_whole(self._data, report_file(make_report(self.statistics, system.tiles)))
