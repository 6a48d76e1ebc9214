"""Compiled code that serves a stopped tile: it ends the tile's program, and sets priorities.

The functions are plain ones that are compiled; ``tile_state`` is the address of a tile's state. Each returns
False if Python must serve the tile; it has then changed nothing that a repetition would notice.
"""

from __future__ import annotations

from collections.abc import Callable

from emulator.engines import hooks, queues
from emulator.engines.hooks import logged
from emulator.engines.issue import DRAIN, command
from emulator.memory import state
from emulator.native.primitives.memory import call_kernel, get, put, view_u8, view_u32
from tx8isa.numbers.primitives import s64, u64
from tx8isa.table import scalar as rv

from .environment import A0, A7, EXIT, EXIT_GROUP
from .ncc import PRIORITY, WRITABLE

Serve = Callable[[int], bool]
"""(tile_state)."""
_SD_BITS, _SD_SHIFT = 0x707F, 20
"""Bits that distinguish a store of 64 bits, and the position of its register's number."""


def word_at(tile_state: int) -> int:
    """Return the instruction of four bytes at which a tile has stopped; 0 for a shorter one."""
    at = get(tile_state, state.TEXT) + get(tile_state, state.PC) - get(tile_state, state.CODE_BASE)
    if view_u8(at, 1)[u64(0)] & 3 != 3:
        return 0
    return s64(view_u32(at, 1)[u64(0)])


def go_past_four(tile_state: int) -> None:
    """Count an instruction of four bytes, and go to the next."""
    put(tile_state, state.PC, get(tile_state, state.PC) + 4)
    put(tile_state, state.RETIRED, get(tile_state, state.RETIRED) + 1)


def _match(mnemonic: str) -> int:
    """Return the bits that all encodings of an instruction have in common."""
    (found,) = (record.match for record in rv.scalar_instructions() if record.mnemonic == mnemonic)
    return found


def make_exits() -> Serve:
    """Return the function that ends a program with status 0 at its ecall; Python serves other calls."""
    ecall = _match("ecall")

    def exits(tile_state: int) -> bool:
        ends = word_at(tile_state) == ecall and get(tile_state, state.X + A7) in (EXIT, EXIT_GROUP)
        if not ends or get(tile_state, state.X + A0) & 0xFF != 0:
            return False
        for worker in range(get(tile_state, state.WORKERS)):
            if s64(call_kernel(get(tile_state, state.ISSUE), command(DRAIN, worker), tile_state)) >= 0:
                return False
        if not logged(tile_state, hooks.EXITS):
            return False
        go_past_four(tile_state)
        return True

    return exits


def make_set_priority() -> Serve:
    """Return the function that executes a 64-bit store to a worker's priority, common in programs."""
    sd, bits = _match("sd"), WRITABLE[PRIORITY]

    def set_priority(tile_state: int) -> bool:
        word, offset = word_at(tile_state), get(tile_state, state.DETAIL) - get(tile_state, state.NCC)
        stride = get(tile_state, state.NCC_STRIDE)
        if word & _SD_BITS != sd or offset < 0 or offset % stride != PRIORITY:
            return False
        worker = offset // stride
        if worker >= get(tile_state, state.WORKERS):
            return False
        queue = get(tile_state, state.QUEUE) + 8 * queues.WORDS * worker
        put(queue, queues.PRIORITY, get(tile_state, state.X + (word >> _SD_SHIFT & 31)) & bits)
        go_past_four(tile_state)
        return True

    return set_priority
