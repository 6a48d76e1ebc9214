"""The progress line of a compilation, removed at its end, and the tables of --pass-times and --estimate."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, TextIO

from tx8isa.tools.command_line import one_line

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from compiler.driver import EstimatedProgram

_SILENT_SECONDS = 0.5
"""The line appears after this time."""
_INTERVAL = 0.1
"""Seconds between two updates during the search."""


class ProgressLine:
    """Shows on ``file``, if that is a terminal, the running one of the ``stages``.

    During the search it counts groups in place of stages. It is a context manager; :meth:`after_pass` and
    :meth:`searching` are the arguments ``after_pass`` and ``search_progress`` of ``compile_graph``.
    """

    def __init__(
        self, name: str, stages: Sequence[str], file: TextIO | None, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._name, self._stages, self._now = name, [*stages, "assemble"], now
        self._file = file if file is not None and file.isatty() else None
        self._began = now()
        self._next_update = self._began
        self._bar: Any = None

    def __enter__(self) -> ProgressLine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.close()

    def after_pass(self, name: str, module: ModuleOp) -> None:
        """Show the stage after pass ``name``, which has ended."""
        done = self._stages.index(name) + 1
        if self._file is not None and self._now() - self._began >= _SILENT_SECONDS:
            self._show(done, len(self._stages), self._stages[done])

    def searching(self, done: int, templates: int, tried: int) -> None:
        """Show how many of the ``templates`` are done, and how many candidates were tried."""
        self.counting(f"search, {tried} candidates tried", done, templates)

    def counting(self, what: str, done: int, total: int) -> None:
        """Show how much of something is done, now and then."""
        now = self._now()
        if self._file is None or now - self._began < _SILENT_SECONDS or now < self._next_update:
            return
        self._next_update = now + _INTERVAL
        self._show(done, total, what)

    def _show(self, done: int, total: int, what: str) -> None:
        if self._bar is None:
            self._bar = _make_bar(self._file, self._now() - self._began)
        self._bar.n, self._bar.total = done, total
        self._bar.set_description_str(f"{self._name}: {what}", refresh=False)
        self._bar.refresh()

    def clear(self) -> None:
        """Remove the line until the next update."""
        if self._bar is not None:
            self._bar.clear()


def _make_bar(file: TextIO | None, elapsed: float) -> Any:
    from tqdm.std import tqdm  # imported here because only long compilations on a terminal need it

    tqdm.monitor_interval = 0  # otherwise tqdm starts a thread
    bar = tqdm(
        total=1,
        file=file,
        bar_format="{n_fmt}/{total_fmt} |{bar:12}| {elapsed}  {desc}",
        leave=False,
        dynamic_ncols=True,
        mininterval=0,
        delay=1,
        position=0,
    )
    bar.start_t -= elapsed
    bar.delay = 0  # the delay only kept the constructor from drawing an empty bar
    return bar


def estimate_table(program: EstimatedProgram) -> str:
    """Return a table of phases with estimated cycles and shares, the sum, and the bounds of DDR and links.

    For a pipeline it has the compute and exchange times of each stage, and its filling and draining.
    """
    total = program.cycles
    rows = [("phase", "estimated cycles", "share")]
    rows += [
        (one_line(phase.name), f"{phase.cycles:,}", f"{phase.cycles / max(total, 1):.1%}")
        for phase in program.phases
    ]
    bounds = [("all", total), ("exchanges", program.exchanges)]
    bounds += [("bound of DDR", round(program.bounds.ddr)), ("bound of links", round(program.bounds.links))]
    if (times := program.times) is not None:
        bounds += [(f"stage {number}", cycles) for number, cycles in enumerate(times.works)]
        bounds += [("fill", times.fill), ("drain", times.drain)]
    rows += [(name, f"{cycles:,}", f"{cycles / max(total, 1):.1%}") for name, cycles in bounds]
    return _aligned(rows)


def timing_table(timing: Mapping[str, float]) -> str:
    """Return a table of stages with milliseconds and shares, and the sum; ``timing`` is in seconds."""
    total = sum(timing.values())
    rows = [("stage", "ms", "share")]
    for name, seconds in (*timing.items(), ("total", total)):
        rows.append((name, f"{1000 * seconds:,.1f}", f"{seconds / total if total else 1:.1%}"))
    return _aligned(rows)


def _aligned(rows: Sequence[tuple[str, str, str]]) -> str:
    """Format rows of a name and two numbers as columns."""
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    return "\n".join(
        f"{name:<{widths[0]}}  {time:>{widths[1]}}  {share:>{widths[2]}}" for name, time, share in rows
    )
