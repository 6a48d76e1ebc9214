"""The file of the page: checked before the run, written whole after it."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from emulator.tile.tile import Tile
from emulator.watch.stats.sink import Statistics
from emulator.watch.stats.types import Report
from emulator.watch.strict.hazards import Hazard
from tx8isa.errors import Tx8Error
from tx8isa.tools.files import write_whole

from .sink import ReportSink


def check_target(path: Path) -> None:
    """Raise Tx8Error unless a file can be made there; an existing file does not change."""
    if path.exists() and not path.is_file():
        what = "a directory" if path.is_dir() else "no ordinary file"
        raise Tx8Error(f"{path}: cannot be written: it is {what}")
    try:
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise Tx8Error(f"{path}: cannot be written: {error.strerror}") from None


def _check_charts() -> None:
    """Raise Tx8Error without the library that draws the charts, which loads too slowly to be tried here."""
    if find_spec("bokeh") is None:
        raise Tx8Error("the page of --report needs Bokeh, which draws its charts: pip install bokeh")


class PageFile:
    """The page of one run; Tx8Error without Bokeh, or when nothing can be written to ``path``.

    ``sink`` and ``statistics``, another sink of the run, collect its contents. ``against``: the statistics
    of an earlier run, with which the page compares this one.
    """

    def __init__(self, path: str, statistics: Statistics, title: str, against: Report | None = None) -> None:
        self._path, self._title, self._against = Path(path), title, against
        _check_charts()
        check_target(self._path)
        self.sink = ReportSink(statistics.image, statistics.machine, statistics)

    def finish(self, tiles: Sequence[Tile], fault: str, hazards: Sequence[Hazard] | None) -> None:
        """Write the page of a finished run. Tx8Error when that fails.

        The results of the run have been written before, so that nothing is lost.
        """
        write_whole(self._path, self.content(tiles, fault, hazards))

    def content(self, tiles: Sequence[Tile], fault: str, hazards: Sequence[Hazard] | None) -> bytes:
        """Return the page of a finished run.

        ``fault``: the fault that stopped the run, if any. ``hazards``: None when the run did not look for
        them.
        """
        # Bokeh takes longer to load than many programs to run
        from .page import make_page

        return make_page(self.sink, tiles, self._title, fault=fault, hazards=hazards, against=self._against)
