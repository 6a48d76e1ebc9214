"""Checks of the accesses of engines and copies. Plain functions that are compiled.

The hook is called for every engine instruction when it is issued and for every ``ncc.wait``.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from emulator.engines import queues, tables
from emulator.engines.hooks import MOST_WORKERS
from emulator.engines.issue import gather_arguments
from emulator.memory import state
from emulator.memory.shadow_words import (
    DDR_SHADOW,
    FULL,
    IN_DDR,
    IN_PLACE,
    NUMBER,
    OVERDUE,
    PIECE,
    SHUNNED,
    SPACE,
    T_AGENT,
    T_CONTEXT,
    T_COSTS,
    T_FACTS,
    T_SPM,
    T_TILE,
)
from emulator.native import compile_generated, compile_once
from emulator.native.inline import Names
from emulator.native.primitives.memory import get, put
from emulator.watch.footprints import Loops, functions_written, write_footprints
from tx8isa.cost.instructions import FUNCTIONS, TICKS
from tx8isa.cost.instructions import cost as cost_of
from tx8isa.machine.description import load_machine
from tx8isa.records.meaning import Elementwise
from tx8isa.records.record import Engine, Instruction
from tx8isa.table import footprint

from .access import begin, found, new_access, widen
from .order import join, tick
from .shadow import spoil, touch_nest

Hook = Callable[[int, int], int]
Cost = Callable[[int, int], int]
"""(number of a function of ``tx8isa.cost.instructions``, queues) -> ticks"""
TDMA = int(Engine.TDMA)
_FACTS, _SHUNNED = 3, 2
"""Words about a record, and the position of the one that marks a shunned record."""
_COPY_LOOPS = 6
"""Position of the loops in the words of ``copy_side``."""


# -- copies of the DTE -------------------------------------------------------------------------------------


def copy_side(words: int, context: int) -> int:
    """Check one side of a copy; words: agent, access, whether it writes, space, shadow, first byte, loops."""
    begin(context, get(words, 0), get(words, 1), get(words, 2))
    put(context, SPACE, get(words, 3))
    touch_nest(context, get(words, 4), get(words, 5), words + 8 * _COPY_LOOPS, 3)
    return 0


# -- engines -----------------------------------------------------------------------------------------------


def touch_loops(context: int, tile: int, first: int) -> None:
    """Access the loops at ``PIECE``, which begin at byte ``first``, counted as in the ranges of an entry."""
    shadow, at = get(tile, T_SPM), context + 8 * PIECE
    put(context, SPACE, get(tile, T_TILE))
    if first >= queues.DDR:
        shadow = get(context, DDR_SHADOW)
        put(context, SPACE, IN_DDR)
        first -= queues.DDR
    touch_nest(context, shadow, first, at, 3)
    if get(at, footprint.SECOND) != 0:
        touch_nest(context, shadow, first + get(at, footprint.SECOND - 1), at + 8 * footprint.SECOND, 2)


def touch_ranges(tile_state: int, queue: int, entry: int, write: int, loops: Loops) -> None:
    """Record the accesses of an entry: its reads, or its writes."""
    tile, t = get(tile_state, state.SANITIZER), get(tile_state, state.RECORDS)
    context = get(tile, T_CONTEXT)
    header = get(queue, entry + queues.E_RECORD) * tables.HEADER
    row = get(t, header + tables.RANGE_ROWS) * tables.ROW
    at = entry + queues.E_FIRST_RANGE
    end = at + get(queue, entry + queues.E_RANGES) * queues.RANGE_WORDS
    for _ in range(get(t, header + tables.RANGES)):
        gather_arguments(
            t, row + tables.R_ARGUMENTS, get(t, row + tables.R_COUNT), queue, entry + queues.E_FIELDS
        )
        loops(get(t, row + tables.R_EXTENT), queue, get(t, row + tables.R_WRITE), context + 8 * PIECE)
        empty = get(context, PIECE) == 0 and get(context, PIECE + footprint.SECOND) == 0
        if not empty and at < end:
            if get(t, row + tables.R_WRITE) == write:
                touch_loops(context, tile, get(queue, at + queues.R_FIRST))
            at += queues.RANGE_WORDS
        row += tables.ROW


def spoil_rests(tile_state: int, queue: int, entry: int) -> None:
    """Record the bytes after the results of CT and NE, up to the end of their last lines."""
    tile = get(tile_state, state.SANITIZER)
    for i in range(get(queue, entry + queues.E_RANGES)):
        at = entry + queues.E_FIRST_RANGE + i * queues.RANGE_WORDS
        first, end = (
            get(queue, at + queues.R_FIRST) + get(queue, at + queues.R_BYTES),
            get(queue, at + queues.R_REACH) + 1,
        )
        if get(queue, at + queues.R_WRITE) == 1 and first < end:
            spoil(get(tile, T_CONTEXT), get(tile, T_SPM), first, min(end, get(tile_state, state.SPM_BYTES)))


def replaces(tile: int, queue: int, entry: int) -> bool:
    """Return True if an entry works element by element and overwrites each operand with its result."""
    operands = get(tile, T_FACTS) + 8 * _FACTS * get(queue, entry + queues.E_RECORD)
    fields = entry + queues.E_FIELDS
    return get(operands, 0) >= 0 and get(queue, fields + get(operands, 0)) == get(
        queue, fields + get(operands, 1)
    )


def check_kind(tile_state: int, queue: int, entry: int) -> None:
    """Record a command that programs for a card avoid."""
    tile, record = get(tile_state, state.SANITIZER), get(queue, entry + queues.E_RECORD)
    if get(get(tile, T_FACTS) + 8 * _FACTS * record, _SHUNNED) != 0:
        put(get(tile, T_CONTEXT), SPACE, get(tile, T_TILE))
        found(get(tile, T_CONTEXT), SHUNNED, 0)


def facts_of_records() -> npt.NDArray[np.int64]:
    """Return for each record ``dst`` and ``src0`` if element-wise, or -1; and 1 if it is shunned."""
    facts = np.full((len(tables.records()), _FACTS), -1, np.int64)
    for number, record in enumerate(tables.records()):
        if isinstance(record.meaning, Elementwise):
            facts[number, :_SHUNNED] = record.index("dst"), record.index("src0")
        facts[number, _SHUNNED] = bool(record.shunned)
    return facts


def check_time(tile_state: int, queue: int, entry: int, cost: Cost) -> None:
    """Record a TDMA command that takes longer than the watchdog allows."""
    tile = get(tile_state, state.SANITIZER)
    context, t, record = (
        get(tile, T_CONTEXT),
        get(tile, T_COSTS),
        get(queue, entry + queues.E_RECORD) * tables.COSTS,
    )
    first, count = record + tables.C_DATA_ARGUMENTS, get(t, record + tables.C_DATA_COUNT)
    gather_arguments(t, first, count, queue, entry + queues.E_FIELDS)
    ticks = get(t, record + tables.C_FIXED) + cost(get(t, record + tables.C_DATA), queue)
    if ticks > TICKS * get(tile_state, state.LSU_TIMEOUT):
        put(context, SPACE, get(tile, T_TILE))
        pair = found(context, OVERDUE, 0)
        widen(pair, (ticks + TICKS - 1) // TICKS, get(tile_state, state.LSU_TIMEOUT))


def new_step(tile_state: int, context: int, worker: int, record: int) -> int:
    """Begin a worker's step for an instruction; return its access's number, 0 when the table is full."""
    core = get(get(tile_state, state.SANITIZER), T_AGENT)
    agent = core + 1 + worker
    join(context, agent, core)
    tick(context, core)
    return new_access(context, agent, tick(context, agent), get(tile_state, state.PC), record)


def generate_hook() -> Hook:
    """Write the hook for ``hooks.notify``."""
    loops, cost = write_footprints(), write_costs()

    def hook(what: int, tile_state: int) -> int:
        tile = get(tile_state, state.SANITIZER)
        context = get(tile, T_CONTEXT)
        if get(context, FULL) != 0:
            return 0
        if what < MOST_WORKERS:
            join(context, get(tile, T_AGENT), get(tile, T_AGENT) + 1 + what)
            return 0
        worker = get(tile_state, state.WORKER)
        queue = get(tile_state, state.QUEUE) + 8 * queues.WORDS * worker
        entry = (what - queue) >> 3
        number = new_step(tile_state, context, worker, get(queue, entry + queues.E_RECORD))
        if number == 0:
            return 0
        put(context, IN_PLACE, 1 if replaces(tile, queue, entry) else 0)
        for write in range(2):
            begin(context, get(tile, T_AGENT) + 1 + worker, number, write)
            touch_ranges(tile_state, queue, entry, write, loops)
        put(context, IN_PLACE, 0)
        if get(queue, entry + queues.E_ENGINE) <= queues.NE:
            spoil_rests(tile_state, queue, entry)
        if get(queue, entry + queues.E_ENGINE) == TDMA:
            check_time(tile_state, queue, entry, cost)
            check_kind(tile_state, queue, entry)
        return 0

    return hook


def write_costs() -> Cost:
    """Return a function that calls one of ``cost.FUNCTIONS`` by its number, for instructions of TDMA."""
    used = {cost_terms(record) for record in tables.records() if record.engine is Engine.TDMA}
    names = Names()
    read = names.name(get)
    lines = ["def cost(number, q):"]
    for function in sorted(used, key=FUNCTIONS.index):
        arguments = [f"{read}(q, {queues.ARGUMENTS + i})" for i in range(function.__code__.co_argcount)]
        lines.append(f"    if number == {FUNCTIONS.index(function)}:")
        lines.append(f"        return {names.call(function, arguments)}")
    lines.append("    return 0")
    return names.function("\n".join(lines), "cost")


def cost_terms(record: Instruction) -> Callable[..., int]:
    """Return the function of a record's data phase, which does not depend on the machine."""
    return cost_of(record, load_machine(None)).data.function


def hook_kernel() -> int:
    """Return the address of the compiled hook."""
    functions = (
        *functions_written(),
        touch_ranges,
        spoil_rests,
        replaces,
        put,
        new_step,
        join,
        begin,
        get,
        check_time,
        check_kind,
        *FUNCTIONS,
    )
    numbers = (
        state.SANITIZER,
        state.WORKER,
        state.QUEUE,
        T_CONTEXT,
        T_AGENT,
        FULL,
        IN_PLACE,
        NUMBER,
        MOST_WORKERS,
        queues.WORDS,
        queues.E_RECORD,
        queues.E_ENGINE,
        queues.NE,
        queues.ARGUMENTS,
        TDMA,
    )
    return compile_generated(generate_hook, (*functions, *numbers), "sanitizer of the engines", 2)


def copy_kernel() -> int:
    """Return the address of the compiled check of copies."""
    return compile_once(copy_side, "sanitizer of copies", 2)
