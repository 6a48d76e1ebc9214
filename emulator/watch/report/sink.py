"""The sink of the page: collects its contents, in memory that does not grow with the run."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from asm.image import Image
from emulator.timing.slices import TICKS, Batch
from emulator.watch.accesses import spm_accesses
from emulator.watch.bins import Axis
from emulator.watch.stats.sink import Statistics
from tx8isa.machine.description import Machine

from .activity import Activity, Links, PathTraffic
from .flows import Flows
from .kinds import Kinds, NodeNumbers
from .lines import Lines
from .lives import Lives
from .longest import Longest
from .residence import Residence

BINS = 2048
MOST_SLICES = 20_000
_TOGETHER = 1 << 15
"""Number of slices that are processed at once; fewer slices wait for more."""


class ReportSink:
    """A ``Sink`` that keeps sums by time and by place, and the longest slices.

    ``statistics`` is a sink of the same run, whose totals the page shows; it receives its slices elsewhere.
    """

    def __init__(self, image: Image, machine: Machine, statistics: Statistics) -> None:
        self.image, self.machine, self.statistics = image, machine, statistics
        tiles = machine.tiles
        self.axis = Axis(BINS, TICKS)
        self.kinds = Kinds(NodeNumbers(image.nodes))
        self.links = Links(machine)
        self.activity = Activity(tiles, self.axis)
        self.traffic = PathTraffic(tiles, self.links, self.axis)
        self.residence = Residence(tiles, self.axis)
        self.lives = Lives(image.live, tiles, machine.spm.bytes)
        self.longest = Longest(MOST_SLICES)
        self.lines = Lines(machine)
        self.flows = Flows(image)
        self.end = 0
        self._waiting: list[Batch] = []

    @property
    def cycles(self) -> float:
        """Length of the page's time axis: the run, or a cycle when it had none."""
        return max(self.end / TICKS, 1.0)

    def take(self, batch: Batch) -> None:
        """Take slices that have become final."""
        self._waiting.append(batch)
        if sum(len(waiting.slices) for waiting in self._waiting) >= _TOGETHER:
            self._look()

    def close(self, ends: Sequence[int]) -> None:
        """Finish after the run; ``ends`` in ticks, by tile."""
        self._look()
        self.end = max(self.end, *ends)

    def _look(self) -> None:
        waiting = [batch for batch in self._waiting if len(batch.slices)]
        self._waiting = []
        if waiting:
            joined = _joined(waiting)
            for at in range(0, len(joined.slices), _TOGETHER):
                part = slice(at, at + _TOGETHER)
                self._add(Batch(joined.slices[part], joined.ranges[part], joined.fields[part]))

    def _add(self, batch: Batch) -> None:
        slices = batch.slices
        self.end = max(self.end, int(slices["ended"].max()))
        for _ in range(self.axis.reach(self.end)):
            for part in (self.activity, self.traffic, self.residence):
                part.halve()
        kinds = self.kinds.of(slices)
        self.activity.add(slices, kinds)
        self.traffic.add(slices)
        accesses = spm_accesses(slices, batch.ranges)
        self.residence.add(slices, accesses, kinds)
        self.lives.add(slices, accesses)
        self.longest.add(slices, kinds)
        self.lines.add(batch, kinds)
        self.flows.add(slices, batch.ranges, self.kinds.nodes.of(slices["pc"]))


def _joined(batches: list[Batch]) -> Batch:
    return Batch(
        np.concatenate([batch.slices for batch in batches]),
        np.concatenate([batch.ranges for batch in batches]),
        np.concatenate([batch.fields for batch in batches]),
    )
