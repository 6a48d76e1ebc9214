"""Writes the slices of the simulation into a buffer for Python. Plain functions that are compiled.

``chip`` is the host address of the chip's state (``layout``), ``place`` the position of a tile in it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from emulator.engines import queues
from emulator.native.primitives.memory import get, put

from . import layout
from .slices import MOST_RANGES, SLICE, Batch, Cause, Track

_CORE, _DTE, _NOTHING = int(Track.CORE), int(Track.DTE), int(Cause.NOTHING)


def new_row(chip: int, place: int) -> int:
    """Return the host address of the next slice, with the number of its tile and 0 bytes and operations."""
    row = get(chip, layout.H_OUT) + 8 * layout.OUT_WORDS * get(chip, layout.H_OUT_ROWS)
    put(chip, layout.H_OUT_ROWS, get(chip, layout.H_OUT_ROWS) + 1)
    put(row, layout.O_TILE, get(chip, place + layout.P_TILE))
    put(row, layout.O_TARGET, -1)
    for column in range(layout.O_SPM_READ, layout.O_OPERATIONS + 1):
        put(row, column, 0)
    return row


def note_ranges(chip: int, row: int, payload: int, ranges: int, fields: int, moved: int) -> None:
    """Append ranges and operands to a slice, and add up the bytes: ``moved`` of each range, or all if it is
    -1."""
    at = layout.O_RANGES
    for i in range(ranges):
        source = payload + i * queues.RANGE_WORDS
        first, size = get(chip, source + queues.R_FIRST), get(chip, source + queues.R_BYTES)
        written = get(chip, source + queues.R_WRITE)
        put(row, at, first)
        put(row, at + 1, size)
        put(row, at + 2, written)
        at += 3
        column = (layout.O_DDR_READ if first >= queues.DDR else layout.O_SPM_READ) + written
        put(row, column, get(row, column) + (size if moved < 0 else moved))
    for column in range(at, layout.O_FIELDS):
        put(row, column, 0)
    put(row, layout.O_SOURCES, ranges)
    payload += ranges * queues.RANGE_WORDS
    for i in range(fields):
        put(row, layout.O_FIELDS + i, get(chip, payload + i))
    for i in range(fields, layout.MOST_FIELDS):
        put(row, layout.O_FIELDS + i, 0)


def emit_instruction(chip: int, place: int, slot: int, ended: int) -> None:
    """Write the slice of an engine's instruction."""
    if get(chip, layout.H_EMIT) == 0:
        return
    row = new_row(chip, place)
    put(row, layout.O_WORKER, get(chip, slot + layout.S_WORKER))
    put(row, layout.O_TRACK, get(chip, slot + layout.S_ENGINE))
    put(row, layout.O_RECORD, get(chip, slot + layout.S_RECORD))
    put(row, layout.O_CAUSE, get(chip, slot + layout.S_CAUSE))
    put(row, layout.O_NUMBER, get(chip, slot + layout.S_NUMBER))
    put(row, layout.O_PC, get(chip, slot + layout.S_PC))
    put(row, layout.O_ISSUED, get(chip, slot + layout.S_ISSUED))
    put(row, layout.O_STARTED, get(chip, slot + layout.S_STARTED))
    put(row, layout.O_ENDED, ended)
    put(row, layout.O_BLOCKED, get(chip, slot + layout.S_BLOCKED))
    put(row, layout.O_BLOCKER, get(chip, slot + layout.S_BLOCKER))
    put(row, layout.O_OPERATIONS, get(chip, slot + layout.S_OPERATIONS))
    moved, ranges, fields = (
        get(chip, slot + layout.S_MOVED),
        get(chip, slot + layout.S_RANGES),
        get(chip, slot + layout.S_FIELDS),
    )
    note_ranges(chip, row, slot + layout.S_PAYLOAD, ranges, fields, moved)


def emit_copy(chip: int, place: int, message: int, ended: int) -> None:
    """Write the slice of a copy to one target."""
    if get(chip, layout.H_EMIT) == 0:
        return
    row = new_row(chip, place)
    put(row, layout.O_WORKER, 0)
    put(row, layout.O_TRACK, _DTE)
    put(row, layout.O_RECORD, get(chip, message + layout.M_RECORD))
    put(row, layout.O_CAUSE, get(chip, message + layout.M_CAUSE))
    put(row, layout.O_NUMBER, get(chip, message + layout.M_NUMBER))
    put(row, layout.O_PC, get(chip, message + layout.M_PC))
    put(row, layout.O_ISSUED, get(chip, message + layout.M_ISSUED))
    put(row, layout.O_STARTED, get(chip, message + layout.M_ISSUED))
    put(row, layout.O_ENDED, ended)
    put(row, layout.O_BLOCKED, get(chip, message + layout.M_BLOCKED))
    put(row, layout.O_BLOCKER, -1)
    put(row, layout.O_TARGET, get(chip, message + layout.M_TARGET))
    note_ranges(
        chip,
        row,
        message + layout.M_PAYLOAD,
        get(chip, message + layout.M_RANGES),
        get(chip, message + layout.M_FIELDS),
        -1,
    )


def emit_wait(chip: int, place: int, cause: int, worker: int, pc: int) -> None:
    """Write the slice of a core that has waited since ``P_SINCE``, if that took any time."""
    since, now = get(chip, place + layout.P_SINCE), get(chip, layout.H_NOW)
    if get(chip, layout.H_EMIT) == 0 or now <= since:
        return
    row = new_row(chip, place)
    put(row, layout.O_WORKER, worker)
    put(row, layout.O_TRACK, _CORE)
    put(row, layout.O_RECORD, -1)
    put(row, layout.O_CAUSE, cause)
    put(row, layout.O_NUMBER, get(chip, place + layout.P_NUMBER))
    put(row, layout.O_PC, pc)
    put(row, layout.O_ISSUED, since)
    put(row, layout.O_STARTED, since)
    put(row, layout.O_ENDED, now)
    put(row, layout.O_BLOCKED, now - since)
    put(row, layout.O_BLOCKER, get(chip, place + layout.P_FREED))
    note_ranges(chip, row, 0, 0, 0, -1)


def make_batch(rows: npt.NDArray[np.int64], kept: bool) -> Batch:
    """Return slices for sinks, from the rows of the simulation; ``kept``: they may keep the batch."""
    slices = np.empty(len(rows), dtype=SLICE)
    names = SLICE.names
    assert names is not None
    for column, name in enumerate(names):
        slices[name] = rows[:, column]
    ranges = rows[:, layout.O_RANGES : layout.O_FIELDS].reshape(-1, MOST_RANGES, 3)
    fields = rows[:, layout.O_FIELDS :]
    return Batch(slices, ranges.copy(), fields.copy()) if kept else Batch(slices, ranges, fields)
