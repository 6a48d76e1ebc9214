"""Counts the time of every engine and core, while a program runs (docs/stats.md).

Everything is a sum by tile, graph node, program counter, track or cause: memory grows with the program's
text and not with the length of the run. Times are ticks.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from functools import cache, cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from asm.image import Image
from emulator.engines import tables
from emulator.timing.replay import TimeRange
from emulator.timing.slices import Batch, Cause, Repeatable, Track
from tx8isa.machine.description import Machine

from . import roofline
from .finish import Finish, grown
from .places import Ints, Places, Recent

TRACKS, CAUSES = len(Track), len(Cause)
ENGINES = tuple(track for track in Track if track is not Track.CORE)
STRETCHED = (Cause.BANK, Cause.DDR, Cause.NOC)
"""Causes that lengthen an instruction; other causes delay its start, or stall the core."""
MOVED = ("spm_read", "spm_written", "ddr_read", "ddr_written")
_TOGETHER = Recent.REMEMBERED // 2
"""Number of slices that are counted at once; fewer slices wait for more."""


class _Rows(NamedTuple):
    """Slices by columns: the columns of ``SLICE`` in use, and the format of the operands."""

    tile: Ints
    track: Ints
    record: Ints
    cause: Ints
    number: Ints
    pc: Ints
    started: Ints
    ended: Ints
    blocked: Ints
    blocker: Ints
    target: Ints
    spm_read: Ints
    spm_written: Ints
    ddr_read: Ints
    ddr_written: Ints
    operations: Ints
    format: Ints


class Statistics:
    """A ``Sink`` that adds up cycles and counts by node and by place in the program.

    Arrays by node have a row for each of ``places.names``, and arrays by place for each of ``places.pcs``.
    They may have more rows, which are zeros.
    """

    def __init__(self, image: Image, machine: Machine) -> None:
        tiles = machine.tiles
        self.image, self.machine = image, machine
        self.places = Places(image.nodes)
        self.times = np.zeros((1, tiles, TRACKS, CAUSES), dtype=np.int64)
        """Ticks by node, tile, track and cause; NOTHING is service at the engine's own speed."""
        self.instructions = np.zeros((1, tiles, TRACKS), dtype=np.int64)
        self.moved = np.zeros((1, tiles, TRACKS, len(MOVED)), dtype=np.int64)
        """Bytes by node, tile, track and ``MOVED``."""
        self.operations = np.zeros((1, tiles, roofline.CLASSES), dtype=np.int64)
        """For each node, tile and class of arithmetic (``roofline``)."""
        self.sent = np.zeros((1, tiles, tiles), dtype=np.int64)
        """Bytes by node, sending and receiving tile."""
        self.held = np.zeros((tiles, TRACKS, TRACKS + 1), dtype=np.int64)
        """Ticks of DEPENDENCY by tile, track and the track of the blocker; the last: not known."""
        self.place_times = np.zeros((1, CAUSES), dtype=np.int64)
        """Ticks by place and cause, of all tiles; waits of the core at a place included."""
        self.place_instructions = np.zeros(1, dtype=np.int64)
        self.place_record = np.zeros(1, dtype=np.int64)
        """For each place: 1 + the record last executed there, 0 for none."""
        self.queued = np.zeros((tiles, TRACKS + 1), dtype=np.int64)
        """Ticks that the core waited for room, by tile and track of the queue; the last: not known."""
        self.finish = Finish(tiles)
        self.ends: tuple[int, ...] = (0,) * tiles
        self.range: TimeRange | None = None
        """Another sink of the run, if any, which determines its time at the ends of the figures' ranges."""
        self._recent = Recent(tiles)
        self._reached = np.zeros(tiles * TRACKS, dtype=np.int64)
        self._full: list[Ints] = [np.zeros(0, dtype=np.int64)] * 3
        """Tile, number, ticks: waits for room for an instruction that has not come yet."""
        self._rows = 0
        self._format_field, self._classes = _of_records()

    @cached_property
    def _pending(self) -> Ints:
        """Slices that were collected.

        Allocated late and large, so that no run waits for it at its beginning.
        """
        return np.empty((len(_Rows._fields), _TOGETHER), dtype=np.int64)

    # -- the sink --------------------------------------------------------------------------------------

    def take(self, batch: Batch) -> None:
        """Take slices that have become final."""
        field = self._format_field[batch.slices["record"]]
        formats = np.where(field >= 0, batch.fields[np.arange(len(field)), field], 0) & 15
        at = 0
        while at < len(formats):
            part = slice(at, at + _TOGETHER - self._rows)
            here = slice(self._rows, self._rows + len(formats[part]))
            rows = _Rows._make(self._pending[:, here])
            for name, column in zip(_Rows._fields[:-1], rows, strict=False):
                column[:] = batch.slices[name][part]
            rows.format[:] = formats[part]
            self._rows, at = here.stop, part.stop
            if self._rows == _TOGETHER:
                self._count()

    def close(self, ends: Sequence[int]) -> None:
        """Finish after the run; ``ends`` in ticks, by tile."""
        self._count()
        self._count_queues(len(self._full[0]))
        self.ends = tuple(ends)
        self.finish.close(self.ends)
        vars(self).pop("_pending", None)

    def findings(self) -> Statistics:
        """Return the sums of a run that is over, without the range of its time."""
        found = copy(self)
        found.range = None
        return found

    def repeat(self, found: Repeatable) -> bool:
        """Take over the sums of an equal run of the same program; False for findings of another kind."""
        if not isinstance(found, Statistics) or found.image is not self.image:
            return False
        vars(self).update(vars(found), range=self.range)
        return True

    @property
    def total(self) -> int:
        """Return the ticks from the start to the end of the last tile."""
        return max(self.ends)

    # -- counting --------------------------------------------------------------------------------------

    def _count(self) -> None:
        """Count the collected slices."""
        if not self._rows:
            return
        rows, self._rows = _Rows._make(self._pending[:, : self._rows]), 0
        place = self.places.rows(rows.pc)
        node = self.places.node[place]
        self._grow()
        is_core = rows.track == Track.CORE
        self._count_work(rows, place, node, ~is_core)
        self._count_times(rows, place, node)
        nodes = len(self.places.names)
        self.finish.take(rows.tile, rows.number, is_core.astype(np.int64), rows.ended, node, nodes)

    def _grow(self) -> None:
        nodes, places = len(self.places.names), len(self.places.pcs)
        for name in ("times", "instructions", "moved", "operations", "sent"):
            setattr(self, name, grown(getattr(self, name), nodes))
        for name in ("place_times", "place_instructions", "place_record"):
            setattr(self, name, grown(getattr(self, name), places))

    def _count_work(self, rows: _Rows, place: Ints, node: Ints, engine: npt.NDArray[np.bool_]) -> None:
        """Count instructions, bytes and operations."""
        new = engine.copy()
        copies = np.flatnonzero(rows.track == Track.DTE)  # one for each target, perhaps in several batches
        if len(copies):
            tile, number = rows.tile[copies], rows.number[copies]
            _, first = np.unique(tile << 44 | number, return_index=True)
            new[copies] = False
            new[copies[first]] = self._recent.tracks(tile[first], number[first]) < 0
            self._count_sent(rows, node, copies)
        self._recent.note(rows.tile[engine], rows.number[engine], rows.track[engine])
        np.add.at(self.place_instructions, place[new], 1)
        self.place_record[place[engine]] = rows.record[engine] + 1
        tiles = len(self.ends)
        cell = (node * tiles + rows.tile) * TRACKS + rows.track
        np.add.at(self.instructions.reshape(-1), cell[new], 1)
        for column, name in enumerate(MOVED):
            moved = getattr(rows, name)
            some = np.flatnonzero(moved)
            np.add.at(self.moved.reshape(-1), cell[some] * len(MOVED) + column, moved[some])
        some = np.flatnonzero(rows.operations)
        kind = self._classes[rows.record[some], rows.format[some]]
        cell = (node[some] * tiles + rows.tile[some]) * roofline.CLASSES + kind
        np.add.at(self.operations.reshape(-1), cell, rows.operations[some])

    def _count_sent(self, rows: _Rows, node: Ints, copies: Ints) -> None:
        target = rows.target[copies]
        some = copies[(target >= 0) & (target < len(self.ends))]  # the others are on other chips
        moved = rows.spm_written[some] + rows.ddr_written[some]
        np.add.at(self.sent, (node[some], rows.tile[some], rows.target[some]), moved)

    def _count_times(self, rows: _Rows, place: Ints, node: Ints) -> None:
        """Count ticks by cause; no tick of a tile's track is counted twice."""
        before = self._reach(rows)
        served = np.maximum(rows.ended - np.maximum(rows.started, before), 0)
        stretched = np.isin(rows.cause, STRETCHED)
        core = rows.track == Track.CORE
        waited = np.minimum(rows.blocked, np.maximum(rows.started - before, 0))
        lost = np.where(stretched, np.minimum(rows.blocked, served), waited)
        lost[core] = served[core]
        lost[rows.cause == Cause.NOTHING] = 0
        served = np.where(stretched, served - lost, served)
        served[core] = 0
        cell = ((node * len(self.ends) + rows.tile) * TRACKS + rows.track) * CAUSES
        np.add.at(self.times.reshape(-1), cell, served)
        np.add.at(self.times.reshape(-1), cell + rows.cause, lost)
        np.add.at(self.place_times.reshape(-1), place * CAUSES, served)
        here = rows.cause != Cause.PROGRAM  # which belongs to no place of the text
        np.add.at(self.place_times.reshape(-1), (place * CAUSES + rows.cause)[here], lost[here])
        self._count_holders(rows, lost)

    def _count_holders(self, rows: _Rows, lost: Ints) -> None:
        held = np.flatnonzero((rows.cause == Cause.DEPENDENCY) & (lost > 0))
        track = self._recent.tracks(rows.tile[held], rows.blocker[held])  # -1: the last column
        np.add.at(self.held, (rows.tile[held], rows.track[held], track), lost[held])
        full = np.flatnonzero((rows.cause == Cause.QUEUE) & (lost > 0))
        new = rows.tile[full], rows.number[full], lost[full]
        self._full = [np.concatenate(pair) for pair in zip(self._full, new, strict=True)]
        self._count_queues(max(len(self._full[0]) - _TOGETHER, 0))

    def _count_queues(self, most: int) -> None:
        """Count the full queues, also for the first ``most`` waits whose instruction has not arrived yet."""
        tile, number, ticks = self._full
        track = self._recent.tracks(tile, number)
        ready = (track >= 0) | (np.arange(len(tile)) < most)
        np.add.at(self.queued, (tile[ready], track[ready]), ticks[ready])
        self._full = [column[~ready] for column in self._full]

    def _reach(self, rows: _Rows) -> Ints:
        """Return the end of the slices of the same tile and track that started before each slice."""
        line = rows.tile * TRACKS + rows.track
        small = np.min_scalar_type(int(line.max()))  # a type that NumPy sorts by counting
        order = np.argsort(line.astype(small), kind="stable")
        is_first = np.diff(line[order], prepend=-1) != 0
        if not ((np.diff(rows.started[order], prepend=0) >= 0) | is_first).all():  # copies at the same time
            order = np.lexsort((rows.started, line))
        line, ended = line[order], rows.ended[order]
        group, first = np.cumsum(is_first) - 1, np.flatnonzero(is_first)
        span = max(int(ended.max()), int(self._reached.max())) + 1
        shifted = np.empty_like(ended)  # so that one running maximum serves all groups
        shifted[1:] = ended[:-1] + group[:-1] * span
        shifted[first] = self._reached[line[first]] + group[first] * span
        before = np.maximum.accumulate(shifted) - group * span
        last = np.append(first[1:] - 1, len(line) - 1)
        self._reached[line[last]] = np.maximum(before[last], ended[last])
        found: Ints = np.empty_like(before)
        found[order] = before
        return found


@cache
def _of_records() -> tuple[Ints, Ints]:
    """Return, for each record, its format operand and its class of arithmetic; -1 is no record."""
    headers = tables.table()[: len(tables.records()) * tables.HEADER].reshape(-1, tables.HEADER)
    formats = np.append(headers[:, tables.FORMAT], -1)
    return formats, np.vstack([roofline.classes(), np.full((1, 16), roofline.CLASSES - 1)])
