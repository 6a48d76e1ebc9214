"""Rows of the log for work that takes a core longer than the instructions it executes.

Compiled code counts loads, divisions and maintenance of the cache in the tile's state. First executions of
lines of code and kinds of commands are found here, from the program counters of the rows.
"""

from __future__ import annotations

from emulator.core.predecode import ENGINE, PARCEL
from emulator.memory import state
from emulator.native import compile_once
from emulator.native.primitives.memory import get, put, view_u8
from emulator.tile.tile import Tile
from tx8isa.numbers.primitives import u64
from tx8isa.riscv.hints import ENTERS

from . import layout

EFFORTS = [state.LOADS, state.UNCACHED_LOADS, state.DIVISIONS, state.CACHE_LINES, state.CACHES]
"""Counters of a tile for the next row of efforts."""


def leave_out(tile_state: int, head: int) -> None:
    """Exclude the core's work since it reached the library, or a row there, from simulated time."""
    retired = get(tile_state, state.RETIRED)
    put(head, layout.T_SKIPPED, get(head, layout.T_SKIPPED) + retired - get(head, layout.T_LIBRARY))
    put(head, layout.T_LIBRARY, retired)
    put(head, layout.T_FROM, get(tile_state, state.PC))
    put(head, layout.T_BEFORE, retired - get(head, layout.T_SKIPPED))
    put(tile_state, state.LOADS, 0)
    put(tile_state, state.UNCACHED_LOADS, 0)
    put(tile_state, state.DIVISIONS, 0)
    put(tile_state, state.CACHE_LINES, 0)
    put(tile_state, state.CACHES, 0)


def new_lines(tile_state: int, head: int, retired: int) -> int:
    """Record the lines of code before the program counter; return how many the tile executes first.

    They are the lines from the last row to here if as many instructions were executed, otherwise some lines
    before here.
    """
    pc, base = get(tile_state, state.PC), get(tile_state, state.CODE_BASE)
    index = (pc - base) // PARCEL
    if index < 0 or index >= get(tile_state, state.CODE_WORDS):
        return 0
    came, most = get(head, layout.T_FROM), 4 * (retired - get(head, layout.T_BEFORE))
    begin = came
    if came > pc or came + most < pc:
        begin = pc - min(most, layout.MOST_LINES << layout.CODE_LINE_SHIFT)
    word = get(get(tile_state, state.PLAIN) + 8 * index, 0)
    end = pc + (PARCEL * ((word >> 8) & 255) if word & 255 == ENGINE else 1) - 1
    put(head, layout.T_FROM, pc)
    put(head, layout.T_BEFORE, retired)
    first = (max(begin, base) >> layout.CODE_LINE_SHIFT) - (base >> layout.CODE_LINE_SHIFT)
    last = (end >> layout.CODE_LINE_SHIFT) - (base >> layout.CODE_LINE_SHIFT)
    known, found = get(head, layout.T_LINES), 0
    for line in range(first, last + 1):
        found += first_time(known, line)
    return found


def first_time(known: int, place: int) -> int:
    """Return 1 and set a byte to 1 if it was 0; else return 0."""
    seen = view_u8(known, place + 1)
    if seen[u64(place)] != 0:
        return 0
    seen[u64(place)] = 1
    return 1


