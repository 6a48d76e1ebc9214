"""Executes loads and stores of unwatched bytes without returning to Python each time.

``skip_misses`` is a plain function that is compiled. ``block`` is the address of the words that ``Skip``
fills.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

from emulator import native
from emulator.core.accesses import host_address
from emulator.core.predecode import PARCEL, Words, operation_records
from emulator.engines import queues
from emulator.memory import state, stop
from emulator.native.primitives.memory import call_kernel, get, view_i64
from emulator.tile.tile import Tile
from tx8isa.numbers.primitives import s64, u64
from tx8isa.riscv.format import Kind, Scalar

# -- words of the block
RUN = 0  # address of the compiled loop
ARMED = 1  # address of the program with marks
COUNT = 2  # number of watches
KINDS = 3  # by operation: bytes of the access, + STORE; 0: no load or store
WATCHES = KINDS + 256  # the watches

# -- words of a watch
FIRST = 0  # first place
LAST = 1  # last place
READS = 2  # 1: it is for reads
WRITES = 3  # 1: it is for writes
WATCH = 4

STORE = 1 << 8


@cache
def operations(kind: Kind) -> dict[int, Scalar]:
    """Return the records of a kind, by their operation in a decoded word."""
    return {
        operation: record for operation, (record, _) in operation_records().items() if record.kind == kind
    }


def misses(block: int, tile_state: int, host: int, kind: int) -> bool:
    """Return True if an access at a host address touches no watched bytes."""
    place = host - get(tile_state, state.SPM)
    if place < 0 or place >= get(tile_state, state.SPM_BYTES):
        place = host - get(tile_state, state.DDR) + queues.DDR
    last = place + (kind & (STORE - 1)) - 1
    for k in range(get(block, COUNT)):
        at = WATCHES + k * WATCH
        wanted = get(block, at + WRITES) if kind & STORE != 0 else get(block, at + READS)
        if wanted != 0 and place <= get(block, at + LAST) and get(block, at + FIRST) <= last:
            return False
    return True


def skip_misses(block: int, tile_state: int) -> int:
    """Run a tile to its limit, or to anything but loads and stores that miss; return a stop reason."""
    words = view_i64(tile_state, u64(state.SIZE))
    limit = s64(words[u64(state.LIMIT)])
    reason = stop.LIMIT
    while s64(words[u64(state.RETIRED)]) < limit:
        words[u64(state.CODE)] = get(block, ARMED)
        words[u64(state.LIMIT)] = limit
        reason = call_kernel(get(block, RUN), tile_state, 0)
        if reason != stop.ILLEGAL:
            break
        index = (s64(words[u64(state.PC)]) - s64(words[u64(state.CODE_BASE)])) // PARCEL
        if index < 0 or index >= s64(words[u64(state.CODE_WORDS)]) or get(get(block, ARMED), index) == 0:
            break
        word = get(s64(words[u64(state.PLAIN)]), index)
        kind = get(block, KINDS + (word & 255))
        if kind == 0:
            break
        address = get(tile_state, (word >> 16) & 255) + (word >> 32)
        host = host_address(words, address, kind & (STORE - 1))
        if host == 0 or not misses(block, tile_state, host, kind):
            break
        words[u64(state.CODE)] = s64(words[u64(state.PLAIN)])
        words[u64(state.LIMIT)] = s64(words[u64(state.RETIRED)]) + 1
        reason = call_kernel(get(block, RUN), tile_state, 0)
        words[u64(state.LIMIT)] = limit
        if reason != stop.LIMIT:
            break
    return reason


class Skip:
    """The compiled function with the watchpoints it knows. ``run`` is the address of the loop."""

    def __init__(self, run: int, watches: Sequence[tuple[int, int, bool, bool]]) -> None:
        self._block = np.zeros(WATCHES + WATCH * len(watches), dtype=np.int64)
        self._block[RUN], self._block[COUNT] = run, len(watches)
        for kind, flag in (("load", 0), ("store", STORE)):
            for operation, record in operations(kind).items():
                self._block[KINDS + operation] = record.width | flag
        self._block[WATCHES:] = np.array(watches, dtype=np.int64).reshape(-1)
        self._function = native.compile_kernel(skip_misses, "watchpoints", 2)

    def enter(self, tile: Tile, armed: Words) -> int:
        """Run a tile as ``System.enter`` does, for a program with marks."""
        self._block[ARMED] = armed.ctypes.data
        return native.call(self._function, self._block.ctypes.data, tile.words.ctypes.data)
