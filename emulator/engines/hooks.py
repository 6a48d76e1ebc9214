"""Hooks that compiled code calls when an engine instruction is issued or a wait has ended.

The hook of simulated time is also called if a tile sends copies, waits for them, reaches a barrier or exits.
Simulated time and the sanitizer have one hook each. The addresses are words of a tile's state, 0 without a
hook.
"""

from __future__ import annotations

from emulator.memory import state
from emulator.native.primitives.memory import call_kernel, get, view_i64
from tx8isa.numbers.primitives import u64

MOST_WORKERS = 16
"""A hook's first argument below this is a worker whose queues a wait has emptied; any other is the host
address of the entry that was issued (``queues``: ``E_*``), whose worker is in ``state.WORKER``. The program
counter is still on the instruction. The hook's result is ignored, except for the events below."""
AT_BARRIER = -1
"""First argument: the tile is at a barrier, whose set of tiles is in the second word of ``state.DETAIL``."""
EXITS = -2
"""First argument: the tile is about to exit, its program counter is on the instruction."""
SENDS = -3
"""First argument: the tile sends a copy. The second word of ``state.DETAIL`` is the host address of its note
(``tile.notes``); its operands are in the entry being built."""
AWAITS = -4
"""First argument: the tile waits for its copies; the second word of ``state.DETAIL`` is 0 if none is under
way."""
COPIED = -5
"""First argument: between rounds, all copies of the tile were carried out."""


def notify(s: int, what: int) -> None:
    """Call the hooks of the tile whose state is at ``s``. Compiled."""
    words = view_i64(s, u64(state.SIZE))
    if words[u64(state.TIMING_HOOK)] != 0:
        call_kernel(words[u64(state.TIMING_HOOK)], what, s)
    if words[u64(state.SANITIZER_HOOK)] != 0:
        call_kernel(words[u64(state.SANITIZER_HOOK)], what, s)


def logged(s: int, what: int) -> bool:
    """Log an event for simulated time, if time is simulated; False if Python has to log it. Compiled."""
    hook = get(s, state.TIMING_HOOK)
    return hook == 0 or call_kernel(hook, what, s) != 0
