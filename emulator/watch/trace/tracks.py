"""Tracks of a trace: a process for each tile, a thread for each queue.

Viewers draw slices that overlap on one thread as if one had called the other. So a slice that overlaps
another one, such as a copy to several targets, moves to a further lane of its track.
"""

from __future__ import annotations

import json

import numpy as np

from emulator.timing.slices import Track
from emulator.watch.bins import Ints
from tx8isa.machine.description import Machine

NODE, ARRIVING = 8, 9
"""Tracks of a trace in addition to ``Track``: graph nodes; copies from others to this tile."""
_ORDER = (
    NODE,
    Track.CORE,
    Track.CT,
    Track.NE,
    Track.RDMA,
    Track.WDMA,
    Track.TDMA,
    Track.SCALAR,
    Track.DTE,
    ARRIVING,
)
_NAMES = {NODE: "node", ARRIVING: "DTE in", Track.CORE: "core"}
_POSITION = np.argsort(np.array(_ORDER)) + 1
_TRACK_IDS, _WORKER_IDS = 10_000, 1000
_TRACKS, _WORKERS = 16, 16


def thread(track: int, worker: int = 0, lane: int = 0) -> int:
    """Return the thread id of a lane of a track, in the order in which they are shown."""
    return int(_POSITION[track]) * _TRACK_IDS + worker * _WORKER_IDS + lane


class Tracks:
    """Gives every slice its thread; ``announce`` names new threads."""

    def __init__(self, machine: Machine, chip: int | None = None) -> None:
        """``chip``: the number of the chip, if there are several."""
        self._machine, self._number = machine, chip
        self._ends: dict[int, list[int]] = {}
        self._said: set[int] = set()

    @property
    def chip(self) -> int:
        """Process id of events that belong to no tile."""
        return self._machine.tiles + 1

    def threads(self, tile: Ints, track: Ints, worker: Ints, begin: Ints, end: Ints) -> Ints:
        """Return thread ids of slices, given by columns; times in ticks."""
        group = (tile * _TRACKS + track) * _WORKERS + worker
        order = np.argsort(group.astype(np.uint16), kind="stable")
        lanes = np.zeros(len(group), dtype=np.int64)
        edges = np.flatnonzero(np.diff(group[order], prepend=-1))
        for first, rows in zip(edges, np.split(order, edges[1:]), strict=True):
            key = int(group[order[first]])
            lanes[rows] = self._lanes(self._ends.setdefault(key, [0]), begin[rows], end[rows])
        return _POSITION[track] * _TRACK_IDS + worker * _WORKER_IDS + lanes

    @staticmethod
    def _lanes(ends: list[int], begin: Ints, end: Ints) -> Ints | list[int]:
        """Return lanes of slices; ``ends`` has the end of each lane's last slice."""
        before = np.concatenate((ends[:1], end[:-1]))
        if len(ends) == 1 and bool((begin >= before).all()):
            ends[0] = int(end[-1])
            return np.zeros(len(begin), dtype=np.int64)
        lanes = []
        for started, ended in zip(begin.tolist(), end.tolist(), strict=True):
            lane = next((i for i, free in enumerate(ends) if free <= started), len(ends))
            ends[lane:] = [ended, *ends[lane + 1 :]]
            lanes.append(lane)
        return lanes

    def processes(self) -> list[str]:
        """Return metadata: names and order of the chip and its tiles."""
        own = "chip" if self._number is None else f"chip {self._number}"
        names = {self.chip: f"{own} ({self._machine.name})"}
        for tile in range(self._machine.tiles):
            x, y = self._machine.tile_xy(tile)
            of = "" if self._number is None else f"{own} "
            names[tile + 1] = f"{of}tile {tile} ({x},{y})"
        return [
            event
            for pid, name in names.items()
            for event in _named("process", pid, 0, name, 0 if pid == self.chip else pid)
        ]

    def announce(self, pids: Ints, tids: Ints) -> list[str]:
        """Return metadata of the threads that appear for the first time."""
        most = _TRACKS * _TRACK_IDS
        fresh = [pair for pair in np.unique(pids * most + tids).tolist() if pair not in self._said]
        self._said.update(fresh)
        threads = (divmod(pair, most) for pair in fresh)
        return [event for pid, tid in threads for event in _named("thread", pid, tid, _name(tid), tid)]


def _name(tid: int) -> str:
    track = _ORDER[tid // _TRACK_IDS - 1]
    worker, lane = divmod(tid % _TRACK_IDS, _WORKER_IDS)
    name = _NAMES.get(track) or Track(track).name
    return name + (f" worker {worker}" if worker else "") + (f" ({lane + 1})" if lane else "")


def _named(what: str, pid: int, tid: int, name: str, order: int) -> list[str]:
    head = f'{{"ph":"M","pid":{pid},"tid":{tid},'
    return [
        f'{head}"name":"{what}_name","args":{{"name":{json.dumps(name)}}}}}',
        f'{head}"name":"{what}_sort_index","args":{{"sort_index":{order}}}}}',
    ]
