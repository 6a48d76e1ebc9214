"""The slices that the simulation has found, until Python takes them; plain functions that are compiled.

``c`` is the host address of the chip's state (``layout``), ``p`` the place of a tile in it.
"""

from __future__ import annotations

from emulator.engines import queues
from emulator.native.primitives.memory import get, put

from . import layout as a
from .slices import Cause, Track

_CORE, _DTE, _NOTHING = int(Track.CORE), int(Track.DTE), int(Cause.NOTHING)


def new_row(c: int, p: int) -> int:
    """Host address of the next slice, with what all slices of a tile have; its columns are not cleared."""
    row = get(c, a.H_OUT) + 8 * a.OUT_WORDS * get(c, a.H_OUT_ROWS)
    put(c, a.H_OUT_ROWS, get(c, a.H_OUT_ROWS) + 1)
    put(row, a.O_TILE, get(c, p + a.P_TILE))
    put(row, a.O_TARGET, -1)
    for column in range(a.O_SPM_READ, a.O_OPERATIONS + 1):
        put(row, column, 0)
    return row


def note_ranges(c: int, row: int, payload: int, ranges: int, fields: int, moved: int) -> None:
    """Copy ranges and operands behind a slice, and sum up the bytes: of each range ``moved``, -1: all."""
    at = a.O_RANGES
    for i in range(ranges):
        source = payload + i * queues.RANGE_WORDS
        first, size = get(c, source + queues.R_FIRST), get(c, source + queues.R_BYTES)
        written = get(c, source + queues.R_WRITE)
        put(row, at, first)
        put(row, at + 1, size)
        put(row, at + 2, written)
        at += 3
        column = (a.O_DDR_READ if first >= queues.DDR else a.O_SPM_READ) + written
        put(row, column, get(row, column) + (size if moved < 0 else moved))
    for column in range(at, a.O_FIELDS):
        put(row, column, 0)
    put(row, a.O_SOURCES, ranges)
    payload += ranges * queues.RANGE_WORDS
    for i in range(fields):
        put(row, a.O_FIELDS + i, get(c, payload + i))
    for i in range(fields, a.MOST_FIELDS):
        put(row, a.O_FIELDS + i, 0)


def emit_instruction(c: int, p: int, slot: int, ended: int) -> None:
    """The slice of an engine's instruction."""
    if get(c, a.H_EMIT) == 0:
        return
    row = new_row(c, p)
    put(row, a.O_WORKER, get(c, slot + a.S_WORKER))
    put(row, a.O_TRACK, get(c, slot + a.S_ENGINE))
    put(row, a.O_RECORD, get(c, slot + a.S_RECORD))
    put(row, a.O_CAUSE, get(c, slot + a.S_CAUSE))
    put(row, a.O_NUMBER, get(c, slot + a.S_NUMBER))
    put(row, a.O_PC, get(c, slot + a.S_PC))
    put(row, a.O_ISSUED, get(c, slot + a.S_ISSUED))
    put(row, a.O_STARTED, get(c, slot + a.S_STARTED))
    put(row, a.O_ENDED, ended)
    put(row, a.O_BLOCKED, get(c, slot + a.S_BLOCKED))
    put(row, a.O_BLOCKER, get(c, slot + a.S_BLOCKER))
    put(row, a.O_OPERATIONS, get(c, slot + a.S_OPERATIONS))
    moved, ranges, fields = get(c, slot + a.S_MOVED), get(c, slot + a.S_RANGES), get(c, slot + a.S_FIELDS)
    note_ranges(c, row, slot + a.S_PAYLOAD, ranges, fields, moved)


def emit_copy(c: int, p: int, m: int, ended: int) -> None:
    """The slice of a copy to one target."""
    if get(c, a.H_EMIT) == 0:
        return
    row = new_row(c, p)
    put(row, a.O_WORKER, 0)
    put(row, a.O_TRACK, _DTE)
    put(row, a.O_RECORD, get(c, m + a.M_RECORD))
    put(row, a.O_CAUSE, get(c, m + a.M_CAUSE))
    put(row, a.O_NUMBER, get(c, m + a.M_NUMBER))
    put(row, a.O_PC, get(c, m + a.M_PC))
    put(row, a.O_ISSUED, get(c, m + a.M_ISSUED))
    put(row, a.O_STARTED, get(c, m + a.M_ISSUED))
    put(row, a.O_ENDED, ended)
    put(row, a.O_BLOCKED, get(c, m + a.M_BLOCKED))
    put(row, a.O_BLOCKER, -1)
    put(row, a.O_TARGET, get(c, m + a.M_TARGET))
    note_ranges(c, row, m + a.M_PAYLOAD, get(c, m + a.M_RANGES), get(c, m + a.M_FIELDS), -1)


def emit_wait(c: int, p: int, cause: int, worker: int, pc: int) -> None:
    """The slice of a core that has waited since ``P_SINCE``, when that took any time."""
    since, now = get(c, p + a.P_SINCE), get(c, a.H_NOW)
    if get(c, a.H_EMIT) == 0 or now <= since:
        return
    row = new_row(c, p)
    put(row, a.O_WORKER, worker)
    put(row, a.O_TRACK, _CORE)
    put(row, a.O_RECORD, -1)
    put(row, a.O_CAUSE, cause)
    put(row, a.O_NUMBER, get(c, p + a.P_NUMBER))
    put(row, a.O_PC, pc)
    put(row, a.O_ISSUED, since)
    put(row, a.O_STARTED, since)
    put(row, a.O_ENDED, now)
    put(row, a.O_BLOCKED, now - since)
    put(row, a.O_BLOCKER, get(c, p + a.P_FREED))
    note_ranges(c, row, 0, 0, 0, -1)
