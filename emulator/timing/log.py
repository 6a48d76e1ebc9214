"""The log of a tile, from which simulated time is computed, in the order of its program.

Compiled code appends engine instructions and waits through the hook that ``hooks.notify`` calls. Python
appends all other events (``TileLog``). A log that is nearly full interrupts the tile's quantum, so that the
simulation can process it before the tile continues.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from struct import pack_into

import numpy as np
import numpy.typing as npt

from emulator import native
from emulator.core.predecode import HINT
from emulator.engines import queues, tables
from emulator.engines.hooks import AWAITS, COPIED, EXITS, MOST_WORKERS, SENDS
from emulator.engines.issue import gather_arguments
from emulator.memory import state
from emulator.native import FixedMeaning, compile_generated
from emulator.native.primitives.memory import get, put, view_i64
from emulator.tile.events import Copy, Side
from emulator.tile.tile import Tile
from tx8isa.cost import instructions as cost
from tx8isa.cost.terms import run_bytes

from . import layout
from .efforts import EFFORTS, USED, hint_kernel, interrupt, lines_of_code, log_effort
from .mesh import log_copies
from .saved import LogState


def log_instruction(tile_state: int, head: int, row: int, what: int) -> int:
    """Write the row of an engine instruction, except for its costs; return the words used."""
    queue = get(tile_state, state.QUEUE) + 8 * queues.WORDS * get(tile_state, state.WORKER)
    record, ranges = get(what, queues.E_RECORD), get(what, queues.E_RANGES)
    fields = get(get(tile_state, state.RECORDS), record * tables.HEADER + tables.OPERANDS)
    put(row, layout.L_WORKER, get(tile_state, state.WORKER))
    put(row, layout.L_RECORD, record)
    put(row, layout.L_ENGINE, get(what, queues.E_ENGINE))
    put(row, layout.L_SERIAL, get(queue, queues.SERIAL))
    put(row, layout.L_PRIORITY, get(queue, queues.PRIORITY))
    put(row, layout.L_RANGES, ranges)
    put(row, layout.L_FIELDS, fields)
    at = layout.L_PAYLOAD
    for i in range(ranges * queues.RANGE_WORDS):
        put(row, at, get(what, queues.E_FIRST_RANGE + i))
        at += 1
    for i in range(fields):
        put(row, at, get(what, queues.E_FIELDS + i))
        at += 1
    put(row, layout.L_KIND, layout.ENGINE | at << layout.LENGTH_SHIFT)
    return at


def note_carried(head: int) -> int:
    """All copies that a tile has started are carried out; 1."""
    put(head, layout.T_CARRIED, get(head, layout.T_SENT))
    return 1


def log_event(tile_state: int, head: int, row: int, what: int) -> int:
    """Write the rows of an event; return 0 if the log should be processed first, else 1."""
    at = get(head, layout.T_AT)
    if what == SENDS:
        interrupt(tile_state, head, at + log_copies(tile_state, head, row))
        return 1
    if at > layout.LOG_PART:
        return 0
    kind, longer, first = layout.BARRIER, 0, get(tile_state, state.DETAIL + 1)
    if what == AWAITS:
        kind, longer = layout.AWAIT, layout.H_POLL if first == 0 else layout.H_CPI
        first = get(head, layout.T_SENT)
    elif what == EXITS:
        kind, first = layout.EXIT, 0
        put(row, layout.L_RETIRED, get(row, layout.L_RETIRED) + 1)  # an exit counts as executed
        put(row, layout.L_PC, get(row, layout.L_PC) + 4)
    put(row, layout.L_KIND, kind | layout.SHORT_ROW << layout.LENGTH_SHIFT)
    put(row, layout.L_WORKER, 0)
    put(row, layout.L_COST, longer)
    put(row, layout.L_FIRST, first)
    put(head, layout.T_AT, at + layout.SHORT_ROW)
    return 1


def gather(costs: int, record: int, count: int, first: int, queue: int, fields: int) -> int:
    """Lay out the arguments of one of a record's terms; return their number."""
    number = get(costs, record + count)
    gather_arguments(costs, record + first, number, queue, fields)
    return number


