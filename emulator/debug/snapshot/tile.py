"""Words, queues and registers of a tile in a snapshot.

Host addresses are not kept: a restored tile has those of its system. Of the queues only waiting instructions
are saved, with the words that will still be read. So a snapshot depends only on the run.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import numpy.typing as npt

from emulator.engines import queues, tables
from emulator.engines.packets import PLACES
from emulator.memory import state
from emulator.tile.tile import Tile
from tx8isa.records.record import Engine

from .bounds import check_entry, check_order, check_words
from .types import SavedEntry, SnapshotError, Worker

Words = npt.NDArray[np.int64]

KEPT = (
    *range(state.X, state.X + 32),
    *range(state.F, state.F + 32),
    *range(state.SERVED, state.SERVED + 5),
    state.PC,
    state.RETIRED,
    state.SEVERAL,
    state.RANDOM,
    state.TURN,
    state.WORKER,
    state.FCSR,
    state.FIRST_EXCEPTION,
    state.STOP_ON_EXCEPTION,
    state.TRAPPED,
    state.ANSWER,
    state.LSU_TIMEOUT,
    state.LOADS,
    state.UNCACHED_LOADS,
    state.DIVISIONS,
    state.CACHE_LINES,
    state.CACHES,
)
"""Words of the state that a program can change and that have a meaning between two instructions."""
_BEHIND_RANGES = queues.E_FIRST_RANGE + queues.MAX_RANGES * queues.RANGE_WORDS


def array(data: bytes, count: int, what: str) -> Words:
    """Return ``count`` words; SnapshotError for another number."""
    if len(data) != 8 * count:
        raise SnapshotError(f"the saved state: its {what} have {len(data)} bytes, expected {8 * count}")
    return np.frombuffer(data, np.int64)


def save_words(tile: Tile) -> tuple[bytes, int]:
    """Return the kept words, and the worker whose registers ``state.WRITE_BACK`` means."""
    distance = int(tile.words[state.WRITE_BACK] - tile.words[state.REGISTERS])
    return tile.words[list(KEPT)].tobytes(), distance // (8 * PLACES)


def restore_words(tile: Tile, data: bytes, write_back: int) -> None:
    """Restore the words of ``save_words``."""
    if not 0 <= write_back < tile.workers:
        raise SnapshotError(f"the saved state names worker {write_back}, expected 0..{tile.workers - 1}")
    tile.words[list(KEPT)] = array(data, len(KEPT), "words")
    tile.words[state.NUMERIC] = 0
    tile.words[state.WRITE_BACK] = tile.block(write_back)[queues.RETURNED]
    check_words(tile)


def save_worker(tile: Tile, worker: int) -> Worker:
    """Return queues and registers of one worker."""
    block = tile.block(worker)
    header = block[: queues.HEAD].copy()
    header[queues.RETURNED] = 0
    idle = header[queues.COUNTS : queues.COUNTS + queues.ENGINES] == 0
    for column in (queues.HEADS, queues.TAILS):
        header[column : column + queues.ENGINES][idle] = 0
    numbers = range(int(block[queues.OLDEST]), int(block[queues.NEXT]))
    live = [number for number in numbers if block[queues.entry_at(number) + queues.E_LIVE]]
    entries = [_save_entry(block, number) for number in live]
    return Worker(header.tobytes(), entries, tile.registers(worker).tobytes())


def _save_entry(block: Words, number: int) -> SavedEntry:
    entry = block[queues.entry_at(number) :][: queues.ENTRY]
    head = entry[: queues.E_FIELDS].copy()
    head[queues.E_FIRST_RANGE + int(head[queues.E_RANGES]) * queues.RANGE_WORDS : _BEHIND_RANGES] = 0
    if number == block[queues.TAILS + int(head[queues.E_ENGINE])]:
        head[queues.E_FOLLOWER] = 0
    count = len(tables.records()[int(head[queues.E_RECORD])].operands)
    return SavedEntry(number, head.tobytes(), entry[queues.E_FIELDS : queues.E_FIELDS + count].tobytes())


def restore_worker(tile: Tile, worker: int, saved: Worker) -> None:
    """Restore the worker of ``save_worker``."""
    block = tile.block(worker)
    returned = block[queues.RETURNED]
    header = array(saved.header, queues.HEAD, "queues")
    block[:] = 0
    block[: queues.HEAD] = header
    block[queues.RETURNED] = returned
    _check_queues(header, saved.entries)
    for one in saved.entries:
        _restore_entry(block[queues.entry_at(one.number) :][: queues.ENTRY], one)
        check_entry(tile, block[queues.entry_at(one.number) :][: queues.E_FIELDS])
    tile.registers(worker)[:] = array(saved.registers, PLACES, "registers")


def _check_queues(header: Words, entries: list[SavedEntry]) -> None:
    first, end, pending = (int(header[at]) for at in (queues.OLDEST, queues.NEXT, queues.PENDING))
    inside = all(first <= entry.number < end for entry in entries)
    if not (0 <= end - first < queues.ENTRIES and inside and len(entries) == pending):
        raise SnapshotError(f"{len(entries)} instructions in the queues of a saved state, expected {pending}")
    numbers = [entry.number for entry in entries]
    if any(later <= earlier for earlier, later in pairwise(numbers)):
        raise SnapshotError(f"the instructions in the queues of a saved state do not ascend: {numbers}")
    check_order(header, numbers)
    for engine in range(queues.ENGINES):
        _check_queue(header, engine, entries)


def _check_queue(header: Words, engine: int, entries: list[SavedEntry]) -> None:
    """Check that an engine's instructions are linked in their order; another order would never end."""
    heads = {entry.number: array(entry.head, queues.E_FIELDS, "instructions") for entry in entries}
    numbers = [number for number, head in heads.items() if head[queues.E_ENGINE] == engine]
    ends = (numbers[0], numbers[-1]) if numbers else (0, 0)
    found = tuple(int(header[at + engine]) for at in (queues.COUNTS, queues.HEADS, queues.TAILS))
    linked = [int(heads[number][queues.E_FOLLOWER]) for number in numbers[:-1]]
    if found != (len(numbers), *ends) or linked != numbers[1:] or numbers != sorted(numbers):
        raise SnapshotError(f"the queue of {Engine(engine).name} in a saved state is not linked in its order")


def _restore_entry(entry: Words, saved: SavedEntry) -> None:
    head = array(saved.head, queues.E_FIELDS, "instructions")
    record, engine, ranges = (int(head[at]) for at in (queues.E_RECORD, queues.E_ENGINE, queues.E_RANGES))
    records = tables.records()
    known = 0 <= record < len(records) and engine == records[record].engine < queues.ENGINES
    if not known or not 0 <= ranges <= queues.MAX_RANGES:
        raise SnapshotError(
            f"the saved state has an instruction that is none: record {record}, engine {engine}"
        )
    entry[: queues.E_FIELDS] = head
    count = len(records[record].operands)
    entry[queues.E_FIELDS : queues.E_FIELDS + count] = array(saved.fields, count, "operands")
