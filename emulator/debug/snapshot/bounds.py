"""Checks that the numbers of a saved state can result from a run.

A file with a valid checksum can still hold other numbers. A tile that has executed more instructions than any
limit, or whose queues count instructions that do not exist, would run without end.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from emulator.chip.pause import UNLIMITED
from emulator.chip.system import QUANTUM
from emulator.engines import queues, tables
from emulator.memory import state
from emulator.memory.areas import LINE_SHIFT
from emulator.tile.tile import Status, Tile

from .types import SnapshotError

Words = npt.NDArray[np.int64]

MOST = UNLIMITED // 2
"""Instructions that no run has executed, because that would take decades; as many may still follow."""
_LINE = (1 << LINE_SHIFT) - 1


def expect(what: str, found: int, low: int, high: int) -> None:
    """Raise SnapshotError for a number outside ``low`` .. ``high``."""
    if not low <= found <= high:
        raise SnapshotError(f"the saved state: {what}: found {found}, expected {low}..{high}")


def check_words(tile: Tile) -> None:
    """Raise SnapshotError when a word of the tile's state has a value that no run leaves."""
    for what, at, high in _most(tile):
        expect(f"tile {tile.number}, {what}", int(tile.words[at]), 0, high)


def _most(tile: Tile) -> Iterator[tuple[str, int, int]]:
    """Yield words of the state that are at least 0: their meaning, their position, their largest value."""
    worker = tile.workers - 1
    yield "register x0", state.X, 0
    yield "instructions executed", state.RETIRED, MOST
    yield "instructions executed before its last trap, plus one", state.TRAPPED, tile.retired + 1
    yield "whether several workers were used", state.SEVERAL, 1
    yield "worker of its last instruction", state.WORKER, worker
    yield "engine served last", state.TURN, queues.ENGINES - 1
    for engine in range(queues.ENGINES):
        yield f"worker that engine {engine} served last", state.SERVED + engine, worker
    yield "register fcsr", state.FCSR, 0xFF
    for what, at in (
        ("loads", state.LOADS),
        ("uncached loads", state.UNCACHED_LOADS),
        ("divisions", state.DIVISIONS),
        ("maintained cache lines", state.CACHE_LINES),
        ("maintained caches", state.CACHES),
    ):
        yield f"{what} that simulated time has not counted", at, tile.retired
    yield "worker of the first exception, as a bit", state.FIRST_EXCEPTION, 1 << worker
    yield "whether exceptions stop it", state.STOP_ON_EXCEPTION, 1


def check_barrier(tile: Tile, tiles: int) -> None:
    """Raise SnapshotError for a tile that waits at a barrier of other tiles: it would never end."""
    own, everyone = 1 << tile.number, (1 << tiles) - 1
    if tile.status is Status.BARRIER and not (tile.group & own and tile.group & ~everyone == 0):
        raise SnapshotError(
            f"the saved state: tile {tile.number} waits at the barrier of the tiles {tile.group:#x}, "
            f"expected a set with its bit {own:#x}, inside {everyone:#x}"
        )


def check_quantum(tile: Tile, end: int | None) -> None:
    """Raise SnapshotError unless the quantum of a tile can end after ``end`` instructions."""
    if end is None:
        return
    what = f"tile {tile.number}, instructions after which its quantum ends"
    expect(what, end, tile.retired + 1, tile.retired + QUANTUM)
    if tile.status is not Status.RUNNING:
        raise SnapshotError(
            f"the saved state: tile {tile.number} is {tile.status.value} and has a quantum that ends after "
            f"{end} instructions, expected none"
        )


def check_order(header: Words, numbers: list[int]) -> None:
    """Raise SnapshotError unless the queues of a worker begin with the oldest of these instructions."""
    following = int(header[queues.NEXT])
    expect("number of the next instruction of a queue", following, 0, MOST)
    oldest = numbers[0] if numbers else following
    expect("number of the oldest instruction of a queue", int(header[queues.OLDEST]), oldest, oldest)


def check_entry(tile: Tile, head: Words) -> None:
    """Raise SnapshotError when an instruction in a queue does not wait, or has another one's kernel."""
    expect("whether an instruction in a queue waits", int(head[queues.E_LIVE]), 1, 1)
    first = int(head[queues.E_RECORD]) * tables.SLOTS_PER_RECORD
    expect("kernel of an instruction in a queue", int(head[queues.E_SLOT]), first, first + tables.CHECKED - 1)
    for number in range(int(head[queues.E_RANGES])):
        _check_range(tile, head[queues.E_FIRST_RANGE + number * queues.RANGE_WORDS :].tolist())


def _check_range(tile: Tile, words: list[int]) -> None:
    """Check that the bytes of an instruction are in DDR or in SPM, and no more than it marks at most."""
    first, reach = words[queues.R_FIRST], words[queues.R_REACH]
    origin, size = (queues.DDR, state.DDR_BYTES) if first >= queues.DDR else (0, state.SPM_BYTES)
    last = origin + (int(tile.words[size]) - 1 | _LINE)
    expect("first byte of an instruction in a queue", first, origin, last)
    expect("last byte of an instruction in a queue", reach, first, last)
    expect("whether an instruction in a queue writes", words[queues.R_WRITE], 0, 1)
    expect("bytes of an instruction in a queue", words[queues.R_BYTES], 1, reach - first + 1)