def generate_log() -> Callable[[int, int], int]:
    """Write the hook: (the event, address of the tile's state) -> result (``hooks``)."""
    evaluate = tables.write_dispatcher(list(cost.FUNCTIONS), queues.ARGUMENTS)

    def log(what: int, tile_state: int) -> int:
        head = get(tile_state, state.TIMING)
        if what == COPIED:
            return note_carried(head)
        at = log_effort(tile_state, head, get(what, queues.E_RECORD) if what >= MOST_WORKERS else -1)
        row = get(head, layout.T_LOG) + 8 * at
        put(row, layout.L_RETIRED, get(tile_state, state.RETIRED) - get(head, layout.T_SKIPPED))
        put(row, layout.L_PC, get(tile_state, state.PC))
        if what < 0:
            return log_event(tile_state, head, row, what)
        if what < MOST_WORKERS:
            put(row, layout.L_KIND, layout.WAIT | layout.SHORT_ROW << layout.LENGTH_SHIFT)
            put(row, layout.L_WORKER, what)
            put(row, layout.L_COST, layout.H_JOIN)
            interrupt(tile_state, head, at + layout.SHORT_ROW)
            return 0
        size = log_instruction(tile_state, head, row, what)
        queue = get(tile_state, state.QUEUE) + 8 * queues.WORDS * get(tile_state, state.WORKER)
        costs, record = get(head, layout.T_COSTS), get(row, layout.L_RECORD) * tables.COSTS
        fields = (what - queue) // 8 + queues.E_FIELDS
        put(row, layout.L_FIXED, get(costs, record + tables.C_FIXED))
        put(row, layout.L_EXCLUSIVE, get(costs, record + tables.C_EXCLUSIVE))
        gather(costs, record, tables.C_DATA_COUNT, tables.C_DATA_ARGUMENTS, queue, fields)
        put(row, layout.L_DATA, evaluate(get(costs, record + tables.C_DATA), queue))
        gather(costs, record, tables.C_OPERATIONS_COUNT, tables.C_OPERATIONS_ARGUMENTS, queue, fields)
        put(row, layout.L_OPERATIONS, evaluate(get(costs, record + tables.C_OPERATIONS), queue))
        put(row, layout.L_MOVED, -1)
        if gather(costs, record, tables.C_MOVED_COUNT, tables.C_MOVED_ARGUMENTS, queue, fields) != 0:
            put(row, layout.L_MOVED, evaluate(get(costs, record + tables.C_MOVED), queue))
        put(row, layout.L_RUNS, 0)
        if gather(costs, record, tables.C_RUNS_COUNT, tables.C_RUNS_ARGUMENTS, queue, fields) != 0:
            put(row, layout.L_RUNS, evaluate(get(costs, record + tables.C_RUNS), queue))
        interrupt(tile_state, head, at + size)
        return 0

    return log


@cache
def _meaning() -> FixedMeaning:
    """Return the parts from which the text of the hook is made."""
    functions = (*cost.FUNCTIONS, log_instruction, log_event, log_copies, note_carried, *USED)
    functions = (*functions, gather, gather_arguments)
    words = tuple(value for name, value in sorted(vars(layout).items()) if name.isupper())
    numbers = (
        MOST_WORKERS,
        SENDS,
        COPIED,
        tables.COSTS,
        tables.C_FIXED,
        tables.C_EXCLUSIVE,
        tables.C_DATA,
        tables.C_DATA_COUNT,
        tables.C_DATA_ARGUMENTS,
        tables.C_OPERATIONS,
        tables.C_OPERATIONS_COUNT,
        tables.C_OPERATIONS_ARGUMENTS,
        tables.C_MOVED,
        tables.C_MOVED_COUNT,
        tables.C_MOVED_ARGUMENTS,
        tables.C_RUNS,
        tables.C_RUNS_COUNT,
        tables.C_RUNS_ARGUMENTS,
        state.TIMING,
        state.DETAIL,
        state.RETIRED,
        state.PC,
        state.QUEUE,
        state.WORKER,
        queues.WORDS,
        queues.E_FIELDS,
        queues.ARGUMENTS,
    )
    return FixedMeaning((*functions, *words, *numbers))


def log_kernel() -> int:
    """Return the address of the compiled hook."""
    return compile_generated(generate_log, (_meaning(),), "log of simulated time", 2)


_SAVED = [
    *(layout.T_SKIPPED, layout.T_DROPPED, layout.T_EFFORT, layout.T_FROM, layout.T_BEFORE),
    layout.T_LIBRARY,
]


