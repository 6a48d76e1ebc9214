"""Keeps the accesses and waits of a tile as rows, in the order of its program. Compiled."""

from __future__ import annotations

from collections.abc import Callable

from emulator.core.accesses import MAINTENANCE
from emulator.core.predecode import PARCEL
from emulator.engines import hooks, queues, tables
from emulator.engines.issue import gather_arguments
from emulator.memory import state
from emulator.memory.shadow_words import CORE, FLAG, IN_DDR, T_TILE
from emulator.native import compile_generated, compile_once
from emulator.native.primitives.memory import get, put
from emulator.watch.footprints import Loops, functions_written, write_footprints
from emulator.watch.strict.core_checks import may_be_flag
from tx8isa.numbers.primitives import u64
from tx8isa.table import footprint

from .rows import (
    ACCESS,
    CORE_AGENT,
    O_COUNT,
    O_LOST,
    O_ROOM,
    O_ROWS,
    R_AGENT,
    R_FIRST,
    R_KIND,
    R_LOOPS,
    R_PC,
    R_SPACE,
    R_WHAT,
    R_WRITTEN,
    ROW,
    WAIT,
)

_REMEMBERED = 48
"""Accesses of the core before a row among which an equal one is looked for."""


def new_row(tile: int, kind: int, agent: int, pc: int, what: int) -> int:
    """Return the address of a new row; the last one again when there is no room."""
    count = get(tile, O_COUNT)
    if count >= get(tile, O_ROOM):
        put(tile, O_LOST, 1)
        count -= 1
    put(tile, O_COUNT, count + 1)
    row = get(tile, O_ROWS) + 8 * ROW * count
    put(row, R_KIND, kind)
    put(row, R_AGENT, agent)
    put(row, R_PC, pc)
    put(row, R_WHAT, what)
    return row


def log_entry(tile_state: int, queue: int, entry: int, worker: int, loops: Loops) -> None:
    """Append a row for each operand in memory of an instruction."""
    tile, t = get(tile_state, state.SANITIZER), get(tile_state, state.RECORDS)
    record = get(queue, entry + queues.E_RECORD)
    row = get(t, record * tables.HEADER + tables.RANGE_ROWS) * tables.ROW
    at = entry + queues.E_FIRST_RANGE
    end = at + get(queue, entry + queues.E_RANGES) * queues.RANGE_WORDS
    for _ in range(get(t, record * tables.HEADER + tables.RANGES)):
        gather_arguments(
            t, row + tables.R_ARGUMENTS, get(t, row + tables.R_COUNT), queue, entry + queues.E_FIELDS
        )
        written = get(t, row + tables.R_WRITE)
        access = new_row(tile, ACCESS, 1 + worker, get(tile_state, state.PC), record)
        loops(get(t, row + tables.R_EXTENT), queue, written, access + 8 * R_LOOPS)
        empty = get(access, R_LOOPS) == 0 and get(access, R_LOOPS + footprint.SECOND) == 0
        if empty or at >= end:
            put(tile, O_COUNT, get(tile, O_COUNT) - 1)
        else:
            put(access, R_WRITTEN, written)
            put_place(access, get(queue, at + queues.R_FIRST), get(tile, T_TILE))
            at += queues.RANGE_WORDS
        row += tables.ROW


def put_place(row: int, first: int, tile: int) -> None:
    """Write the memory of an access, and its first byte there; ``first`` as in the ranges of an entry."""
    in_ddr = first >= queues.DDR
    put(row, R_SPACE, IN_DDR if in_ddr else tile)
    put(row, R_FIRST, first - queues.DDR if in_ddr else first)


def generate_hook() -> Callable[[int, int], int]:
    """Write the hook for ``hooks.notify``."""
    loops = write_footprints()

    def hook(what: int, tile_state: int) -> int:
        if what < hooks.MOST_WORKERS:
            new_row(get(tile_state, state.SANITIZER), WAIT, 1 + what, get(tile_state, state.PC), 0)
            return 0
        worker = get(tile_state, state.WORKER)
        queue = get(tile_state, state.QUEUE) + 8 * queues.WORDS * worker
        log_entry(tile_state, queue, (what - queue) >> 3, worker, loops)
        return 0

    return hook


def hook_kernel() -> int:
    """Return the address of the compiled hook."""
    functions = (*functions_written(), gather_arguments, new_row, log_entry, put_place, get, put)
    numbers = (
        hooks.MOST_WORKERS,
        state.SANITIZER,
        state.PC,
        state.WORKER,
        state.QUEUE,
        queues.WORDS,
        queues.ARGUMENTS,
        WAIT,
    )
    return compile_generated(generate_hook, (*functions, *numbers), "log of accesses", 2)


# -- the kernel core ---------------------------------------------------------------------------------------


def core_access(what: int, tile_state: int) -> int:
    """Append a load or store of the core; ``what`` and ``state.DETAIL`` as for the sanitizer.

    An access that repeats one since the last other event, or goes on where the last one ended, needs no row.
    """
    if what & MAINTENANCE != 0:
        return 0
    tile, size, host = get(tile_state, state.SANITIZER), what >> 1 & 127, get(tile_state, state.DETAIL)
    space, first = get(tile, T_TILE), host - get(tile_state, state.SPM)
    if u64(first) >= u64(get(tile_state, state.SPM_BYTES)):
        space, first = IN_DDR, host - get(tile_state, state.DDR)
    pc = get(tile_state, state.CODE_BASE) + PARCEL * (what >> 8)
    kind = FLAG if may_be_flag(tile_state, get(tile_state, state.DETAIL + 1), size) else CORE
    if repeats(tile, pc, kind, space, first, size) != 0:
        return 0
    row = new_row(tile, ACCESS, CORE_AGENT, pc, kind)
    put(row, R_WRITTEN, what & 1)
    put(row, R_SPACE, space)
    put(row, R_FIRST, first)
    put(row, R_LOOPS, size)
    for level in range(3):
        put(row, R_LOOPS + 1 + 2 * level, 0)
        put(row, R_LOOPS + 2 + 2 * level, 1)
    put(row, R_LOOPS + footprint.SECOND, 0)
    return 0


def repeats(tile: int, pc: int, kind: int, space: int, first: int, size: int) -> int:
    """Return 1 if an access since the last other event has these bytes, or can be made longer by them."""
    count = get(tile, O_COUNT)
    for back in range(1, min(count, _REMEMBERED) + 1):
        row = get(tile, O_ROWS) + 8 * ROW * (count - back)
        if get(row, R_KIND) != ACCESS or get(row, R_AGENT) != CORE_AGENT:
            return 0
        if get(row, R_PC) == pc and get(row, R_SPACE) == space and get(row, R_WHAT) == kind:
            begin, bytes_there = get(row, R_FIRST), get(row, R_LOOPS)
            if begin <= first and first + size <= begin + bytes_there:
                return 1
            if first == begin + bytes_there:
                put(row, R_LOOPS, bytes_there + size)
                return 1
    return 0


def check_kernel() -> int:
    """Return the address of the compiled log of the core's accesses."""
    return compile_once(core_access, "log of the core's accesses", 2)
