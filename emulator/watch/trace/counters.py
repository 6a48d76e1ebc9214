"""Counter tracks of a trace: DDR traffic of the chip and of each tile, scratchpad in use, queue depth."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from emulator.engines.queues import ENGINES
from emulator.timing.slices import TICKS, Batch, Track
from emulator.watch.bins import Axis, Floats, Ints, Sums
from tx8isa.machine.description import Machine

from .scratchpad import ScratchpadUse

_BINS = 1024
_READ, _WRITTEN = 0, 1


class CounterTracks:
    """Collects the values of the counters; ``events`` writes them when the run is over.

    A counter has a value for each bin of time: the average over the bin; for the scratchpad the bytes in use
    at any time in it.
    """

    def __init__(self, machine: Machine, microseconds: float) -> None:
        self._machine, self._microseconds = machine, microseconds
        self._ddr = Sums(2 * machine.tiles, Axis(_BINS, TICKS))
        self._depth = Sums(ENGINES * machine.tiles, Axis(_BINS, TICKS))
        self._spm = ScratchpadUse(machine.tiles, machine.spm.bytes)

    def add(self, batch: Batch) -> None:
        """Take slices."""
        slices = batch.slices
        tile = slices["tile"].astype(np.int64)
        for kind, column in ((_READ, "ddr_read"), (_WRITTEN, "ddr_written")):
            rows = np.flatnonzero(slices[column])
            moved = slices[rows]
            self._ddr.add(2 * tile[rows] + kind, moved["started"], moved["ended"], moved[column])
        rows = np.flatnonzero(slices["track"] < ENGINES)
        queued = slices[rows]
        series = tile[rows] * ENGINES + queued["track"]
        waited = queued["started"] - queued["issued"]
        self._depth.add(series, queued["issued"], queued["started"], waited)
        self._spm.add(batch)

    def events(self, end: int, chip: int) -> Iterator[str]:
        """Yield all counters up to ``end`` (ticks).

        ``chip`` is the process for those that belong to no tile.
        """
        ticks_per_second = 1e6 / self._microseconds
        rates = self._ddr.rates() * (ticks_per_second / 1e9)
        for tile in [*range(self._machine.tiles), -1]:
            own = [rates[_READ::2].sum(axis=0), rates[_WRITTEN::2].sum(axis=0)]
            if tile >= 0:
                own = [rates[2 * tile], rates[2 * tile + 1]]
            if own[0].any() or own[1].any():
                values = {"read": own[0], "written": own[1]}
                pid = tile + 1 if tile >= 0 else chip
                yield from self._counter(pid, "DDR GB/s", values, self._ddr.axis.width, end)
        for tile in range(self._machine.tiles):
            yield from self._tile_events(tile, end)

    def _tile_events(self, tile: int, end: int) -> Iterator[str]:
        depth = self._depth.rates()[tile * ENGINES : (tile + 1) * ENGINES]
        values = {Track(e).name: depth[e] for e in range(ENGINES) if depth[e].any()}
        if values:
            yield from self._counter(tile + 1, "queue depth", values, self._depth.axis.width, end)
        used = self._spm.in_use(tile)
        if used:
            for name, amounts in zip(("SPM in use", "SPM written so far"), used, strict=True):
                yield from self._counter(tile + 1, name, {"bytes": amounts}, self._spm.axis.width, end)

    def _counter(
        self, pid: int, name: str, values: dict[str, Floats] | dict[str, Ints], width: int, end: int
    ) -> Iterator[str]:
        """Yield a counter with several values, at each change of one of them, and 0 at the end."""
        table = np.stack([np.round(column[: -(-end // width)], 3) for column in values.values()], axis=1)
        changes = np.flatnonzero((np.diff(table, axis=0, prepend=0) != 0).any(axis=1))
        arguments = ",".join(f'"{key}":%.12g' for key in values)
        template = f'{{"ph":"C","pid":{pid},"name":"{name}","ts":%.6f,"args":{{{arguments}}}}}'
        for at in changes.tolist():
            yield template % (at * width * self._microseconds, *table[at].tolist())
        yield template % (end * self._microseconds, *[0] * len(values))
