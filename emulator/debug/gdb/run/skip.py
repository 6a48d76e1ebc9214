"""Loads and stores that touch nothing watched, executed without coming back to Python each time.

A plain function that is compiled. ``Skip`` fills the words it works on.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

from emulator import native
from emulator.core.loop import host_address
from emulator.core.predecode import FIRST_SCALAR, Words
from emulator.engines import queues
from emulator.memory import state, stop
from emulator.native.primitives.memory import call_kernel, get, view_i64
from emulator.tile.tile import Tile
from tx8isa.numbers.primitives import s64, u64
from tx8isa.riscv.format import Kind, Scalar
from tx8isa.table import scalar as rv

RUN, ARMED, COUNT, KINDS = range(4)
"""Words of the block: address of the loop, of the program with marks, watches; then kinds by operation."""
WATCHES = KINDS + 256
"""Words behind which the watches stand, ``WATCH`` words each: first and last place, reads, writes."""
WATCH = 4
STORE = 1 << 8
"""Of a kind: it is a store; below it the bytes of the access."""


@cache
def operations(kind: Kind) -> dict[int, Scalar]:
    """The records of a kind, by their operation in a decoded word."""
    records = enumerate(rv.scalar_instructions())
    return {FIRST_SCALAR + number: record for number, record in records if record.kind == kind}


def misses(b: int, s: int, host: int, kind: int) -> bool:
    """Whether an access at a host address touches nothing watched."""
    place = host - get(s, state.SPM)
    if place < 0 or place >= get(s, state.SPM_BYTES):
        place = host - get(s, state.DDR) + queues.DDR
    last = place + (kind & (STORE - 1)) - 1
    for k in range(get(b, COUNT)):
        at = WATCHES + k * WATCH
        wanted = get(b, at + 3) if kind & STORE != 0 else get(b, at + 2)
        if wanted != 0 and place <= get(b, at + 1) and get(b, at) <= last:
            return False
    return True


def skip_misses(b: int, s: int) -> int:
    """Run a tile to its limit, or to anything that is no load or store that misses; a stop reason."""
    words = view_i64(s, u64(state.SIZE))
    limit = s64(words[u64(state.LIMIT)])
    reason = stop.LIMIT
    while s64(words[u64(state.RETIRED)]) < limit:
        words[u64(state.CODE)] = get(b, ARMED)
        words[u64(state.LIMIT)] = limit
        reason = call_kernel(get(b, RUN), s, 0)
        if reason != stop.ILLEGAL:
            break
        index = (s64(words[u64(state.PC)]) - s64(words[u64(state.CODE_BASE)])) >> 2
        if index < 0 or index >= s64(words[u64(state.CODE_WORDS)]) or get(get(b, ARMED), index) == 0:
            break
        word = get(s64(words[u64(state.PLAIN)]), index)
        kind = get(b, KINDS + (word & 255))
        if kind == 0:
            break
        address = get(s, (word >> 16) & 255) + (word >> 32)
        host = host_address(words, address, kind & (STORE - 1))
        if host == 0 or not misses(b, s, host, kind):
            break
        words[u64(state.CODE)] = s64(words[u64(state.PLAIN)])
        words[u64(state.LIMIT)] = s64(words[u64(state.RETIRED)]) + 1
        reason = call_kernel(get(b, RUN), s, 0)
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
        """As ``System.enter``, for a program with marks."""
        self._block[ARMED] = armed.ctypes.data
        return native.call(self._function, self._block.ctypes.data, tile.words.ctypes.data)
