"""One run of a program: its outputs, and what can be known of how it went."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from emulator.chip.system import System
from emulator.watch.strict.hazards import Hazard
from tx8isa.errors import Tx8Error
from tx8isa.tools.command_line import report_form
from tx8isa.tools.files import write_whole

if TYPE_CHECKING:
    import emulator
    from emulator.session.runs import RepeatedRuns

    from .stats import Stats

Array = np.ndarray[Any, np.dtype[Any]]


class Run:
    """A run that is over: ``run["name"]`` and ``run[0]`` are outputs, ``np.asarray(run)`` the only one.

    Cycles and statistics are there unless the run was made with ``timed=False``. What was not gathered
    (``report``, ``trace``, ``hazards``) is found when it is asked for, by repeating the run with the same
    inputs and somebody watching: runs are deterministic, so what is seen then is what happened.
    """

    def __init__(
        self, program: emulator.Program, title: str, inputs: Mapping[str, Array], threads: int
    ) -> None:
        self._program, self._title, self._threads = program, title, threads
        self._inputs = {name: array.copy() for name, array in inputs.items()}
        self.outputs: dict[str, Array] = {}
        """Outputs by name, in the order in which the program declares them."""
        self.instructions = 0
        """How many instructions all tiles have executed."""
        self.printed = ""
        """What the program wrote to its standard output and error."""

    # -- outputs ---------------------------------------------------------------------------------------

    def __getitem__(self, key: str | int) -> Array:
        if isinstance(key, int):
            return list(self.outputs.values())[key]
        if key not in self.outputs:
            raise KeyError(f"no output '{key}'; the outputs: {', '.join(self.outputs)}")
        return self.outputs[key]

    def __iter__(self) -> Iterator[Array]:
        return iter(self.outputs.values())

    def __len__(self) -> int:
        return len(self.outputs)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if len(self.outputs) != 1:
            raise TypeError(f"the run has {len(self.outputs)} outputs: choose one, {', '.join(self.outputs)}")
        return np.asarray(self[0], dtype=dtype)

    # -- how it went -----------------------------------------------------------------------------------

    def execute(self, **options: Any) -> System:
        """Run the program again with options of ``emulator.Program.start``; the finished system."""
        system = self._program.start(self._inputs, **{"threads": self._threads, **options})
        system.run()
        return system

    @cached_property
    def stats(self) -> Stats:
        """Where the time went: ``print(run.stats)`` is the table of ``tx8emu --stats`` (docs/stats.md)."""
        from .stats import Stats, all_sinks, watched

        sink = watched(self._program)
        return Stats(sink, self.execute(sinks=all_sinks(sink)).tiles)

    @property
    def cycles(self) -> float:
        """Simulated cycles of the engines' clock (docs/timing.md says how sure the model is)."""
        return self.stats.cycles

    @property
    def cycles_range(self) -> tuple[float, float]:
        """The least and the most cycles: where figures of the model have the ends of their ranges."""
        return self.stats.cycles_range

    @cached_property
    def hazards(self) -> tuple[Hazard, ...]:
        """What the sanitizer finds, such as accesses that nothing orders (docs/strict.md)."""
        system = self.execute(strict=True)
        assert system.sanitizer is not None
        return tuple(system.sanitizer.hazards())

    def report(self, path: str | Path) -> Path:
        """Write what ``tx8emu --report`` does: a page (docs/report.md) or, to a file .json, the statistics.

        Tx8Error for any other name, and when the file cannot be written.
        """
        form = report_form(str(path))
        if form == "json":
            write_whole(path, json.dumps(self.stats.to_dict()).encode() + b"\n")
            return Path(path)
        if not form:
            raise Tx8Error(f"'{path}' ends neither in .html, for a page, nor in .json, for data")
        from emulator.watch.report.file import PageFile

        from .stats import watched

        sink = watched(self._program)
        page = PageFile(str(path), sink, self._title)
        page.finish(self.execute(sinks=[sink, page.sink]).tiles, "", None)
        return Path(path)

    def trace(self, path: str | Path) -> Path:
        """Write the trace of ``tx8emu --trace``, for Perfetto (docs/trace.md); Tx8Error as for ``report``."""
        from emulator.watch.trace.sink import Trace

        with Trace(path, self._program.image, self._program.machine, self._title) as sink:
            self.execute(sinks=[sink])
        return Path(path)

    # -- for people ------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        outputs = ", ".join(f"{name}: {array.dtype} {_shape(array)}" for name, array in self.outputs.items())
        return f"<tx8.Run of {self._title}: {outputs or 'no outputs'}; {self.instructions:,} instructions>"

    def _repr_html_(self) -> str:
        from .html import run_page

        return run_page(self._title, self.instructions, self._inputs, self.outputs, self.stats)


def start(
    runs: RepeatedRuns, title: str, inputs: Mapping[str, Array], threads: int, limit: int | None, timed: bool
) -> Run:
    """Run a program; Fault when it stops, and what it printed is shown. ``limit``: instructions of a tile."""
    from .stats import Stats, all_sinks, watched

    program = runs.program
    run = Run(program, title, inputs, threads)
    sink = watched(program) if timed else None
    sinks = all_sinks(sink) if sink else []
    written: list[bytes] = []

    def show(file: int, data: bytes) -> None:
        written.append(data)

    with runs.started(inputs, threads=threads, sinks=sinks, show=show) as system:
        try:
            system.run(limit)
        except Exception:
            print(b"".join(written).decode(errors="replace"), end="")
            raise
        run.printed = b"".join(written).decode(errors="replace")
        run.outputs = program.results(system)
        run.instructions = sum(tile.retired for tile in system.tiles)
        if sink:
            run.__dict__["stats"] = Stats(sink, system.tiles)
    return run


def _shape(array: Array) -> str:
    return "x".join(map(str, array.shape)) or "scalar"