class TileLog:
    """The log of one tile, and rows that Python appends."""

    def __init__(
        self,
        tile: Tile,
        head: npt.NDArray[np.int64],
        rows: npt.NDArray[np.int64],
        costs: np.ndarray,
        effort: int,
    ) -> None:
        """``effort``: ``effort_kernel``."""
        self.tile, self.head, self.rows, self._costs = tile, head, rows, costs
        self._margin = self.rows.size - layout.LOG_MARGIN
        self.kinds = np.zeros(len(tables.records()), np.uint8)
        self.lines = np.zeros(lines_of_code(tile), np.uint8)
        self._note_effort = effort
        head[layout.T_KINDS], head[layout.T_LINES] = self.kinds.ctypes.data, self.lines.ctypes.data
        head[layout.T_LOG], head[layout.T_SIZE] = rows.ctypes.data, rows.size
        head[layout.T_COSTS], head[layout.T_LIBRARY] = costs.ctypes.data, -1

    def begin(self) -> None:
        """At first nothing has been executed."""
        self.progress = 0
        """Words of PROGRESS rows."""
        self.noted = -1
        """Instructions before the last row that Python has written."""
        self.kinds.fill(0)
        self.lines.fill(0)

    def watch(self, hook: int, library: bool) -> None:
        """Let the tile call the hook. ``library``: code in the C library takes no time."""
        words = self.tile.words
        words[state.HINT_HOOK] = hint_kernel() if library else 0
        words[state.TIMING_HOOK], words[state.TIMING] = hook, self.head.ctypes.data

    @property
    def used(self) -> int:
        """Words of the log that are filled."""
        return int(self.head[layout.T_AT])

    @property
    def written(self) -> int:
        """Words that have ever been written, without rows of PROGRESS and EFFORT."""
        rest = self.progress + int(self.head[layout.T_EFFORT])
        return int(self.head[layout.T_DROPPED]) + self.used - rest

    def append(self, kind: int, *values: int, worker: int = 0, retired: int | None = None) -> None:
        """Append a row; ``values`` are its words from ``L_COST``."""
        if kind != layout.PROGRESS:
            self.settle(ended=kind == layout.EXIT)
        size = max(layout.L_COST + len(values), layout.SHORT_ROW)
        at = self.used
        if retired is None:
            retired = self.tile.retired
        if self.head[layout.T_LIBRARY] >= 0:
            retired = min(retired, int(self.head[layout.T_LIBRARY]))
        self.noted = retired
        begin = (
            kind | size << layout.LENGTH_SHIFT,
            retired - int(self.head[layout.T_SKIPPED]),
            self.tile.pc,
            worker,
        )
        pack_into(f"{layout.L_COST + len(values)}q", self.rows.data, 8 * at, *begin, *values)
        self.head[layout.T_AT] = used = at + size
        if kind == layout.PROGRESS:  # between rounds, when there is no quantum to interrupt
            self.progress += size
        elif used > self._margin:
            interrupt(self.tile.words.ctypes.data, self.head.ctypes.data, used)

    def settle(self, ended: bool = False) -> None:
        """Append the core's longer work up to here, or its end."""
        native.call(self._note_effort, int(self.tile.words.ctypes.data), int(ended))

    def skip(self, instructions: int) -> None:
        """Exclude this many executed instructions, failed polls, from simulated time."""
        if instructions and self.head[layout.T_LIBRARY] < 0:
            self.head[layout.T_SKIPPED] += instructions
            self.tile.words[EFFORTS] = 0

    def interrupted(self) -> bool:
        """Return True if a full log ended the quantum early; its limit is restored."""
        limit = int(self.head[layout.T_FULL])
        if limit == 0:
            return False
        self.head[layout.T_FULL] = 0
        self.tile.words[state.LIMIT] = limit
        return self.tile.retired < limit

    def save(self, polls: Polls) -> LogState:
        """Return the counts, and the tile's failed polls."""
        skipped, dropped, efforts, came_from, before, library = self.head[_SAVED].tolist()
        places = came_from, before, library
        seen = self.kinds.tobytes(), self.lines.tobytes()
        return LogState(skipped, dropped, self.progress, efforts, *places, *seen, *polls.save())

    def restore(self, saved: LogState, rows: npt.NDArray[np.int64]) -> None:
        """Continue from the state of ``save``, and the rows that were not processed yet."""
        self.rows[: len(rows)] = rows
        self.head[[layout.T_AT, layout.T_FULL]] = len(rows), 0
        self.head[_SAVED[:3]] = saved.skipped, saved.dropped, saved.efforts
        self.head[_SAVED[3:]] = saved.came_from, saved.before, saved.library
        self.progress = saved.progress
        self.kinds[:] = np.frombuffer(saved.kinds, np.uint8)
        self.lines[:] = np.frombuffer(saved.lines, np.uint8)