def log_effort(tile_state: int, head: int, record: int) -> int:
    """Write a row of work that takes longer than its instructions, if there was any.

    ``record`` is the number of the engine instruction's record at the program counter, or -1. Returns the
    words used.
    """
    at = get(head, layout.T_AT)
    lines = 0
    if get(head, layout.T_LIBRARY) >= 0:
        leave_out(tile_state, head)
    else:
        lines = new_lines(tile_state, head, get(tile_state, state.RETIRED) - get(head, layout.T_SKIPPED))
    retired = get(tile_state, state.RETIRED) - get(head, layout.T_SKIPPED)
    kinds = first_time(get(head, layout.T_KINDS), record) if record >= 0 else 0
    loads, uncached = get(tile_state, state.LOADS), get(tile_state, state.UNCACHED_LOADS)
    divisions = get(tile_state, state.DIVISIONS)
    cached, caches = get(tile_state, state.CACHE_LINES), get(tile_state, state.CACHES)
    if lines + kinds + loads + uncached + divisions + cached + caches == 0:
        return at
    row = get(head, layout.T_LOG) + 8 * at
    put(row, layout.L_KIND, layout.EFFORT | layout.EFFORT_ROW << layout.LENGTH_SHIFT)
    put(row, layout.L_RETIRED, retired)
    put(row, layout.L_PC, get(tile_state, state.PC))
    put(row, layout.L_WORKER, 0)
    put(row, layout.L_EFFORT, lines)
    put(row, layout.L_EFFORT + 1, kinds)
    put(row, layout.L_EFFORT + 2, loads)
    put(row, layout.L_EFFORT + 3, uncached)
    put(row, layout.L_EFFORT + 4, divisions)
    put(row, layout.L_EFFORT + 5, cached)
    put(row, layout.L_EFFORT + 6, caches)
    put(tile_state, state.LOADS, 0)
    put(tile_state, state.UNCACHED_LOADS, 0)
    put(tile_state, state.DIVISIONS, 0)
    put(tile_state, state.CACHE_LINES, 0)
    put(tile_state, state.CACHES, 0)
    put(head, layout.T_EFFORT, get(head, layout.T_EFFORT) + layout.EFFORT_ROW)
    put(head, layout.T_AT, at + layout.EFFORT_ROW)
    return at + layout.EFFORT_ROW


def note_effort(tile_state: int, ended: int) -> int:
    """Write the row of efforts at the program's present place, unless it is at an engine instruction.

    ``ended``: 1 after the ecall that ends the program. The row belongs to the present place, because compiled
    code has not moved on.
    """
    pc, retired = get(tile_state, state.PC), get(tile_state, state.RETIRED)
    put(tile_state, state.PC, pc - 4 * ended)
    put(tile_state, state.RETIRED, retired - ended)
    log_effort(tile_state, get(tile_state, state.TIMING), -1)
    put(tile_state, state.PC, pc)
    put(tile_state, state.RETIRED, retired)
    return 0


def note_hint(number: int, tile_state: int) -> int:
    """Record that the program enters or leaves the library that builds packets.

    A command's published time through the C runtime (``issue.c_runtime``) covers the time between.
    """
    head = get(tile_state, state.TIMING)
    interrupt(tile_state, head, log_effort(tile_state, head, -1))
    put(head, layout.T_LIBRARY, get(tile_state, state.RETIRED) if number == ENTERS else -1)
    return 0


def interrupt(tile_state: int, head: int, used: int) -> None:
    """Record the words used, and interrupt the quantum when too few are left."""
    put(head, layout.T_AT, used)
    if used > get(head, layout.T_SIZE) - layout.LOG_MARGIN and get(tile_state, state.LIMIT) != 0:
        put(head, layout.T_FULL, get(tile_state, state.LIMIT))
        put(tile_state, state.LIMIT, 0)


def hint_kernel() -> int:
    """Return the address of the compiled ``note_hint``."""
    return compile_once(note_hint, "hints of the C runtime's library", 2)


def effort_kernel() -> int:
    """Return the address of the compiled ``note_effort``."""
    return compile_once(note_effort, "efforts of simulated time", 2)


def lines_of_code(tile: Tile) -> int:
    """Return the most lines of a tile's code, wherever in a line it begins and ends."""
    return (int(tile.words[state.CODE_WORDS]) * PARCEL >> layout.CODE_LINE_SHIFT) + 2


USED = (
    *(log_effort, leave_out, new_lines, first_time, interrupt, get, put, view_u8, PARCEL, ENGINE),
    *(state.CODE_BASE, state.CODE_WORDS, state.PLAIN, *EFFORTS),
)
"""Functions that the text of a caller of ``log_effort`` depends on."""
