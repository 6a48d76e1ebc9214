"""The track that shows which graph node a tile works on.

Instructions of one node that follow each other in program order are a run. Engines work on several runs at
once, which the track shows one after another. A run begins with its first instruction, or at the end of the
run before if that is later, and ends with its last instruction. A run that ended before an older one is not
shown.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from operator import attrgetter

import numpy as np

from emulator.timing.slices import Batch, Track

from .texts import Texts
from .tracks import NODE, thread

_DISTANCE = 1024
"""Instructions after which an older run is complete."""


@dataclass
class _Run:
    """Instructions ``first`` .. ``last`` of a tile; times in ticks."""

    first: int
    last: int
    node: str
    started: int
    ended: int
    count: int


@dataclass
class _Tile:
    runs: list[_Run] = field(default_factory=list)
    """Runs that were not written yet, by their first instruction."""
    shown: int = 0
    """End of the last run that was written."""


class NodeTrack:
    """Collects runs; ``add`` and ``end`` yield the events of complete runs."""

    def __init__(self, texts: Texts, tiles: int, microseconds: float) -> None:
        self._texts, self._microseconds = texts, microseconds
        self._tiles = [_Tile() for _ in range(tiles)]

    def add(self, batch: Batch) -> Iterator[str]:
        """Take slices; yield the events of complete runs."""
        rows = batch.slices[batch.slices["track"] != Track.CORE]
        if not len(rows):
            return
        rows = rows[np.lexsort((rows["number"], rows["tile"]))]
        places, place = np.unique(rows["pc"], return_inverse=True)
        names = [self._texts.node(pc) for pc in places.tolist()]
        kinds = list(dict.fromkeys(names))
        node = np.array([kinds.index(name) for name in names])[place]
        changes = (np.diff(rows["tile"]) != 0) | (np.diff(node) != 0)
        edges = np.concatenate(([0], np.flatnonzero(changes) + 1))
        started = np.minimum.reduceat(rows["started"], edges)
        ended = np.maximum.reduceat(rows["ended"], edges)
        lasts = np.concatenate((edges[1:], [len(rows)])) - 1
        first, last = rows["number"][edges], rows["number"][lasts]
        columns = (first, last, node[edges], started, ended, lasts - edges + 1, rows["tile"][edges])
        for *run, tile in zip(*(column.tolist() for column in columns), strict=True):
            if name := kinds[run[2]]:
                self._insert(self._tiles[tile].runs, _Run(run[0], run[1], name, *run[3:]))
        for number, state in enumerate(self._tiles):
            newest = state.runs[-1].last if state.runs else 0
            while state.runs and state.runs[0].last < newest - _DISTANCE:
                yield from self._show(number, state.runs.pop(0))

    def end(self) -> Iterator[str]:
        """Yield the events of all other runs."""
        for number, state in enumerate(self._tiles):
            for run in state.runs:
                yield from self._show(number, run)
            state.runs = []

    @staticmethod
    def _insert(runs: list[_Run], run: _Run) -> None:
        """Insert a run in order, joined with its neighbours of the same node."""
        at = bisect_right(runs, run.first, key=attrgetter("first"))
        runs.insert(at, run)
        for left in (at, at - 1):
            if 0 <= left < len(runs) - 1 and runs[left].node == runs[left + 1].node:
                one, other = runs[left], runs.pop(left + 1)
                one.last, one.count = max(one.last, other.last), one.count + other.count
                one.started, one.ended = min(one.started, other.started), max(one.ended, other.ended)

    def _show(self, tile: int, run: _Run) -> Iterator[str]:
        state = self._tiles[tile]
        begin = max(run.started, state.shown)
        if run.ended <= begin:
            return
        state.shown = run.ended
        ts, dur, started = (t * self._microseconds for t in (begin, run.ended - begin, run.started))
        yield (
            f'{{"ph":"X","pid":{tile + 1},"tid":{thread(NODE)},"ts":{ts:.6f},"dur":{dur:.6f},"cat":"node",'
            f'"name":{json.dumps(run.node, ensure_ascii=False)},'
            f'"args":{{"instructions":{run.count},"first instruction starts":{started:.6f}}}}}'
        )
