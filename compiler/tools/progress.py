"""How far a compilation has come: one line on a terminal, gone at the end, and the table of --timing."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

_LONG = 0.5
"""Seconds after which a compilation is a long one."""
_OFTEN = 0.1
"""Seconds between two looks at the search."""


class Stages:
    """Shows on ``file``, if that is a terminal, which of the ``stages`` is being worked on.

    Within the pass that searches it counts groups in place of stages. A context manager; :meth:`after_pass`
    goes where ``compile_graph`` wants an observer of the passes, :meth:`searching` to its ``watch``.
    """

    def __init__(
        self, name: str, stages: Sequence[str], file: TextIO | None, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._name, self._stages, self._now = name, [*stages, "assemble"], now
        self._file = file if file is not None and file.isatty() else None
        self._began = now()
        self._next = self._began
        self._bar: Any = None

    def __enter__(self) -> Stages:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.close()

    def after_pass(self, name: str, module: ModuleOp) -> None:
        """A pass is done; the next one begins."""
        done = self._stages.index(name) + 1
        if self._file is not None and self._now() - self._began >= _LONG:
            self._show(done, len(self._stages), self._stages[done])

    def searching(self, done: int, templates: int, tried: int) -> None:
        """The search has come so far: groups that differ, of how many, and candidates tried."""
        now = self._now()
        if self._file is None or now - self._began < _LONG or now < self._next:
            return
        self._next = now + _OFTEN
        self._show(done, templates, f"search, {tried} candidates tried")

    def _show(self, done: int, total: int, what: str) -> None:
        if self._bar is None:
            self._bar = _make_bar(self._file, self._now() - self._began)
        self._bar.n, self._bar.total = done, total
        self._bar.set_description_str(f"{self._name}: {what}", refresh=False)
        self._bar.refresh()

    def clear(self) -> None:
        """Take the line away until it is written again."""
        if self._bar is not None:
            self._bar.clear()


def _make_bar(file: TextIO | None, elapsed: float) -> Any:
    from tqdm.std import tqdm  # here and not above: only long compilations on a terminal need it

    tqdm.monitor_interval = 0  # no thread of its own
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
    bar.delay = 0  # it was only to say nothing before there is something to say
    return bar


def timing_table(timing: Mapping[str, float]) -> str:
    """Seconds per stage as rows of milliseconds and shares, with their sum."""
    total = sum(timing.values())
    rows = [("stage", "ms", "share")]
    for name, seconds in (*timing.items(), ("total", total)):
        rows.append((name, f"{1000 * seconds:,.1f}", f"{seconds / total if total else 1:.1%}"))
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    return "\n".join(
        f"{name:<{widths[0]}}  {time:>{widths[1]}}  {share:>{widths[2]}}" for name, time, share in rows
    )
