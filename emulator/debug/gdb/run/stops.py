"""The reasons why a program under the debugger has stopped."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from emulator.memory import stop
from emulator.tile.fault import Fault


class Signal(IntEnum):
    """GDB's numbers of signals (GDB, include/gdb/signals.def)."""

    NONE = 0
    INT = 2
    ILL = 4
    TRAP = 5
    ABRT = 6
    FPE = 8
    BUS = 10
    SEGV = 11
    XCPU = 24


_SIGNALS = {
    stop.LIMIT: Signal.XCPU,
    stop.JUMP: Signal.SEGV,
    stop.MEMORY: Signal.SEGV,
    stop.RANGE: Signal.SEGV,
    stop.ALIGNMENT: Signal.BUS,
    stop.EXCEPTION: Signal.FPE,
}
"""Signals by stop reason; all other reasons are instructions that cannot be executed."""


def fault_signal(reason: int) -> Signal:
    """Return the signal for a fault."""
    return _SIGNALS.get(reason, Signal.ILL)


@dataclass(frozen=True)
class Stop:
    """All tiles have stopped because of ``tile``. ``text`` is shown to the user."""

    tile: int
    signal: Signal = Signal.TRAP
    text: str = ""
    watch: str = ""
    """``watch:30410000`` and the like: the watchpoint that was hit."""
    done: bool = False
    """True if the watched access has happened; if not, it happens when the tile continues."""
    fatal: bool = False
    """True if the program ends when it continues with the signal, as a process would."""
    oldest: bool = False
    """True at the beginning of the history."""


@dataclass(frozen=True)
class Ended:
    """The program has ended; ``fault`` says why, for an exit status other than 0."""

    code: int = 0
    fault: Fault | None = None
