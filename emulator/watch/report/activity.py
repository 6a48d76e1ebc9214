"""The activity of every track and its main kind of work, and the bytes on every path, by time."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from emulator.timing.slices import Track
from emulator.watch.bins import Axis, Floats, Ints, halved
from emulator.watch.stats.roofline import route
from tx8isa.machine.description import Machine

TRACKS = len(Track)


class Activity:
    """For each tile and track: the busy ticks of each bin, and the kind that takes most of them."""

    def __init__(self, tiles: int, axis: Axis) -> None:
        self._axis = axis
        self.busy = np.zeros((tiles, TRACKS, axis.bins), dtype=np.int64)
        self.kind = np.zeros(self.busy.shape, dtype=np.int64)
        self._longest = np.zeros(self.busy.shape, dtype=np.int64)

    def halve(self) -> None:
        """Adapt the bins after the axis has doubled their width."""
        second = self._longest[..., 1::2] > self._longest[..., ::2]
        for array in (self.kind, self._longest):
            half = np.where(second, array[..., 1::2], array[..., ::2])
            array[:] = 0
            array[..., : half.shape[-1]] = half
        self.busy = halved(self.busy)

    def add(self, slices: npt.NDArray[np.void], kinds: Ints) -> None:
        """Count slices; ``kinds`` are theirs."""
        parts = self._axis.cut(slices["started"], slices["ended"])
        line = slices["tile"].astype(np.int64) * TRACKS + slices["track"]
        cell = line[parts.row] * self._axis.bins + parts.bin
        np.add.at(self.busy.reshape(-1), cell, parts.length)
        falling = np.argsort(-parts.length, kind="stable")
        found, place = np.unique(cell[falling], return_index=True)
        piece = falling[place]  # the longest one of each bin; of equal ones the first
        longest, kind = self._longest.reshape(-1), self.kind.reshape(-1)
        longer = parts.length[piece] > longest[found]
        longest[found[longer]] = parts.length[piece[longer]]
        kind[found[longer]] = kinds[parts.row[piece[longer]]]


class PathTraffic:
    """Bytes by time: of each tile from and to DDR, and on each link of the mesh."""

    def __init__(self, tiles: int, links: Links, axis: Axis) -> None:
        self._axis, self._links = axis, links
        self.ddr: Floats = np.zeros((tiles, 2, axis.bins))
        self.link: Floats = np.zeros((len(links.ends), axis.bins))

    def halve(self) -> None:
        """Adapt the bins after the axis has doubled their width."""
        self.ddr, self.link = halved(self.ddr), halved(self.link)

    def add(self, slices: npt.NDArray[np.void]) -> None:
        """Count the bytes that slices moved, evenly over their time."""
        for way, field in enumerate(("ddr_read", "ddr_written")):
            rows = slices[slices[field] > 0]
            self._spread(self.ddr, rows["tile"].astype(np.int64) * 2 + way, rows, rows[field])
        target = slices["target"]
        here = (target >= 0) & (target < len(self.ddr))  # the others are on other chips
        rows = slices[(slices["track"] == Track.DTE) & here]
        line, row = self._links.ways(rows["tile"], rows["target"])
        moved = rows["spm_written"] + rows["ddr_written"]
        self._spread(self.link, line, rows[row], moved[row])

    def _spread(self, into: Floats, line: Ints, rows: npt.NDArray[np.void], moved: Ints) -> None:
        end = np.maximum(rows["ended"], rows["started"] + 1)
        parts = self._axis.cut(rows["started"], end)
        share = parts.length / (end - rows["started"])[parts.row]
        cell = line[parts.row] * self._axis.bins + parts.bin
        np.add.at(into.reshape(-1), cell, moved[parts.row] * share)


class Links:
    """The links of the mesh, and the links of a packet's route from one tile to another."""

    def __init__(self, machine: Machine) -> None:
        tiles = range(machine.tiles)
        ways = [route(machine, source, target) for source in tiles for target in tiles]
        self.ends = sorted({link for way in ways for link in way})
        """(from tile, to tile) by the link's number."""
        number = {link: at for at, link in enumerate(self.ends)}
        self._tiles = machine.tiles
        self._counts = np.array([len(way) for way in ways], dtype=np.int64)
        self._first = np.cumsum(self._counts) - self._counts
        self._links = np.array([number[link] for way in ways for link in way], dtype=np.int64)

    def ways(self, sources: npt.NDArray[Any], targets: npt.NDArray[Any]) -> tuple[Ints, Ints]:
        """Return the links of each packet: number of the link, number of the packet."""
        pair = sources.astype(np.int64) * self._tiles + targets
        counts = self._counts[pair]
        row = np.repeat(np.arange(len(pair)), counts)
        within = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
        return self._links[self._first[pair[row]] + within], row
