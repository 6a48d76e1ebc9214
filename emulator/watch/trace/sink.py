"""The sink of a trace: takes the slices of a run and writes the file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

from asm.image import Image
from emulator.timing.slices import TICKS, Batch
from emulator.watch.bins import Ints
from tx8isa.errors import Tx8Error
from tx8isa.machine.description import Machine

from .arrows import Arrows
from .counters import CounterTracks
from .file import PartOfTrace, TraceFile
from .nodes import NodeTrack
from .rows import Rows, is_sent
from .texts import Texts
from .tracks import ARRIVING, NODE, Tracks, thread

CHUNK = 8192
"""Number of slices that are written at once; small batches would cost more."""


class Trace:
    """A ``Sink`` that writes a trace; at any time it keeps a bounded part of it.

    ``program`` is the program's name in the trace. ``chip`` is its chip, if there are several; each chip
    writes a part. Tx8Error when ``path`` cannot be written. The file exists after ``close``; a failure to
    write it shows in ``error``, and ``finish`` raises it, so that the run's results are not lost. The end of
    a ``with`` block drops a trace that was not closed.
    """

    def __init__(
        self,
        path: str | Path | PartOfTrace,
        image: Image,
        machine: Machine,
        program: str = "",
        chip: int | None = None,
    ) -> None:
        self._file = path if isinstance(path, PartOfTrace) else TraceFile(path)
        self._program, self._machine = program, machine
        microseconds = 1e6 / (TICKS * machine.engines.clock.value)
        texts = Texts(image)
        self._rows = Rows(texts, machine, microseconds)
        self._tracks = Tracks(machine, chip)
        self._arrows = Arrows(machine.tiles, microseconds)
        self._nodes = NodeTrack(texts, machine.tiles, microseconds) if image.nodes else None
        self._counters = CounterTracks(machine, microseconds)
        self._kept: list[Batch] = []
        self._slices = self._end = 0
        self._file.add(self._tracks.processes())

    def take(self, batch: Batch) -> None:
        """Collect slices; they are written when there are enough."""
        for at in range(0, len(batch.slices), CHUNK):
            self._kept.append(_part(batch, at, at + CHUNK))
            if sum(len(kept.slices) for kept in self._kept) >= CHUNK:
                self._write()

    def close(self, ends: Sequence[int]) -> None:
        """Complete the file after the run or its stop. ``ends``: the tiles' ends in ticks."""
        self._write()
        self._arrows.end()
        end = max([self._end, *ends])
        if self._nodes:
            self._file.add(self._nodes.end())
        self._file.add(self._counters.events(end, self._tracks.chip))
        summary: dict[str, Any] = {
            "program": self._program,
            "machine": self._machine.name,
            "cycles": end / TICKS,
            "cycles of tiles": [ticks / TICKS for ticks in ends],
            "slices": self._slices,
            "arrows left out": self._arrows.lost,
        }
        self._file.finish(summary)

    @property
    def error(self) -> str | None:
        """The reason why the trace could not be written."""
        return self._file.error

    def finish(self) -> None:
        """Raise Tx8Error when the trace could not be written."""
        if self.error:
            raise Tx8Error(self.error)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.abandon()

    def _write(self) -> None:
        if not self._kept:
            return
        batch = Batch(*map(np.concatenate, zip(*self._kept, strict=True)))
        self._kept = []
        slices = batch.slices
        self._slices += len(slices)
        self._end = max(self._end, int(slices["ended"].max()))
        tile, track, worker = (slices[name].astype(np.int64) for name in ("tile", "track", "worker"))
        threads = self._tracks.threads(tile, track, worker, slices["started"], slices["ended"])
        self._file.add(self._tracks.announce(tile + 1, threads))
        self._file.add(self._rows.lines(batch, threads))
        self._add_copies(slices, threads)
        self._file.add(self._arrows.dependencies(batch, threads))
        if self._nodes:
            tiles = np.unique(tile)
            self._file.add(self._tracks.announce(tiles + 1, np.full_like(tiles, thread(NODE))))
            self._file.add(self._nodes.add(batch))
        self._counters.add(batch)

    def _add_copies(self, slices: np.ndarray, threads: Ints) -> None:
        """Show copies at their targets, with an arrow from the sender."""
        rows = is_sent(slices, self._machine.tiles)
        rows = rows[np.argsort(slices["ended"][rows], kind="stable")]  # needs fewer lanes
        sent = slices[rows]
        if not len(sent):
            return
        target, nothing = sent["target"].astype(np.int64), np.zeros(len(sent), dtype=np.int64)
        there = self._tracks.threads(target, nothing + ARRIVING, nothing, sent["started"], sent["ended"])
        self._file.add(self._tracks.announce(target + 1, there))
        self._file.add(self._rows.arriving(sent, there))
        tile = sent["tile"].astype(np.int64)
        self._file.add(self._arrows.copies(tile, threads[rows], target, there, sent["started"]))


def _part(batch: Batch, begin: int, end: int) -> Batch:
    """Return a copy of some rows, because the arrays of a batch may be reused."""
    slices, ranges, fields = batch
    return Batch(slices[begin:end].copy(), ranges[begin:end].copy(), fields[begin:end].copy())