def half_full(heads: npt.NDArray[np.int64]) -> list[int]:
    """Return the numbers of the tiles whose logs are more than half full; ``heads`` by tile."""
    found: list[int] = np.flatnonzero(
        2 * heads[:, layout.T_AT] > heads[:, layout.T_SIZE] - layout.LOG_MARGIN
    ).tolist()
    return found


def has_hints(tiles: Sequence[Tile]) -> bool:
    """Return True if a tile's code has a hint, which marks code of the library for C."""
    texts = {(int(tile.words[state.PLAIN]), int(tile.words[state.CODE_WORDS])) for tile in tiles}
    return any(bool((view_i64(text, words) & 255 == HINT).any()) for text, words in texts)


def drop(logs: Sequence[TileLog], heads: npt.NDArray[np.int64], words: npt.NDArray[np.int64]) -> None:
    """Remove rows that were processed, ``words`` by tile; the others move to the front."""
    left = heads[:, layout.T_AT] - words
    for number in np.flatnonzero((words > 0) & (left > 0)).tolist():
        rows, first = logs[number].rows, words[number]
        rows[: left[number]] = rows[first : first + left[number]].copy()
    heads[:, layout.T_AT] = left
    heads[:, layout.T_DROPPED] += words


def copy_payload(copy: Copy, sides: Sequence[tuple[Side, int]], fields: Sequence[int]) -> list[int]:
    """Return the sides of a copy, each marked if it is written, and operands as a row holds them."""
    words: list[int] = []
    for side, written in sides:
        first = side.start + (queues.DDR if side.in_ddr else 0)
        words += [first, first + copy.pieces.total - 1, written, copy.pieces.total]
    return [*words, *fields]


def runs_of_side(copy: Copy, side: Side) -> int:
    """Return the contiguous runs of DDR on one side of a copy."""
    if not side.in_ddr:
        return 0
    (first, second, third), (n, m, k) = side.strides, copy.pieces.trips
    run = run_bytes(copy.pieces.size, first, n, second, m, third, k)
    return copy.pieces.total // max(run, 1)


class Polls:
    """The failed polls of one tile since its last row in the log.

    The number of polls depends on the rounds of the run, so it must not affect time. From the first failed
    poll on, instructions take no time until the same load succeeds.
    """

    def __init__(self) -> None:
        self._written = -1
        self._places: dict[int, int] = {}
        """Instructions retired at the first failed poll, by the address of the load."""

    def in_vain(self, pc: int, retired: int, written: int) -> None:
        """Record a failed poll by a load at ``pc``; ``written`` as in ``TileLog``."""
        if written != self._written:
            self._written = written
            self._places.clear()
        self._places.setdefault(pc, retired)

    def polling(self, written: int) -> bool:
        """Return True if the tile's poll has failed and it has done nothing since."""
        return written == self._written and bool(self._places)

    def again(self, pc: int, written: int) -> bool:
        """Return True if the load at ``pc`` failed before, and the tile has done nothing since."""
        return self.polling(written) and pc in self._places

    def found(self, pc: int, retired: int, written: int) -> int:
        """Return the number of instructions that do not count, after the load at ``pc`` succeeded."""
        first = self._places.get(pc, retired) if written == self._written else retired
        self._places.clear()
        return retired - first

    def since(self, written: int, retired: int) -> int:
        """Return the number of instructions that certainly count."""
        if written != self._written:
            return retired
        return min(self._places.values(), default=retired)

    def save(self) -> tuple[int, dict[int, int]]:
        return self._written, dict(self._places)

    def restore(self, saved: LogState) -> None:
        self._written, self._places = saved.polled_at, dict(saved.polls)
