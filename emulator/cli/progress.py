"""The progress line of a long run on a terminal, removed at the end."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TextIO

from emulator.tile.observer import Observer
from emulator.tile.tile import Status, Tile

if TYPE_CHECKING:
    from emulator.chip.system import System

_EVERY = 0.1
"""Least seconds between two updates."""
_LONG = 0.5
"""Seconds after which the line appears."""
_UNITS = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def show_progress(system: System, file: TextIO | None) -> None:
    """Show the progress of a run on ``file``, if it is a terminal; the program's output goes above it."""
    if file is None or not file.isatty():
        return
    progress = Progress(system.image.nodes, lambda: system.cycles, system.machine.engines.clock.value, file)
    system.observers.append(progress)
    show = system.show

    def show_beside(number: int, data: bytes) -> None:
        progress.clear()
        show(number, data)

    system.show = show_beside


def show_sizes(file: TextIO | None) -> Callable[[int, int], None] | None:
    """Return what shows how many of a program's sizes are judged, if ``file`` is a terminal."""
    if file is None or not file.isatty():
        return None

    def show(judged: int, sizes: int) -> None:
        if sizes > 1:
            end = "\n" if judged == sizes else ""
            print(f"\r{judged:,} of {sizes:,} sizes", end=end, file=file, flush=True)

    return show


class Progress(Observer):
    """Updates the line between rounds. ``cycles`` gives the simulated time so far, or None."""

    def __init__(
        self,
        nodes: Mapping[int, str],
        cycles: Callable[[], int | None],
        clock: float,
        file: TextIO,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._nodes, self._cycles, self._clock, self._file, self._now = nodes, cycles, clock, file, now
        self._began = now()
        self._next = self._began + _LONG
        self._starts: list[int] | None = None
        self._names: list[str] = []
        self._reached: dict[int, int] = {}
        self._bar: Any = None

    def round_ended(self, tiles: Sequence[Tile]) -> None:
        if self._now() >= self._next:
            self._show(tiles)
            self._next = self._now() + _EVERY

    def run_ended(self, tiles: Sequence[Tile]) -> None:
        if self._bar is not None:
            self._bar.close()

    def clear(self) -> None:
        """Remove the line until it is written again."""
        if self._bar is not None:
            self._bar.clear()

    def _show(self, tiles: Sequence[Tile]) -> None:
        done = self._done(tiles)
        if self._bar is None:
            self._bar = _make_bar(len(self._names), self._file, self._now() - self._began)
        self._bar.n = done
        self._bar.set_description_str(self._text(tiles, done), refresh=False)
        self._bar.refresh()

    def _done(self, tiles: Sequence[Tile]) -> int:
        """Return the number of nodes that the slowest tile has finished."""
        if self._starts is None:
            first: dict[str, int] = {}
            for address in sorted(self._nodes):
                first.setdefault(self._nodes[address], address)
            self._names, self._starts = list(first), list(first.values())
        for tile in tiles:
            node = self._nodes.get(tile.pc)
            at = len(self._names) if tile.status is Status.EXITED else 0
            if node is not None:
                at = bisect_right(self._starts, tile.pc) - 1
            self._reached[tile.number] = max(at, self._reached.get(tile.number, 0))
        return min(self._reached.values(), default=0)

    def _text(self, tiles: Sequence[Tile], done: int) -> str:
        engines = sum(int(tile.counts[:, 0].sum()) for tile in tiles)
        seconds = max(self._now() - self._began, 1e-9)
        parts = [f"{short(sum(tile.retired for tile in tiles))} instructions"]
        cycles = self._cycles()
        if cycles is not None:
            parts.append(f"{cycles / self._clock * 1e3:,.3f} ms simulated")
        parts.append(f"{short(engines / seconds)} engine instructions/s")
        if done < len(self._names):
            parts.append(f"node {done + 1} of {len(self._names)} '{self._names[done]}'")
        return ", ".join(parts)


def short(number: float) -> str:
    """Return a count in three or four figures: ``12.3 M``."""
    for unit, letter in _UNITS:
        if number >= unit:
            return f"{number / unit:.1f} {letter}"
    return f"{number:.0f}"


def _make_bar(nodes: int, file: TextIO, elapsed: float) -> Any:
    """Return a line that writes itself; with a bar and an estimate of the rest when there are nodes."""
    from tqdm.std import tqdm  # here and not above: only long runs on a terminal need it

    tqdm.monitor_interval = 0  # no thread of its own
    line = "{percentage:3.0f}% |{bar:12}| {elapsed} + {remaining}  {desc}" if nodes else "{elapsed}  {desc}"
    bar = tqdm(
        total=nodes or None,
        file=file,
        bar_format=line,
        leave=False,
        dynamic_ncols=True,
        mininterval=0,
        delay=1,
        position=0,
    )
    bar.start_t -= elapsed
    bar.delay = 0  # it only delayed the first output
    return bar
